"""The gain of weights that suits an activation."""

from torch import nn

from orthoscope.layers.centred_activation import value_and_slope_at_zero
from orthoscope.prescriptions.softening import kernel_of
from orthoscope.theory import KernelMap


def critical_gain(activation: nn.Module) -> float:
    r"""The gain at which a wide layer keeps what it is given, neither shrinking nor mixing it more than it must.

    $1/|\phi'(0)|$ for an odd activation that would tear samples apart at unit variance ($\kappa(0) = 0$,
    $\kappa'(1) > 1$: tanh, sin), where lengths then shrink slowly toward the straight part; else
    $1/\sqrt{\mathbb{E}\phi(X)^2}$, which keeps unit variance ($\sqrt2$ for ReLU).
    """
    kernel = kernel_of(activation)
    _, slope = value_and_slope_at_zero(activation)
    if kernel.centred and kernel.slope_at_one > 1 and slope != 0 and _odd(kernel):
        return rounded(1 / abs(slope))
    return rounded(1 / kernel.scale)


def _odd(kernel: KernelMap) -> bool:
    """Whether all even Hermite coefficients vanish, the first few standing for all."""
    return bool((kernel.coefficients(7)[::2].abs() < 1e-9).all())


def rounded(value: float) -> float:
    """Four digits: what is printed is what is done."""
    return float(f"{value:.4g}")
