r"""The loss of overlap $1 - \kappa(\cos\theta)$ of one layer as a function of the angle $\theta$ in $[0, \pi]$.

`GaussianPair` has $\mathbb{E}\,\phi(X)\phi(Y)$ to full relative precision at both ends; `jump_slope` is the
contribution of jumps of $\phi$, where $\phi'$ has point masses, to the slope of the kernel map.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.kernel._angle_series import AngleSeries, angle_series
from orthoscope.theory.kernel._pair_quadrature import pair_moments
from orthoscope.theory.kernel.hermite import coefficients_on
from orthoscope.theory.quadrature import BULK, GaussianRule, gaussian_rule, legendre_nodes, standard_density

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
        loss[near] = pair_moments(self.phi, self.rule, angles[near]).half_difference
        loss[far] = self.energy - pair_moments(self.phi, self.rule, angles[far]).product
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
    even = torch.linspace(-BULK, BULK, 7, dtype=torch.float64).expand(*mean.shape, -1)
    cuts = ((pair.rule.edges - mean[..., None]) / deviation[..., None].clamp(min=1e-300)).clamp(-BULK, BULK)
    edges = torch.cat([even, cuts], dim=-1).sort(dim=-1).values
    nodes, weights = legendre_nodes(edges[..., :-1], edges[..., 1:])
    values = pair.phi(mean[..., None, None] + deviation[..., None, None] * nodes)
    return (weights * standard_density(nodes) * values).sum((-2, -1))
