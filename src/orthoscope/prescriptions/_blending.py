r"""How far activations are blended toward the identity, and the gain of weights that suits them, from kernel maps.

One layer changes the cosine of two samples, and a gradient, by the kernel map $\kappa$ of its activation: orthogonal
samples get the cosine $\kappa(0)$, gradients grow by $\sqrt{\kappa'(1)}$. Over $L$ layers both add up, so one layer may
deviate from the identity by about $1/L$.
"""

import math
from collections.abc import Sequence

from torch import nn

from orthoscope.activations import (
    Nonlinearity,
    ShapedActivation,
    nonlinearity,
    toward_identity,
    value_and_slope_at_zero,
)
from orthoscope.activations.table import out_of_place
from orthoscope.theory import KernelMap, kernel_map
from orthoscope.theory.quadrature import gaussian_rule

DEVIATION = 0.5  # of all layers together: orthogonal samples end with a cosine of about this
_PRECISION = 0.01  # of the logarithm of a strength
_MIN_STRENGTH = 1e-3  # below this an activation is the identity for any purpose


def blending_strength(activation: nn.Module, depth: int, deviation: float = DEVIATION) -> float:
    r"""The largest strength of `toward_identity` at which one layer deviates by at most `deviation` / `depth`.

    $$ \max(|\kappa'(1) - 1|,\ \kappa(0),\ \mathbb{E}[x\phi(x)\phi'(x)]/\mathbb{E}\phi^2 - 1) \le \text{deviation}/L $$
    """
    # Searched for once: blending only moves the kinks.
    kinks = nonlinearity(out_of_place(activation)).kinks
    if depth * _deviation(toward_identity(activation, 1.0), kinks, 1.0) <= deviation:
        return 1.0
    low, high = math.log(_MIN_STRENGTH), 0.0
    while high - low > _PRECISION:
        strength = math.exp((low + high) / 2)
        good = depth * _deviation(toward_identity(activation, strength), kinks, strength) <= deviation
        low, high = (math.log(strength), high) if good else (low, math.log(strength))
    return float(f"{math.exp(low):.3g}")


def critical_gain(activation: nn.Module) -> float:
    r"""The gain of weights at which a wide layer preserves its input's norm and mixes samples no more than it must.

    $1/|\phi'(0)|$ for an odd activation whose gradients would explode at unit variance ($\kappa(0) = 0$,
    $\kappa'(1) > 1$: tanh, sin), where norms then shrink slowly toward the linear range; else
    $1/\sqrt{\mathbb{E}\phi(X)^2}$, which keeps unit variance ($\sqrt2$ for ReLU).
    """
    kernel = kernel_of(activation)
    _, slope = value_and_slope_at_zero(activation)
    if kernel.centered and kernel.slope_at_one > 1 and slope != 0 and _is_odd(kernel):
        return rounded(1 / abs(slope))
    return rounded(1 / kernel.scale)


def rounded(value: float) -> float:
    """Four digits, so that the printed code is exactly what is applied."""
    return float(f"{value:.4g}")


def kernel_of(activation: nn.Module, kinks: Sequence[float] | None = None) -> KernelMap:
    """The kernel map of a module; its kinks are searched for unless they are given."""
    function = out_of_place(activation).double()
    if kinks is None:
        return kernel_map(nonlinearity(function))
    return kernel_map(Nonlinearity(repr(activation), function, tuple(kinks)))


def _is_odd(kernel: KernelMap) -> bool:
    """Whether the first even Hermite coefficients vanish."""
    return bool((kernel.coefficients(7)[::2].abs() < 1e-9).all())


def _deviation(activation: nn.Module, kinks: Sequence[float], strength: float) -> float:
    divisor = strength if isinstance(activation, ShapedActivation) else 1.0
    kernel = kernel_of(activation, [kink / divisor for kink in kinks])
    return max(abs(kernel.slope_at_one - 1), kernel.at_zero, _norm_instability(kernel))


def _norm_instability(kernel: KernelMap) -> float:
    r"""$\mathbb{E}[x\,\phi(x)\phi'(x)]/\mathbb{E}\phi^2 - 1$: growth of a relative error of the norm in one layer."""
    rule = gaussian_rule(kernel.activation)
    values, slopes = kernel.activation(rule.nodes), kernel.activation.derivative(rule.nodes)
    return float(rule.weights @ (rule.nodes * values * slopes)) / kernel.scale**2 - 1
