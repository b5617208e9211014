"""Kernel maps of ReLU and its leaky relatives, both with κ(1) = 1, and the leaky slope that keeps samples apart."""

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
