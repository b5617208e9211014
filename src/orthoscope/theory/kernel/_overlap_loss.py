r"""The loss of overlap $1 - \kappa(\cos\theta)$ of one layer as a function of the angle $\theta$ in $[0, \pi]$.

`GaussianPair` has $\mathbb{E}\,\phi(X)\phi(Y)$ to full relative precision at both ends; `jump_slope` is the
contribution of jumps of $\phi$, where $\phi'$ has point masses, to the slope of the kernel map.

`pair_moments` writes $X = cU + sV$ and $Y = cU - sV$ for independent $U, V$, $c = \cos(\theta/2)$ and
$s = \sin(\theta/2)$. The product is even in $V$ and nothing becomes singular at either end. A smooth $\phi$ gets
the trapezoidal rule, which converges geometrically; otherwise both integrals are split where $X$ or $Y$ is
at an edge of a panel of $\phi$.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.kernel._angle_series import AngleSeries, angle_series
from orthoscope.theory.kernel.hermite import coefficients_on
from orthoscope.theory.quadrature import (
    NARROWEST,
    WIDEST,
    GaussianRule,
    fewest_panels,
    gaussian_panels,
    gaussian_rule,
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


def pair_moments(phi: Nonlinearity, rule: GaussianRule, angles: Float[Tensor, " angles"]) -> tuple[Tensor, Tensor]:
    r"""$\mathbb{E}\,\phi(X)\phi(Y)$, accurate near $\pi$, and $\mathbb{E}(\phi(X) - \phi(Y))^2/2$, accurate near 0."""
    kinks = torch.tensor([kink for kink in phi.kinks if -rule.reach < kink < rule.reach], dtype=torch.float64)
    steep = rule.narrowest < _STEEP and 2 * rule.reach / rule.narrowest > _STEEP_COUNT * len(rule.edges)
    smooth = rule.narrowest >= _NARROWEST and not len(kinks) and not steep
    if smooth:
        together = max(1, int(16 * min(1.0, rule.narrowest) ** 2))
        found = [_trapezoidal(phi, rule, some) for some in angles.split(together)]
        product, half_difference = (torch.cat(parts) for parts in zip(*found, strict=True))
        return product, half_difference
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
    product, half_difference = torch.tensor(pairs, dtype=torch.float64).reshape(-1, 2).T
    return product, half_difference


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


# Up to |ρ| = cos(0.42) = 0.913 the Hermite series with 360 terms is exact to 0.913^360 = 6e-15, and cheap.
_ANGLE = 0.42
_TERMS = 360
REACH = math.cos(_ANGLE)
_SMALLEST_JUMP = 1e-9
_STEEP = 30.0  # κ'(1) above 15
UNRESOLVED = 1e-10


@dataclass(frozen=True)
class GaussianPair:
    r"""$\mathbb{E}\,\phi(X)\phi(Y)$ of an activation, for standard Gaussians $X, Y$ at the angle $\theta$."""

    phi: Nonlinearity

    @cached_property
    def rule(self) -> GaussianRule:
        """Panels that resolve the activation."""
        return gaussian_rule(self.phi)

    @cached_property
    def energy(self) -> float:
        r"""$\mathbb{E}\phi(X)^2$."""
        return float(self.rule.weights @ self.phi(self.rule.nodes).square())

    @cached_property
    def squares(self) -> Float[Tensor, " terms"]:
        """Squared Hermite coefficients of φ."""
        return coefficients_on(self.rule, self.phi, _TERMS).square()

    def divided_excess(self, overlap: float) -> float:
        r"""$(\rho\,\mathbb{E}\phi^2 - \mathbb{E}\phi(X)\phi(Y))/(1-\rho)$, zero at a fixed point; $\rho \le \cos 0.42$.

        $$ \sum_{k\ge2} c_k^2\,(\rho + \rho^2 + \dots + \rho^{k-1}) - c_0^2 $$

        Without the large $c_1^2$, which cancels: of a nearly linear $\phi$ nothing else would be left.
        """
        powers = overlap ** torch.arange(2, _TERMS, dtype=torch.float64)
        return float(self.squares[2:] @ ((overlap - powers) / (1 - overlap)) - self.squares[0])

    @cached_property
    def jumps(self) -> tuple[tuple[float, float], ...]:
        """Points where φ itself jumps, and the heights of the jumps."""
        found = []
        for kink in (kink for kink in self.phi.kinks if abs(kink) < self.rule.reach):
            step = 1e-13 * max(1.0, abs(kink))
            below, above = self.phi(torch.tensor([kink - step, kink + step], dtype=torch.float64)).tolist()
            if abs(above - below) > _SMALLEST_JUMP * math.sqrt(self.energy):
                found.append((kink, above - below))
        return tuple(found)

    @cached_property
    def slope(self) -> "GaussianPair":
        r"""The same of $\phi'$ off its jumps."""
        return GaussianPair(Nonlinearity(f"the slope of {self.phi.name}", self.phi.derivative, self.phi.kinks))

    @cached_property
    def slope_energy(self) -> float:
        r"""$\mathbb{E}\phi'(X)^2$; infinite where $\phi$ jumps, or where its slope is not square-integrable."""
        if self.jumps:
            return math.inf
        try:
            return self.slope.energy
        except ValueError:
            return math.inf

    @cached_property
    def _power(self) -> int:
        return 1 if self.slope_energy == math.inf else 2

    @cached_property
    def _softening(self) -> float:
        """0, or the slope of the divided loss at 0 if it is so large that its error would spread to other angles."""
        slope = self._divided_at_zero
        return slope / self.energy if slope > _STEEP * self.energy else 0.0

    @cached_property
    def series(self) -> AngleSeries:
        r"""$\ell(\theta)\,(B + \sin(\theta/2)^{-p})$ for the loss below: $p = 2$, or 1 if $\mathbb{E}\phi'^2 = \infty$.

        Divided in this way it is analytic at 0, also for an activation with kinks, and the loss keeps full relative
        precision as the angle tends to 0. $B$ is 0 unless the activation is steep.
        """
        found = angle_series(self._divided_loss)
        if found.unresolved > UNRESOLVED * max(self.energy, float(found.coefficients.abs().max())):
            raise ValueError(
                f"activation {self.phi.name} is too steep, or oscillates too fast: its kernel map changes too fast "
                "near overlaps of 1 and -1 to be resolved"
            )
        return found

    def loss(self, angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""$\ell(\theta) = \mathbb{E}(\phi(X) - \phi(Y))^2/2 = \mathbb{E}\phi(X)^2 - \mathbb{E}\phi(X)\phi(Y)$."""
        power = torch.sin(angle / 2) ** self._power
        return power / (1 + self._softening * power) * self.series(angle)

    def product(self, angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""$\mathbb{E}\,\phi(X)\phi(Y)$."""
        return self.energy - self.loss(angle)

    def _divided_loss(self, angles: Tensor) -> Tensor:
        loss = torch.empty_like(angles)
        middle = (angles > _ANGLE) & (angles < math.pi - _ANGLE)
        powers = torch.cos(angles[middle])[:, None] ** torch.arange(_TERMS, dtype=torch.float64)
        loss[middle] = self.energy - powers @ self.squares
        near, far = (angles > 0) & (angles <= _ANGLE), angles >= math.pi - _ANGLE
        loss[near] = pair_moments(self.phi, self.rule, angles[near])[1]
        loss[far] = self.energy - pair_moments(self.phi, self.rule, angles[far])[0]
        divided = loss * (self._softening + torch.sin(angles / 2) ** -self._power)
        divided[angles == 0] = self._divided_at_zero
        return divided

    @property
    def _divided_at_zero(self) -> float:
        """2 E φ'²; with jumps, a pair that is 2sV apart falls on both sides of one with probability 2s p(a) E|V|."""
        if self._power == 2:
            return 2 * self.slope_energy
        return math.sqrt(2 / math.pi) * sum(
            jump**2 * float(standard_density(torch.tensor(kink, dtype=torch.float64))) for kink, jump in self.jumps
        )


def jump_slope(pair: GaussianPair, angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Terms of $\mathbb{E}\,\phi'(X)\phi'(Y)$ with a jump $v_i$ at $a_i$, where $\psi$ is the slope off the jumps.

    $$ 2\sum_i v_i\,p(a_i)\,\mathbb{E}[\psi(Y) \mid X = a_i] + \sum_{ij} v_i v_j\,p_\rho(a_i, a_j) $$

    with $p$ the density of one, $p_\rho$ of two standard Gaussians. Infinite at 0; at $\pi$ if jumps lie opposite.
    """
    total = torch.zeros_like(angle)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    for kink, jump in pair.jumps:
        weight = jump * float(standard_density(torch.tensor(kink, dtype=torch.float64)))
        total = total + 2 * weight * _conditional_mean(pair.slope, kink * cosine, sine)
        for other, other_jump in pair.jumps:
            # x² - 2ρxy + y² = (x-y)² (1+ρ)/2 + (x+y)² (1-ρ)/2, over sin² = (1-ρ)(1+ρ): nothing cancels at either end.
            near, far = 2 * torch.sin(angle / 2).square(), 2 * torch.cos(angle / 2).square()
            exponent = _quotient((kink - other) ** 2, 2 * near) + _quotient((kink + other) ** 2, 2 * far)
            density = torch.exp(-exponent / 2) / (2 * math.pi * sine)
            total = total + jump * other_jump * torch.where(exponent.isinf(), 0.0, density)
    return total


def _quotient(numerator: float, denominator: Tensor) -> Tensor:
    return numerator / denominator if numerator else torch.zeros_like(denominator)


def _conditional_mean(pair: GaussianPair, mean: Tensor, deviation: Tensor) -> Tensor:
    """E ψ(mean + deviation·Z), split where the argument is at an edge of a panel of ψ."""
    cuts = (pair.rule.edges - mean[..., None]) / deviation[..., None].clamp(min=1e-300)
    nodes, weights = gaussian_panels(cuts, WIDEST)
    return (weights * pair.phi(mean[..., None] + deviation[..., None] * nodes)).sum(-1)
