"""The slope below zero at which a deep network of leaky ReLUs keeps samples apart."""

import torch
from scipy.optimize import brentq

from orthoscope.theory.kernel.closed_forms import leaky_relu_overlap_map
from orthoscope.theory.sources import source


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
