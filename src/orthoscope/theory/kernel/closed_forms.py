"""Kernel maps that are elementary functions, all with κ(1) = 1, and the leaky slope that keeps samples apart."""

import math

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from orthoscope.theory.sources import source

_WIDE = "infinite width, independent weights, no bias, input variance 1"


@source("cho2009", "degree-1 arc-cosine kernel", assumes=_WIDE)
def relu_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""ReLU: $\kappa(\rho) = (\sqrt{1-\rho^2} + (\pi - \arccos\rho)\,\rho)/\pi$."""
    return ((1 - overlap**2).sqrt() + (math.pi - overlap.arccos()) * overlap) / math.pi


@source("cho2009", "degree-1 arc-cosine kernel", assumes=_WIDE)
def leaky_relu_overlap_map(overlap: Float[Tensor, "*pairs"], slope: float) -> Float[Tensor, "*pairs"]:
    r"""Leaky ReLU, slope $a$ below 0: $((1-a)^2\,\kappa_{\mathrm{ReLU}}(\rho) + 2a\rho)/(1 + a^2)$. $|x|$: $a = -1$."""
    return ((1 - slope) ** 2 * relu_overlap_map(overlap) + 2 * slope * overlap) / (1 + slope**2)


@source("cho2009", "degree-0 arc-cosine kernel", assumes=_WIDE)
def step_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""Heaviside's step: $\kappa(\rho) = 1 - \arccos(\rho)/\pi$."""
    return 1 - overlap.arccos() / math.pi


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def sign_overlap_map(overlap: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
    r"""Sign: $\kappa(\rho) = \tfrac2\pi \arcsin\rho$."""
    return 2 / math.pi * overlap.arcsin()


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def exponential_overlap_map(overlap: Float[Tensor, "*pairs"], exponent: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = e^{ax}$: $\kappa(\rho) = e^{a^2(\rho - 1)}$."""
    return torch.exp(exponent**2 * (overlap - 1))


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def sine_overlap_map(overlap: Float[Tensor, "*pairs"], frequency: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \sin(ax)$: $\kappa(\rho) = \sinh(a^2\rho)/\sinh(a^2)$."""
    # Without the factor e^{a²|ρ|}, which overflows above a frequency of 26.
    square = frequency**2
    decay = torch.exp(square * (overlap.abs() - 1))
    return overlap.sign() * decay * torch.expm1(-2 * square * overlap.abs()) / math.expm1(-2 * square)


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def cosine_overlap_map(overlap: Float[Tensor, "*pairs"], frequency: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \cos(ax)$: $\kappa(\rho) = \cosh(a^2\rho)/\cosh(a^2)$."""
    square = frequency**2
    decay = torch.exp(square * (overlap.abs() - 1))
    return decay * (1 + torch.exp(-2 * square * overlap.abs())) / (1 + math.exp(-2 * square))


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def erf_overlap_map(overlap: Float[Tensor, "*pairs"], gain: float = 1.0) -> Float[Tensor, "*pairs"]:
    r"""$\phi(x) = \operatorname{erf}(ax)$: $\kappa(\rho) = \arcsin(b\rho)/\arcsin(b)$ with $b = 2a^2/(1 + 2a^2)$."""
    share = 2 * gain**2 / (1 + 2 * gain**2)
    return torch.arcsin(share * overlap) / math.asin(share)


@source("joudaki2024", "Corollary 5.7", assumes=_WIDE)
def hermite_overlap_map(
    overlap: Float[Tensor, "*pairs"], coefficients: Float[Tensor, " terms"]
) -> Float[Tensor, "*pairs"]:
    r"""$\phi = \sum_k c_k\,\mathrm{he}_k$, finitely many terms: $\kappa(\rho) = \sum_k c_k^2 \rho^k / \sum_k c_k^2$."""
    total = torch.zeros_like(overlap)
    for square in reversed(coefficients.square().tolist()):
        total = total * overlap + square
    return total / coefficients.square().sum()


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
