"""Expectations of a function of one standard Gaussian, on panels that are split at kinks and refined where needed."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity

ORDER = 24  # Gauss-Legendre nodes a panel: the square of a resolved function is integrated exactly
WIDEST = 3.0  # over which the Gaussian density itself is resolved
REACH = 40.0  # |x| beyond which no support is looked for
DECAY = 75.0  # φ² times the density has fallen by exp(-75) at the ends: amplitudes by 5e-17
BULK = 9.0  # the density falls by exp(-40)
MOST_PANELS = 4000
NARROWEST = 1e-100  # 1/x is unresolved at any width

_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(ORDER))
# Values at the nodes to Legendre coefficients: (2k+1)/2 ∫ φ P_k.
_TO_COEFFICIENTS = (
    torch.from_numpy(np.polynomial.legendre.legvander(_LEGENDRE_NODES.numpy(), ORDER - 1)).T
    * _LEGENDRE_WEIGHTS
    * (torch.arange(ORDER, dtype=torch.float64)[:, None] + 0.5)
)
_TAIL = 3  # the last coefficients, which must vanish
_ROUNDING = 5e-14  # noise of the transform; what such a tail does to E φ² is its square
_SCALES = 40  # down to 2e-12
_MISSED = 1e-6  # of the values: no rounding, a peak that the nodes have missed


@dataclass(frozen=True)
class GaussianRule:
    r"""Panels on which $\phi$ is a polynomial of degree 23 to rounding; $\sum_i w_i f(x_i) = \mathbb{E} f(X)$."""

    edges: Float[Tensor, " panels_and_one"]
    reach: float  # |x| up to which $\phi^2$ matters

    @cached_property
    def _grid(self) -> tuple[Tensor, Tensor]:
        nodes, widths = legendre_nodes(self.edges[:-1], self.edges[1:])
        return nodes.flatten(), (widths * standard_density(nodes)).flatten()

    @property
    def nodes(self) -> Float[Tensor, " nodes"]:
        return self._grid[0]

    @property
    def weights(self) -> Float[Tensor, " nodes"]:
        return self._grid[1]

    @property
    def narrowest(self) -> float:
        """Width of the narrowest panel."""
        return float(self.edges.diff().min())

    def refined(self, width: float) -> "GaussianRule":
        """The same panels cut until none is wider."""
        pieces = [
            torch.linspace(float(a), float(b), math.ceil(float(b - a) / width) + 1, dtype=torch.float64)[:-1]
            for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]
        return GaussianRule(torch.cat([*pieces, self.edges[-1:]]), self.reach)


def standard_density(points: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""$e^{-x^2/2}/\sqrt{2\pi}$."""
    return torch.exp(-points.square() / 2) / math.sqrt(2 * math.pi)


def legendre_nodes(
    left: Float[Tensor, "*panels"], right: Float[Tensor, "*panels"]
) -> tuple[Float[Tensor, "*panels 24"], Float[Tensor, "*panels 24"]]:
    """Nodes and weights of Gauss and Legendre on each panel."""
    half = ((right - left) / 2)[..., None]
    return (left[..., None] + half) + half * _LEGENDRE_NODES, half * _LEGENDRE_WEIGHTS


def gaussian_rule(phi: Nonlinearity) -> GaussianRule:
    r"""Panels for $\mathbb{E} f(X)$, where $f$ is made of $\phi$ and polynomials; refuses $\mathbb{E}\phi^2 = \infty$.

    They cover the interval outside of which $\phi^2$ times the density is below $e^{-75}$ of its
    maximum. A panel is halved until the last Legendre coefficients of $\phi$ on it vanish.
    """
    lowest, highest, reach = _support(phi)
    inside = [kink for kink in phi.kinks if lowest < kink < highest]
    pieces = GaussianRule(torch.tensor([lowest, *inside, highest], dtype=torch.float64), reach).refined(WIDEST)
    return GaussianRule(resolving_edges(phi, pieces.edges, _ROUNDING, NARROWEST), reach)


def resolving_edges(
    phi: Nonlinearity, edges: Float[Tensor, " edges"], tolerance: float, narrowest: float, deviation: float = 1.0
) -> Float[Tensor, " finer"]:
    r"""The edges and those of halved panels, until the last Legendre coefficients of $\phi$ are below the tolerance.

    It is relative to the largest value on the panel; what the Gaussian of this standard deviation does not
    see is left. A narrow peak can hide between the nodes, so values are compared near 0 and near the kinks too.
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
        # Either as good as rounding on this panel, or of no weight in an expectation.
        resolved = (tail <= tolerance * largest) | (tail * heaviest <= tolerance / 16 * scale)
        weight = tolerance * scale / (standard_density(probes / deviation) * (probes / deviation).abs()).sqrt()
        resolved &= ~_hides(coefficients, left, right, probes, at_probes, weight)
        middle = (left + right)[~resolved] / 2
        left, right = torch.cat([left[~resolved], middle]), torch.cat([middle, right[~resolved]])
        done.append(middle)
        panels += 2 * middle.numel()
        if panels > MOST_PANELS or (middle.numel() and (right - left).min() < narrowest):
            raise ValueError(
                f"activation {phi.name} cannot be integrated against a Gaussian to float64: (a) it is not "
                "square-integrable, (b) it works in float32 inside, or (c) it oscillates too fast"
            )
    return torch.cat(done).unique()


def probes_of(phi: Nonlinearity) -> Tensor:
    """Points on all scales around 0, where a gain squeezes what an activation does, and around the kinks."""
    # Not powers of 2 themselves: a kink may be one.
    scales = 0.77 * 2.0 ** -torch.arange(_SCALES, dtype=torch.float64)
    around = torch.cat([-scales, scales])
    return torch.cat([around, *(kink + around for kink in phi.kinks)])


def _hides(
    coefficients: Tensor, left: Tensor, right: Tensor, probes: Tensor, at_probes: Tensor, negligible: Tensor
) -> Tensor:
    """Which panels have a probe at which the Legendre series of the function is not the function."""
    panel, probe = ((probes > left[:, None]) & (probes < right[:, None])).nonzero(as_tuple=True)
    inside = (2 * probes[probe] - left[panel] - right[panel]) / (right - left)[panel]
    terms = torch.from_numpy(np.polynomial.legendre.legvander(inside.numpy(), ORDER - 1))
    series = (terms * coefficients[panel]).sum(-1)
    largest = coefficients.abs().sum(-1)[panel] + at_probes[probe].abs()
    missed = (series - at_probes[probe]).abs() > torch.maximum(_MISSED * largest, negligible[probe])
    return torch.zeros(len(left), dtype=torch.bool).index_put((panel[missed],), torch.tensor(True))


def _support(phi: Nonlinearity) -> tuple[float, float, float]:
    """Where φ² times the density is not negligible for an expectation of φ, and |x| up to where for one of φ²."""
    # Shifted, for kinks are round numbers and a slope may be infinite there.
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
    # One cell further, and at least the bulk of the Gaussian.
    return min(lowest - 0.2, -reach), max(furthest + 0.2, reach), reach
