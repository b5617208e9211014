r"""Activations closer to the identity, by as much as the depth asks for.

What one layer does to the angle between two samples, and to a gradient, is the kernel map $\kappa$ of its activation:
overlaps gain $\kappa(0)$ from nowhere, gradients grow by $\sqrt{\kappa'(1)}$. Over $L$ layers both add up, so the
deviation of one layer may be about $1/L$.
"""

import copy
import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from orthoscope.layers import BlendedActivation, CentredActivation, ShapedActivation
from orthoscope.layers.activation_modules import activation_modules
from orthoscope.layers.centred_activation import value_and_slope_at_zero
from orthoscope.theory import KernelMap, kernel_map
from orthoscope.theory.activations import Nonlinearity, nonlinearity
from orthoscope.theory.quadrature import gaussian_rule

DEVIATION = 0.5  # of all layers together: samples at right angles end with a cosine of about this
_PRECISION = 0.01  # of the logarithm of a strength
_SMALLEST = 1e-3  # strength beyond which an activation is the identity for any purpose


def softened(activation: nn.Module, strength: float) -> nn.Module:
    r"""The activation at a strength from 0, the identity, to 1, itself up to shift and scale.

    * with a kink at 0: $(1-t)x + t\phi(x)$, of a ReLU the leaky one;
    * else: $(\phi(tx) - \phi(0))/(t\,\phi'(0))$.
    """
    if not 0 < strength <= 1:
        raise ValueError(f"the strength of an activation is above 0 and at most 1, got {strength!r}")
    if isinstance(activation, nn.ReLU | nn.LeakyReLU):
        below = getattr(activation, "negative_slope", 0.0)
        return nn.LeakyReLU(1 - strength * (1 - below), inplace=activation.inplace)
    twin = _out_of_place(activation)
    if _kinked(twin):
        return BlendedActivation(twin, strength)
    value, slope = value_and_slope_at_zero(twin)
    return ShapedActivation(twin if (value, slope) == (0.0, 1.0) else CentredActivation(twin), strength)


def _out_of_place(activation: nn.Module) -> nn.Module:
    """A copy that leaves its input as it is: points at which a function is looked at are wanted again."""
    twin = copy.deepcopy(activation)
    for module in twin.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010 - nn.Module says nothing of it
    return twin


def _kinked(activation: nn.Module) -> bool:
    """Whether the slopes left and right of 0 differ, or are 0: a gain then leads to no straight line, or to none."""
    step = 1e-7
    points = torch.tensor([-step, step], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        output = activation(points.clone())
        if not output.requires_grad:
            return True
        (slopes,) = torch.autograd.grad(output.sum(), points)
    left, right = slopes.tolist()
    return bool(abs(left - right) > 1e-3 * max(abs(left), abs(right)) or abs(left) < 1e-3)


def strength_for(activation: nn.Module, depth: int, deviation: float = DEVIATION) -> float:
    r"""The largest strength at which one layer deviates from the identity by at most `deviation` / `depth`.

    $$ \max(|\kappa'(1) - 1|,\ \kappa(0),\ \mathbb{E}[x\phi(x)\phi'(x)]/\mathbb{E}\phi^2 - 1) \le \text{deviation}/L $$
    """
    # Where the activation itself is not smooth; searching takes long, and shaping only moves these places.
    kinks = nonlinearity(_out_of_place(activation)).kinks
    if depth * _deviation(softened(activation, 1.0), kinks, 1.0) <= deviation:
        return 1.0
    low, high = math.log(_SMALLEST), 0.0
    while high - low > _PRECISION:
        strength = math.exp((low + high) / 2)
        good = depth * _deviation(softened(activation, strength), kinks, strength) <= deviation
        low, high = (math.log(strength), high) if good else (low, math.log(strength))
    return float(f"{math.exp(low):.3g}")


def kernel_of(activation: nn.Module, kinks: Sequence[float] | None = None) -> KernelMap:
    """The kernel map of a module, its kinks searched for unless they are known."""
    function = _out_of_place(activation).double()
    if kinks is None:
        return kernel_map(nonlinearity(function))
    return kernel_map(Nonlinearity(repr(activation), function, tuple(kinks)))


def _deviation(activation: nn.Module, kinks: Sequence[float], strength: float) -> float:
    divisor = strength if isinstance(activation, ShapedActivation) else 1.0
    kernel = kernel_of(activation, [kink / divisor for kink in kinks])
    return max(abs(kernel.slope_at_one - 1), kernel.at_zero, _length_instability(kernel))


def _length_instability(kernel: KernelMap) -> float:
    r"""$\mathbb{E}[x\,\phi(x)\phi'(x)]/\mathbb{E}\phi^2 - 1$: by how much an error of a length grows in a layer."""
    rule = gaussian_rule(kernel.activation)
    values, slopes = kernel.activation(rule.nodes), kernel.activation.derivative(rule.nodes)
    return float(rule.weights @ (rule.nodes * values * slopes)) / kernel.scale**2 - 1


def soften_activations_(model: nn.Module, strengths: Mapping[str, float]) -> list[str]:
    """Replace activation modules by shaped ones, and return their names; `strengths` is by what a module prints.

    `{"ReLU()": 0.2}` makes every `nn.ReLU()` a leaky one of slope 0.8. Nothing is replaced if one name fits nothing.
    """
    found = list(activation_modules(model))
    unknown = [text for text in strengths if text not in {repr(module) for _, module in found}]
    if unknown or not strengths:
        raise ValueError(
            f"no activation module prints as {(unknown or ['anything'])[0]!r}: there are "
            f"{', '.join(sorted({repr(module) for _, module in found})) or 'none (they are functions in forward)'}"
        )
    chosen = [(name, softened(module, strengths[repr(module)])) for name, module in found if repr(module) in strengths]
    for name, module in chosen:
        module.train(model.get_submodule(name).training)
        _replace(model, name, module)
    return [name for name, _ in chosen]


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
