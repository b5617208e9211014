"""The gain at which the kernel map of an activation has a given slope at 1."""

import math

from scipy.optimize import brentq

from orthoscope.theory.activations import Choice
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.sources import source

SMALLEST, LARGEST = 1e-3, 32.0


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
    """

    def log_excess(gain: float) -> float:
        return math.log(kernel_map(activation, gain=gain).slope_at_one / slope)

    if not slope > 1:
        raise ValueError(f"slope is {slope:g}, but a shaped activation has one above 1, that of the identity")
    smallest, largest = log_excess(SMALLEST), log_excess(LARGEST)
    if smallest > 0 or largest < 0:
        raise ValueError(
            f"no gain from {SMALLEST:g} to {LARGEST:g} gives the slope {slope:g}: "
            f"they reach {slope * math.exp(smallest):.6g} to {slope * math.exp(largest):.6g}"
        )
    return math.exp(brentq(lambda log_gain: log_excess(math.exp(log_gain)), math.log(SMALLEST), math.log(LARGEST)))
