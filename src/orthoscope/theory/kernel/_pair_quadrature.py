r"""$\mathbb{E}\,\phi(X)\phi(Y)$ for two standard Gaussians at any angle, accurate also near 0 and 180 degrees.

With $\rho = \cos\theta$, write $X = cU + sV$ and $Y = cU - sV$ for independent $U, V$, $c = \cos(\theta/2)$ and
$s = \sin(\theta/2)$. The product is even in $V$ and nothing becomes singular at either end. A smooth $\phi$ gets
the trapezoidal rule, which converges geometrically; otherwise both integrals are split where $X$ or $Y$ is
at an edge of a panel of $\phi$.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.quadrature import (
    NARROWEST,
    WIDEST,
    GaussianRule,
    fewest_panels,
    legendre_nodes,
    resolving_edges,
    standard_density,
)

# A panel of width w is resolved: φ is analytic to a distance of about w. The trapezoidal error is
# exp(-2π w/h); a step of 0.15 w makes it 6e-19. The Gaussian alone allows 0.6: exp(-2π²/0.36) = 2e-24.
_STEP = 0.15
_WIDEST_STEP = 0.6
_NARROWEST = 0.02  # panel for which the trapezoidal rule is not too long
_STEEP = 0.1  # panel below which the edges of a few narrow ones are fewer nodes than the trapezoidal rule
_STEEP_COUNT = 4.0  # few: by this factor fewer than if all panels were as narrow
_TOLERANCE = 1e-7  # a tail of Legendre coefficients whose square, left in integrals of squares, is rounding
_MOST_BREAKS = 64  # a singularity has ever narrower panels
_MOST_PANELS = 100
_SINGULAR = 1e-3
_CHUNK = 2_000_000  # products held in memory at a time


@dataclass(frozen=True)
class PairMoments:
    """Two forms of the same expectation: the first is accurate at 180 degrees, the second at 0."""

    product: Float[Tensor, " angles"]  # E φ(X)φ(Y)
    half_difference: Float[Tensor, " angles"]  # E (φ(X) - φ(Y))²/2, to full relative precision


def pair_moments(phi: Nonlinearity, rule: GaussianRule, angles: Float[Tensor, " angles"]) -> PairMoments:
    """The two expectations at every angle of [0, π]."""
    kinks = torch.tensor([kink for kink in phi.kinks if -rule.reach < kink < rule.reach], dtype=torch.float64)
    steep = rule.narrowest < _STEEP and 2 * rule.reach / rule.narrowest > _STEEP_COUNT * len(rule.edges)
    smooth = rule.narrowest >= _NARROWEST and not len(kinks) and not steep
    if smooth:
        together = max(1, int(16 * min(1.0, rule.narrowest) ** 2))
        found = [_trapezoidal(phi, rule, some) for some in angles.split(together)]
        return PairMoments(*(torch.cat(parts) for parts in zip(*found, strict=True)))
    ends = torch.tensor([-rule.reach, rule.reach], dtype=torch.float64)
    start = GaussianRule(torch.cat([ends, kinks]).unique(), rule.reach).refined(WIDEST).edges
    fine = fewest_panels(resolving_edges(phi, start, _TOLERANCE, NARROWEST), kinks, WIDEST, rule.reach)
    # Narrower panels, at a singularity, do not count.
    if 2 * rule.reach / fine.width + int((fine.edges.diff() > _SINGULAR).sum()) > _MOST_PANELS:
        raise ValueError(
            f"activation {phi.name} oscillates too fast: its kernel map takes panels of less than "
            f"{2 * rule.reach / _MOST_PANELS:.1g} standard deviations"
        )
    breaks = _Breaks(kinks, fine.edges[:: math.ceil(len(fine.edges) / _MOST_BREAKS) or 1], fine.centers, fine.width)
    pairs = [_split(phi, breaks, rule.reach, float(angle)) for angle in angles]
    return PairMoments(*(torch.tensor(parts, dtype=torch.float64) for parts in zip(*pairs, strict=True)))


def _trapezoidal(phi: Nonlinearity, rule: GaussianRule, angles: Tensor) -> tuple[Tensor, Tensor]:
    c, s = torch.cos(angles / 2)[:, None, None], torch.sin(angles / 2)[:, None, None]
    u, weight_u = _trapezoid(rule.reach, _STEP * rule.narrowest / float(c.max()))
    v, weight_v = _trapezoid(rule.reach, _STEP * rule.narrowest / float(s.max()))
    upper = v >= 0
    v, weight_v = v[upper], weight_v[upper] * torch.where(v[upper] > 0, 2.0, 1.0)
    return _both(phi, c * u[:, None], s * v, weight_u[:, None] * weight_v)


def _trapezoid(reach: float, step: float) -> tuple[Tensor, Tensor]:
    count = math.ceil(reach / min(step, _WIDEST_STEP))
    nodes = torch.linspace(-reach, reach, 2 * count + 1, dtype=torch.float64)
    nodes[count] = 0.0
    return nodes, reach / count * standard_density(nodes)


def _both(phi: Nonlinearity, center: Tensor, offset: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    first, second = phi(center + offset), phi(center - offset)
    return (weights * first * second).sum((-2, -1)), (weights * (first - second).square()).sum((-2, -1)) / 2


class _Breaks(NamedTuple):
    """Kinks, edges of narrow panels (thinned), the middles of the narrowest, and the width of the others."""

    kinks: Tensor
    edges: Tensor
    centers: Tensor
    width: float

    @property
    def all(self) -> Tensor:
        return torch.cat([self.kinks, self.edges]).unique()


def _split(phi: Nonlinearity, breaks: _Breaks, reach: float, angle: float) -> tuple[float, float]:
    c, s = math.cos(angle / 2), math.sin(angle / 2)
    edges = _outer_edges(breaks, c, s, _even(reach, breaks.width / c if c else math.inf))
    u, weight_u = (part.flatten() for part in legendre_nodes(edges[:-1], edges[1:]))
    weight_u = weight_u * standard_density(u)
    even = _even(reach, breaks.width / s if s else math.inf)
    even = torch.cat([torch.zeros(1, dtype=torch.float64), even[even > 0]])
    product = difference = 0.0
    lines = breaks.all
    rows = max(1, _CHUNK // (24 * (len(lines) + len(even))))
    for some_u, some_weight in zip(u.split(rows), weight_u.split(rows), strict=True):
        v, weight_v = _inner_nodes(lines, c * some_u, s, even)
        parts = _both(phi, c * some_u[:, None], s * v, some_weight[:, None] * 2 * weight_v)
        product, difference = product + float(parts[0]), difference + float(parts[1])
    return product, difference


def _even(reach: float, width: float) -> Tensor:
    count = math.ceil(reach / min(width, WIDEST))
    return torch.linspace(-reach, reach, 2 * count + 1, dtype=torch.float64)


def _outer_edges(breaks: _Breaks, c: float, s: float, even: Tensor) -> Tensor:
    """Panels of U: they end at breakpoints of products φ(X)φ(Y), and are graded where one crosses the Gaussian of V."""
    if not c:
        return even
    kinks, centers = breaks.kinks, torch.cat([breaks.kinks, breaks.centers])
    breakpoints = torch.cat(
        [(lines[:, None] + others).flatten() for lines, others in ((kinks, kinks), (breaks.edges, centers))]
    )
    grades = torch.linspace(-9.0, 9.0, 5, dtype=torch.float64) * s
    crossings = torch.cat([(centers[:, None] + grades).flatten(), breaks.edges]) / c
    edges = torch.cat([even, breakpoints / (2 * c), crossings]).clamp(-float(even[-1]), float(even[-1])).unique()
    # Edges that differ by a rounding error are merged.
    return edges[torch.cat([torch.tensor([True]), edges.diff() > 1e-14])]


def _inner_nodes(breaks: Tensor, center: Tensor, s: float, even: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of V > 0 for every U: panels of the Gaussian, split where cU ± sV is a break."""
    cuts = (breaks - center[:, None]).abs() / s if s else torch.empty(len(center), 0, dtype=torch.float64)
    edges = torch.cat([even.expand(len(center), -1), cuts.clamp(max=float(even[-1]))], dim=1).sort(dim=1).values
    v, weights = legendre_nodes(edges[:, :-1], edges[:, 1:])
    return v.flatten(1), (weights * standard_density(v)).flatten(1)
