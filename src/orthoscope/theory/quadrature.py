r"""Gauss–Legendre quadrature of an activation against one Gaussian (`gaussian_rule`) and two (`gaussian_pairs`).

Panels are split at the kinks of the activation and halved until its Legendre series on each of them has converged.
$\tanh(30x)/30$ bends within 0.05 around 0, $\sin(10x)/10$ everywhere: expectations of products $\phi(X)\phi(Y)$ of two
Gaussians are split at the narrow panels of the former and use shorter even panels for the latter (`panels`).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity

ORDER = 24  # Gauss-Legendre nodes per panel: the square of a resolved function is integrated exactly
WIDEST = 3.0  # panel on which the Gaussian density itself is resolved
REACH = 40.0  # the support of φ² times the density is searched for up to this |x|
DECAY = 75.0  # φ² times the density has fallen by exp(-75) at the ends: amplitudes by 5e-17
BULK = 9.0  # the density falls by exp(-40)
MAX_PANELS = 4000
NARROWEST = 1e-100  # 1/x is unresolved at any width

_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(ORDER))
# Values at the nodes to Legendre coefficients: (2k+1)/2 ∫ φ P_k.
_TO_COEFFICIENTS = (
    torch.from_numpy(np.polynomial.legendre.legvander(_LEGENDRE_NODES.numpy(), ORDER - 1)).T
    * _LEGENDRE_WEIGHTS
    * (torch.arange(ORDER, dtype=torch.float64)[:, None] + 0.5)
)
_TAIL = 3  # the last coefficients, which must vanish
_ROUNDING = 5e-14  # noise of the transform; such a tail changes E φ² by its square
_SCALES = 40  # down to 2e-12
_MISSED = 1e-6  # relative error that is not rounding but a peak between the nodes

# Of two Gaussians:
PANEL_REACH = 9.0  # beyond 9 standard deviations a Gaussian has the mass 2e-19
EVEN = 3.6  # standard deviations: 24 nodes are exact to rounding for functions that vary on the scale of one
MAX_PAIR_NODES = 6_000_000
_PAIR_TOLERANCE = 2.5e-6  # of the last coefficients; integrals of squares have its square, 6e-12, as error
_PAIR_NARROWEST = 1e-7  # standard deviations: singular at a kink, or too steep
_BUCKETS = 2  # buckets of standard deviations per factor 2: panels are computed once per bucket


@dataclass(frozen=True)
class GaussianRule:
    r"""Panels on which $\phi$ is a polynomial of degree 23 to rounding; $\sum_i w_i f(x_i) = \mathbb{E} f(X)$."""

    edges: Float[Tensor, " panels_and_one"]
    reach: float  # |x| up to which φ² is not negligible

    @cached_property
    def _grid(self) -> tuple[Tensor, Tensor]:
        nodes, widths = legendre_nodes(self.edges[:-1], self.edges[1:])
        return nodes.flatten(), (widths * standard_density(nodes)).flatten()

    @property
    def nodes(self) -> Float[Tensor, " nodes"]:
        """All $x_i$."""
        return self._grid[0]

    @property
    def weights(self) -> Float[Tensor, " nodes"]:
        """All $w_i$."""
        return self._grid[1]

    @property
    def narrowest(self) -> float:
        """Width of the narrowest panel."""
        return float(self.edges.diff().min())

    def refined(self, width: float) -> "GaussianRule":
        """The same panels, split until none is wider than `width`."""
        pieces = [
            torch.linspace(float(a), float(b), math.ceil(float(b - a) / width) + 1, dtype=torch.float64)[:-1]
            for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]
        return GaussianRule(torch.cat([*pieces, self.edges[-1:]]), self.reach)


def gaussian_rule(phi: Nonlinearity) -> GaussianRule:
    r"""Panels for $\mathbb{E} f(X)$, where $f$ is made of $\phi$ and polynomials; refuses $\mathbb{E}\phi^2 = \infty$.

    They cover the interval outside of which $\phi^2$ times the density is below $e^{-75}$ of its maximum. A panel is
    halved until the last Legendre coefficients of $\phi$ on it vanish.
    """
    lowest, highest, reach = _support(phi)
    inside = [kink for kink in phi.kinks if lowest < kink < highest]
    pieces = GaussianRule(torch.tensor([lowest, *inside, highest], dtype=torch.float64), reach).refined(WIDEST)
    return GaussianRule(resolving_edges(phi, pieces.edges, _ROUNDING, NARROWEST), reach)


def resolving_edges(
    phi: Nonlinearity, edges: Float[Tensor, " edges"], tolerance: float, narrowest: float, deviation: float = 1.0
) -> Float[Tensor, " finer"]:
    r"""The edges, with panels halved until the last Legendre coefficients of $\phi$ are below the tolerance.

    The tolerance is relative to the largest value on the panel; errors that are negligible under the Gaussian of this
    standard deviation are accepted. A narrow peak can lie between the nodes, so values near 0 and near the kinks are
    compared too.
    """
    left, right, done = edges[:-1], edges[1:], [edges]
    probes = probes_of(phi)
    at_probes = phi(probes)
    scale, panels = 0.0, 0
    while left.numel():
        nodes, weights = legendre_nodes(left, right)
        values = phi(nodes)
        if not values.isfinite().all():
            raise ValueError(f"activation {phi.name} is not finite at {nodes[~values.isfinite()][0].item():.4g}")
        density = standard_density(nodes / deviation) / deviation
        scale = max(scale, math.sqrt(float((weights * density * values.square()).sum())))
        coefficients = values @ _TO_COEFFICIENTS.T
        tail, largest = coefficients[:, -_TAIL:].abs().amax(-1), values.abs().amax(-1)
        heaviest = (density.amax(-1) * (right - left)).sqrt()
        # Converged to rounding on this panel, or negligible in an expectation.
        resolved = (tail <= tolerance * largest) | (tail * heaviest <= tolerance / 16 * scale)
        weight = tolerance * scale / (standard_density(probes / deviation) * (probes / deviation).abs()).sqrt()
        resolved &= ~_misses_probe(coefficients, left, right, probes, at_probes, weight)
        middle = (left + right)[~resolved] / 2
        left, right = torch.cat([left[~resolved], middle]), torch.cat([middle, right[~resolved]])
        done.append(middle)
        panels += 2 * middle.numel()
        if panels > MAX_PANELS or (middle.numel() and (right - left).min() < narrowest):
            raise ValueError(
                f"activation {phi.name} cannot be integrated against a Gaussian to float64: (a) it is not "
                "square-integrable, (b) it works in float32 inside, or (c) it oscillates too fast"
            )
    return torch.cat(done).unique()


def probes_of(phi: Nonlinearity) -> Tensor:
    """Points on all scales around 0, where a large gain concentrates an activation, and around the kinks."""
    # Not powers of 2: a kink may be one.
    scales = 0.77 * 2.0 ** -torch.arange(_SCALES, dtype=torch.float64)
    around = torch.cat([-scales, scales])
    return torch.cat([around, *(kink + around for kink in phi.kinks)])


def _misses_probe(
    coefficients: Tensor, left: Tensor, right: Tensor, probes: Tensor, at_probes: Tensor, negligible: Tensor
) -> Tensor:
    """True for panels with a probe at which the Legendre series differs from the function."""
    panel, probe = ((probes > left[:, None]) & (probes < right[:, None])).nonzero(as_tuple=True)
    inside = (2 * probes[probe] - left[panel] - right[panel]) / (right - left)[panel]
    terms = torch.from_numpy(np.polynomial.legendre.legvander(inside.numpy(), ORDER - 1))
    series = (terms * coefficients[panel]).sum(-1)
    largest = coefficients.abs().sum(-1)[panel] + at_probes[probe].abs()
    missed = (series - at_probes[probe]).abs() > torch.maximum(_MISSED * largest, negligible[probe])
    return torch.zeros(len(left), dtype=torch.bool).index_put((panel[missed],), torch.tensor(True))


def _support(phi: Nonlinearity) -> tuple[float, float, float]:
    """Interval outside which φ² times the density is negligible for E φ, and the |x| beyond which it is for E φ²."""
    # Shifted, because kinks are often round numbers and a slope may be infinite there.
    grid = torch.linspace(-REACH, REACH, 641, dtype=torch.float64) + 0.0123
    near = probes_of(phi)
    grid = torch.cat([grid, near[near.abs() < BULK]])
    energy = (2 * phi(grid).abs().log() - grid.square() / 2).nan_to_num(nan=math.inf, posinf=math.inf)
    highest = float(energy.max())
    felt = grid[energy > highest - DECAY] if math.isfinite(highest) else grid
    if highest < -1e300:  # 0 everywhere
        felt = grid[:0]
    lowest, furthest = (float(felt.min()), float(felt.max())) if len(felt) else (0.0, 0.0)
    if max(-lowest, furthest) > REACH - 1:
        raise ValueError(
            f"activation {phi.name} is not square-integrable under the Gaussian (E φ² is infinite, or has its mass "
            f"beyond |x| = {REACH:.0f}): overlaps are not defined"
        )
    strong = grid[energy > highest - DECAY / 2]
    reach = max(BULK, float(strong.abs().max()) + 0.2 if len(felt) else 0.0)
    # One grid cell further, and at least the bulk of the Gaussian.
    return min(lowest - 0.2, -reach), max(furthest + 0.2, reach), reach


def standard_density(points: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""$e^{-x^2/2}/\sqrt{2\pi}$."""
    return torch.exp(-points.square() / 2) / math.sqrt(2 * math.pi)


def legendre_nodes(
    left: Float[Tensor, "*panels"], right: Float[Tensor, "*panels"]
) -> tuple[Float[Tensor, "*panels 24"], Float[Tensor, "*panels 24"]]:
    """Gauss–Legendre nodes and weights on each panel."""
    half = ((right - left) / 2)[..., None]
    return (left[..., None] + half) + half * _LEGENDRE_NODES, half * _LEGENDRE_WEIGHTS


@dataclass(frozen=True)
class Pairs:
    r"""Nodes $(x_k, y_k)$ and weights with $\mathbb{E} f(X, Y) = \sum_k w_k f(x_k, y_k)$."""

    first: Float[Tensor, " nodes"]
    second: Float[Tensor, " nodes"]
    weights: Float[Tensor, " nodes"]

    def mean(self, values: Float[Tensor, " nodes"]) -> float:
        r"""$\mathbb{E} f(X, Y)$ from the values of $f$ at the nodes."""
        return float(self.weights @ values)


def gaussian_pairs(activation: Nonlinearity, variance: float, overlap: float) -> Pairs:
    r"""Nodes for $X, Y \sim \mathcal{N}(0, q)$ with correlation $\rho$, in the sum and the difference of the two.

    $$ X = \sqrt{q}\,(cU + sV), \; Y = \sqrt{q}\,(cU - sV), \quad c^2 = \tfrac{1+\rho}{2}, \; s^2 = \tfrac{1-\rho}{2} $$

    with $U, V$ independent and standard. The plane is split where $X$ or $Y$ is at a kink or at an edge of the narrow
    `panels` of a steep activation, so that products of two of $\phi(X), \phi'(X), \phi(Y), \phi'(Y)$ are integrated to
    about 1e-11, of four to 1e-9, and functions that are linear between kinks to rounding. Because
    $X - Y = 2\sqrt{q}\,sV$, differences keep their relative precision near overlap 1.
    """
    along = math.sqrt(variance * max(0.0, 1 + overlap) / 2)
    across = math.sqrt(variance * max(0.0, 1 - overlap) / 2)
    fine, corners = panels(activation, variance), torch.tensor(activation.kinks, dtype=torch.float64)
    # The inner integral has a kink in V where X is at one kink and Y at another.
    breakpoints = torch.cat([(corners[:, None] - corners).flatten() / 2, fine.breakpoints, fine.edges])
    v, v_weights = gaussian_panels(breakpoints / across if across > 0 else corners[:0], _ratio(fine.width, across))
    # At given V, U is split where X or Y is at a kink.
    shift, lines = across * v[:, None], torch.cat([corners, fine.edges])
    cuts = torch.cat([lines - shift, lines + shift], -1) / along if along > 0 else v.new_zeros(len(v), 0)
    width = _ratio(fine.width, along)
    if len(v) * ORDER * (cuts.shape[-1] + even_panels(width)) > MAX_PAIR_NODES:
        raise ValueError(
            f"activation {activation.name} is too steep, or oscillates too fast, for inputs of variance {variance:.3g}"
            f": expectations over two of them take more than {MAX_PAIR_NODES:.0e} points"
        )
    u, u_weights = gaussian_panels(cuts, width)
    weights = u_weights * v_weights[:, None]
    return Pairs((along * u + shift).flatten(), (along * u - shift).flatten(), weights.flatten())


def _ratio(width: float, deviation: float) -> float:
    return width / deviation if deviation > 0 else math.inf


def gaussian_panels(
    cuts: Float[Tensor, "*rows cuts"], width: float = EVEN
) -> tuple[Float[Tensor, "*rows nodes"], Float[Tensor, "*rows nodes"]]:
    r"""Nodes and weights with $\mathbb{E} f(Z) = \sum_k w_k f(z_k)$ for a standard Gaussian $Z$, split at the cuts."""
    grid = torch.linspace(-PANEL_REACH, PANEL_REACH, even_panels(width) + 1, dtype=torch.float64).expand(
        *cuts.shape[:-1], -1
    )
    edges = torch.cat([grid, cuts.clamp(-PANEL_REACH, PANEL_REACH)], -1).sort(-1).values
    nodes, weights = legendre_nodes(edges[..., :-1], edges[..., 1:])
    return nodes.flatten(-2), (weights * standard_density(nodes)).flatten(-2)


def even_panels(width: float) -> int:
    """Number of panels of at most this width, in standard deviations, that cover a Gaussian."""
    return math.ceil(2 * PANEL_REACH / min(width, EVEN))


@dataclass(frozen=True)
class Panels:
    """Panels of equal width, split further at `edges`; `centers` are the middles of the narrowest panels, and kinks."""

    width: float
    edges: Float[Tensor, " edges"]
    centers: Float[Tensor, " centers"]

    @property
    def breakpoints(self) -> Float[Tensor, " breakpoints"]:
        r"""Values of $(X - Y)/2$ where an integral of $\phi(X)\phi(Y)$ over $X + Y$ changes fast: both are steep."""
        return ((self.edges[:, None] - self.centers) / 2).flatten().unique()


_EVEN_ONLY = Panels(math.inf, torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64))


def panels(activation: Nonlinearity, variance: float) -> Panels:
    r"""Panels that resolve $\phi$ and $\phi'$ for inputs of this variance; only even ones if these suffice."""
    if not bends(activation):
        return _EVEN_ONLY
    # What even panels of standard deviation 1 resolve, shorter ones do too.
    if variance <= 1 and _panels(activation, 1.0) is _EVEN_ONLY:
        return _EVEN_ONLY
    bucket = math.ceil(_BUCKETS * math.log2(variance) / 2)
    return _panels(activation, 2.0 ** (bucket / _BUCKETS))


@lru_cache(maxsize=256)
def _panels(activation: Nonlinearity, deviation: float) -> Panels:
    reach = PANEL_REACH * deviation
    kinks = torch.tensor([kink for kink in activation.kinks if abs(kink) < reach], dtype=torch.float64)
    even = torch.linspace(-reach, reach, math.ceil(2 * PANEL_REACH / EVEN) + 1, dtype=torch.float64)
    start = torch.cat([even, kinks]).unique()
    slope = Nonlinearity(f"the slope of {activation.name}", activation.derivative, activation.kinks)
    if not bool(activation(start).isfinite().all()):
        return _EVEN_ONLY  # overflows; its mean square is refused later
    edges = start
    for function in (activation, slope):
        edges = resolving_edges(function, edges, _PAIR_TOLERANCE, _PAIR_NARROWEST * deviation, deviation)
    if len(edges) == len(start):
        return _EVEN_ONLY
    return fewest_panels(edges, kinks, EVEN * deviation, reach)


def fewest_panels(
    edges: Float[Tensor, " edges"], kinks: Float[Tensor, " kinks"], widest: float, reach: float
) -> Panels:
    """The even width that minimizes the number of even panels and further edges together."""
    widths = edges.diff()
    choices = []
    for width in torch.cat([widths, torch.tensor([widest], dtype=torch.float64)]).clamp(max=widest).unique().tolist():
        narrow = widths < 0.99 * width
        further = torch.cat([edges[:-1][narrow], edges[1:][narrow]]).unique()
        choices.append((2 * reach / width + len(further), width, further))
    _, width, further = min(choices, key=lambda choice: choice[0])
    return Panels(width, further, torch.cat([_centers(further), kinks[torch.isin(kinks, further)]]).unique())


def _centers(edges: Tensor) -> Tensor:
    """Middles of runs of equal panels with wider ones on both sides."""
    if len(edges) < 2:
        return edges
    widths = edges.diff()
    starts = torch.cat([torch.tensor([True]), (widths.diff().abs() > 0.01 * widths[1:])]).nonzero().flatten()
    ends = torch.cat([starts[1:], torch.tensor([len(widths)])])
    of_runs = torch.cat([torch.tensor([math.inf]), widths[starts], torch.tensor([math.inf])])
    least = (of_runs[1:-1] < of_runs[:-2]) & (of_runs[1:-1] < of_runs[2:])
    return (edges[starts[least]] + edges[ends[least]]) / 2


@lru_cache(maxsize=128)
def bends(activation: Nonlinearity) -> bool:
    """False if the activation is linear between its kinks."""
    points = torch.linspace(-40, 40, 1601, dtype=torch.float64) + 0.0123  # off round numbers, where kinks are
    points = torch.cat([points, probes_of(activation)]).sort().values
    slopes = activation.derivative(points)
    part = torch.searchsorted(torch.tensor(activation.kinks, dtype=torch.float64), points)
    return any(bool((slopes[part == index] != slopes[part == index][0]).any()) for index in part.unique())
