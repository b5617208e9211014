r"""The kernel map $\kappa$: cosine of two inputs before a wide random layer to their cosine after it.

`kernel_map` builds a `KernelMap` for an activation with a normalization; the object computes values, slopes, fixed
point, trajectories and convergence bounds when they are first used. `gain_of_slope` inverts $\kappa'(1)$, and
`leaky_slope` the overlap after many leaky ReLUs, whose maps are elementary functions.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from orthoscope.activations import Choice, Nonlinearity, nonlinearity
from orthoscope.theory.kernel._overlap_loss import REACH, GaussianPair, jump_slope
from orthoscope.theory.kernel.convergence import (
    ROUNDING,
    Landmarks,
    contraction_rate,
    convergence_case,
    distance_bound,
    slow_distance,
)
from orthoscope.theory.kernel.hermite import coefficients_on
from orthoscope.theory.quadrature import gaussian_rule
from orthoscope.theory.sources import source

NORMS = ("none", "rms", "layer")
ORDERS = ("norm-activation", "activation-norm")
_WIDE = "infinite width, independent weights, no bias, input variance 1"
SMALLEST_GAIN, LARGEST_GAIN = 1e-3, 32.0  # where `gain_of_slope` searches


@dataclass(frozen=True)
class KernelMap:
    r"""$\kappa(\rho) = \mathbb{E}\,\phi(X)\phi(Y)/C^2$ for standard Gaussians of correlation $\rho$.

    $C^2 = \mathbb{E}\phi(X)^2$, so $\kappa(1) = 1$. Made by `kernel_map`; numbers are computed when first asked for.
    Values and slopes are right to about 1e-13 on all of $[-1, 1]$, with kinks too; an activation too steep
    for that is refused.

    Attributes:
        activation: $\phi$.
    """

    activation: Nonlinearity

    @cached_property
    def _pair(self) -> GaussianPair:
        return GaussianPair(self.activation)

    @overload
    def __call__(self, overlap: float) -> float: ...
    @overload
    def __call__(self, overlap: Tensor) -> Tensor: ...
    def __call__(self, overlap: int | float | Float[Tensor, "*pairs"]) -> float | Float[Tensor, "*pairs"]:
        r"""$\kappa(\rho)$."""
        found = 1 - self._loss(_angle(overlap))
        if not found.isfinite().all():
            raise ValueError(
                f"activation {self.activation.name} cannot be integrated in pairs: it is singular somewhere"
            )
        return _like(overlap, found)

    @overload
    def derivative(self, overlap: float) -> float: ...
    @overload
    def derivative(self, overlap: Tensor) -> Tensor: ...
    def derivative(self, overlap: int | float | Float[Tensor, "*pairs"]) -> float | Float[Tensor, "*pairs"]:
        r"""$\kappa'(\rho) = \mathbb{E}\,\phi'(X)\phi'(Y)/C^2$, with the masses of $\phi'$ where $\phi$ jumps."""
        angle = _angle(overlap)
        slope = self._pair.slope.product(angle) + jump_slope(self._pair, angle)
        return _like(overlap, slope / self._pair.energy)

    def _loss(self, angle: Tensor) -> Tensor:
        return self._pair.loss(angle) / self._pair.energy

    @cached_property
    def scale(self) -> float:
        r"""$C = \sqrt{\mathbb{E}\phi(X)^2}$: weights of variance $1/(C^2\,\text{width})$ keep the input variance 1."""
        return math.sqrt(self._pair.energy)

    def coefficients(self, terms: int) -> Float[Tensor, " terms"]:
        r"""Hermite coefficients $c_0, \dots, c_{K-1}$ of $\phi/C$, so that $\kappa(\rho) = \sum_k c_k^2 \rho^k$."""
        if terms < 1:
            raise ValueError(f"terms is {terms}, but must be at least 1")
        return coefficients_on(self._pair.rule, self.activation, terms) / self.scale

    @cached_property
    def at_zero(self) -> float:
        r"""$\kappa(0) = c_0^2$."""
        return self._square(0)

    @cached_property
    def slope_at_zero(self) -> float:
        r"""$\kappa'(0) = c_1^2$."""
        return self._square(1)

    def _square(self, order: int) -> float:
        square = float(self.coefficients(2)[order]) ** 2
        # The square of a rounding error is 0.
        return 0.0 if square <= ROUNDING**2 else square

    @cached_property
    def slope_at_one(self) -> float:
        r"""$\kappa'(1) = \mathbb{E}\phi'(X)^2/C^2$; infinite if $\phi$ jumps."""
        return self._pair.slope_energy / self._pair.energy

    @property
    def centered(self) -> bool:
        r"""Table 5.2: $\mathbb{E}\phi(X) = 0$, that is $c_0 = 0$, that is $\kappa(0) = 0$."""
        return self.at_zero == 0.0

    @property
    def stable(self) -> bool:
        r"""Table 5.2 of $\phi$ itself: $\mathbb{E}\phi(X)^2 = 1$, that is $C = 1$; after division by $C$ always so."""
        return abs(self.scale - 1) <= ROUNDING

    @property
    def nonlinear(self) -> bool:
        r"""Table 5.2: $\sum_{k \ge 2} c_k^2 > 0$; false for $\phi(x) = a + bx$."""
        return 1 - self.at_zero - self.slope_at_zero > ROUNDING

    @property
    def case(self) -> int | None:
        """Case 1 to 4 of the theorem; `None` for a linear activation, of which every overlap is a fixed point."""
        return convergence_case(self.at_zero, self.slope_at_zero, self.slope_at_one)

    @cached_property
    def fixed_point(self) -> float:
        r"""$\rho^* = \kappa(\rho^*)$, to which all overlaps but $\pm 1$ tend; NaN for a linear activation."""
        if self.case is None:
            return math.nan
        if self.case != 4:
            return 0.0 if self.case == 1 else 1.0
        if self._pair.divided_excess(REACH) > 0:
            return brentq(self._pair.divided_excess, 0.0, REACH, xtol=1e-15)

        # (1 - κ)/(1 - ρ) - 1: the fixed point at 1, which repels, is divided out.
        def excess(angle: float) -> float:
            loss = float(self._loss(torch.tensor(angle, dtype=torch.float64)))
            return loss / (2 * math.sin(angle / 2) ** 2) - 1

        return math.cos(brentq(excess, 1e-7, math.pi / 2, xtol=1e-15))

    @cached_property
    def slope_at_fixed_point(self) -> float:
        r"""$\kappa'(\rho^*)$."""
        known = {None: math.nan, 1: self.slope_at_zero, 2: self.slope_at_one, 3: 1.0}
        return known[self.case] if self.case in known else self.derivative(self.fixed_point)

    @cached_property
    def landmarks(self) -> Landmarks:
        """The numbers the theorem is about."""
        slopes = (self.at_zero, self.slope_at_zero, self.slope_at_one)
        return Landmarks(*slopes, self.fixed_point, self.slope_at_fixed_point)

    @property
    def rate(self) -> float:
        """The proven factor a layer, `contraction_rate`; 1 in case 3, where `bound` falls as 1/depth."""
        return contraction_rate(self.landmarks)

    def bound(self, overlap: int | float | Float[Tensor, "*pairs"], depth: int) -> Float[Tensor, "*pairs"]:
        r"""What $|\rho_\ell - \rho^*|$ cannot exceed after `depth` layers, `distance_bound`."""
        return distance_bound(self.landmarks, torch.cos(_angle(overlap)), depth)

    def slow_distance(self, depth: int) -> float:
        r"""$1 - \rho_\ell$ after many layers in case 3, where it does not depend on the start."""
        if self.case != 3:
            raise ValueError(f"{self.activation.name} is in case {self.case}: only case 3 has a slow approach to 1")
        # (1 - κ)/(1 - ρ) in powers of the angle, and x = 1 - cos(angle).
        series, energy = self._pair.series, 2 * self._pair.energy
        first, second = series.at_zero(1) / energy, series.at_zero(2) / energy
        return slow_distance(-math.sqrt(2) * first, -second, depth)

    def _angle_after(self, angle: Tensor) -> Tensor:
        loss = self._loss(angle)
        # Antipodes of an odd activation stay antipodes: what is left of 1 + κ is rounding.
        loss = torch.where(loss > 2 - 1e-14, 2.0, loss)
        return 2 * torch.asin((loss / 2).clamp(0.0, 1.0).sqrt())

    def trajectory(self, overlap: int | float | Float[Tensor, "*pairs"], depth: int) -> Float[Tensor, "layers *pairs"]:
        r"""$\rho_0, \rho_1 = \kappa(\rho_0), \dots, \rho_\ell$ for $\ell$ = `depth`, along the first axis."""
        if depth < 0:
            raise ValueError(f"depth is {depth}, but must be at least 0")
        angles = [_angle(overlap)]
        for _ in range(depth):
            angles.append(self._angle_after(angles[-1]))
        return torch.stack(angles).cos()


def _angle(overlap: int | float | Tensor) -> Tensor:
    tensor = overlap.double() if isinstance(overlap, Tensor) else torch.tensor(float(overlap), dtype=torch.float64)
    outside = ~(tensor.abs() <= 1)
    if outside.any():
        raise ValueError(f"overlap {tensor[outside][0].item():g} is not a cosine: it must be in [-1, 1]")
    return torch.arccos(tensor)


def _like(given: int | float | Tensor, found: Tensor) -> float | Tensor:
    return found if isinstance(given, Tensor) else float(found)


@source("joudaki2024", "Definition 5.3, section 5.6", assumes="infinite width, independent weights, no bias")
def kernel_map(
    activation: Choice,
    norm: str | None = None,
    order: str = "norm-activation",
    gain: int | float = 1.0,
    input_variance: int | float = 1.0,
) -> KernelMap:
    r"""The map of overlaps by one layer of a wide random network: $\rho_{\ell+1} = \kappa(\rho_\ell)$.

    RMS normalization on either side of the activation and layer normalization before it leave $\kappa$ unchanged (they
    hold the variance at 1); layer normalization after the activation replaces $\phi$ by $\phi - \mathbb{E}\phi(X)$.

    Args:
        activation: $\phi$: a name of `activations.ACTIVATIONS`, a module, or an elementwise function of tensors.
        norm: "none", "rms" or "layer".
        order: "norm-activation" or "activation-norm", as in `orthoscope.models`.
        gain: $\alpha$ of the shaped activation $\phi(\alpha x)/\alpha$.
        input_variance: $q$, for the map of $\phi(\sqrt q\,x)$; normalization before the activation makes it 1.

    Raises:
        ValueError: For batch norm, an unknown norm, or an activation that cannot be integrated.

    Example:
        >>> kappa = orthoscope.theory.kernel_map("relu")
        >>> round(kappa(0.0), 4), kappa.fixed_point  # 1/π: overlaps of ReLU networks tend to 1
        (0.3183, 1.0)
    """
    norm = "none" if norm is None else norm
    if norm.startswith("batch"):
        raise ValueError(
            "batch normalization couples all samples of a batch, so that two of them have no map of their own: "
            "use gram_fixed_point, which follows the whole batch"
        )
    if norm not in NORMS or order not in ORDERS:
        raise ValueError(f"norm {norm!r} in order {order!r} is unknown: norms are {NORMS}, orders are {ORDERS}")
    if norm != "none" and order == "norm-activation" and input_variance != 1:
        raise ValueError(f"{norm} normalization before the activation makes the input variance 1, not {input_variance}")
    phi = nonlinearity(activation, gain).with_input_scale(input_variance)
    found = KernelMap(_recentered(phi) if norm == "layer" and order == "activation-norm" else phi)
    if found.scale == 0:
        raise ValueError(f"activation {phi.name} is 0 everywhere: overlaps are not defined")
    return found


def _recentered(phi: Nonlinearity) -> Nonlinearity:
    rule = gaussian_rule(phi)
    values = phi(rule.nodes)
    mean = float(rule.weights @ values)
    if (values - mean).abs().max() <= ROUNDING * abs(mean):
        raise ValueError(f"activation {phi.name} is constant: layer normalization after it has nothing to normalize")

    def recentered(inputs: Tensor) -> Tensor:
        return phi.function(inputs) - mean

    return Nonlinearity(f"{phi.name} after layer normalization", recentered, phi.kinks)


@source(
    "martens2021",
    "slope of the network's map of overlaps at 1 as the target",
    assumes="infinite width, independent weights, no bias, input variance 1 (RMS or layer norm before the activation)",
)
def gain_of_slope(activation: Choice, slope: float) -> float:
    r"""The gain $\alpha$ for which $\kappa'(1) = \mathbb{E}\phi_\alpha'(X)^2/\mathbb{E}\phi_\alpha(X)^2$ is `slope`.

    $\phi_\alpha(x) = \phi(\alpha x)/\alpha$, and $X$ is a standard Gaussian. At $\alpha \to 0$ the activation is linear
    and the slope 1. Gradients grow by $\tfrac12\log\kappa'(1)$ a layer: for a factor $\zeta$ over $L$ layers ask for
    $\zeta^{2/L}$. ReLU and other homogeneous functions have the slope 1 at any gain, and are refused.

    Args:
        activation: $\phi$: a name of `activations.ACTIVATIONS`, a module, or an elementwise function of tensors.
        slope: The target, above 1.
    """

    def log_excess(gain: float) -> float:
        return math.log(kernel_map(activation, gain=gain).slope_at_one / slope)

    if not slope > 1:
        raise ValueError(f"slope is {slope:g}, but a shaped activation has one above 1, that of the identity")
    smallest, largest = log_excess(SMALLEST_GAIN), log_excess(LARGEST_GAIN)
    if smallest > 0 or largest < 0:
        raise ValueError(
            f"no gain from {SMALLEST_GAIN:g} to {LARGEST_GAIN:g} gives the slope {slope:g}: "
            f"they reach {slope * math.exp(smallest):.6g} to {slope * math.exp(largest):.6g}"
        )
    return math.exp(
        brentq(lambda log_gain: log_excess(math.exp(log_gain)), math.log(SMALLEST_GAIN), math.log(LARGEST_GAIN))
    )


@source("cho2009", "degree-1 arc-cosine kernel", assumes=_WIDE)
def relu_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""ReLU: $\kappa(\rho) = (\sqrt{1-\rho^2} + (\pi - \arccos\rho)\,\rho)/\pi$."""
    return ((1 - overlap**2).sqrt() + (math.pi - overlap.arccos()) * overlap) / math.pi


@source("cho2009", "degree-1 arc-cosine kernel", assumes=_WIDE)
def leaky_relu_overlap_map(overlap: Float[Tensor, "*pairs"], slope: float) -> Float[Tensor, "*pairs"]:
    r"""Leaky ReLU, slope $a$ below 0: $((1-a)^2\,\kappa_{\mathrm{ReLU}}(\rho) + 2a\rho)/(1 + a^2)$. $|x|$: $a = -1$."""
    return ((1 - slope) ** 2 * relu_overlap_map(overlap) + 2 * slope * overlap) / (1 + slope**2)


@source(
    "zhang2022",
    "tailored activation transformation for leaky ReLU, C(0) = η",
    assumes="infinite width, independent weights of variance 2/((1 + a²) fan_in), no bias, no skips, no norm",
)
def leaky_slope(depth: int, overlap: float = 0.9, start: float = 0.0) -> float:
    r"""The slope $a$ for which two samples of overlap `start` have `overlap` after `depth` leaky ReLUs.

    $$ \kappa_a \circ \dots \circ \kappa_a\,(\rho_0) = \rho_L, \qquad
       \kappa_a(\rho) = \frac{(1-a)^2\,\kappa_{\mathrm{ReLU}}(\rho) + 2a\rho}{1 + a^2} $$

    The overlap falls from that of ReLU, $a = 0$, to $\rho_0$ of the identity, $a = 1$. Where ReLU itself stays below
    the target, the answer is 0: there is nothing to shape. $\kappa_a'(1) = 1$ for every slope, so that cannot be a
    target: gradients through weights of that variance neither grow nor vanish, whatever the slope.

    Args:
        depth: Number of layers $L$ or $\ell$.
        overlap: $\rho_L$, the target.
        start: $\rho_0$, below the target.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, but must be at least 1")
    if not -1 < start < overlap < 1:
        raise ValueError(
            f"overlaps only grow with depth: the target {overlap:g} must be above the start {start:g}, and below 1"
        )

    def excess(slope: float) -> float:
        return overlap_after(slope, depth, start) - overlap

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-14))


def overlap_after(slope: float, depth: int, start: float) -> float:
    """The overlap after that many leaky ReLUs."""
    found = torch.tensor(start, dtype=torch.float64)
    for _ in range(depth):
        # Rounding must not leave the domain of arccos.
        found = leaky_relu_overlap_map(found, slope).clamp(-1.0, 1.0)
    return float(found)
