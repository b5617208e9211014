r"""Activation modules closer to the identity: shaped by a gain, centered at 0, or blended with the identity.

$$ \text{shaped: } \frac{\phi(\alpha x)}{\alpha} \qquad \text{centered: } \frac{\phi(x) - \phi(0)}{\phi'(0)} \qquad
   \text{blended: } (1 - t)\,x + t\,\phi(x) $$

A gain suits activations that are smooth at 0, which it makes linear; blending suits those with a kink at 0, which look
the same at every scale. `toward_identity` chooses between them. Gains and shares are attributes, as the slope of
`nn.LeakyReLU` is, and not in the `state_dict`: a checkpoint of the plain network still loads.
"""

import copy
import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations.table import Activation, activation_module


@final
class ShapedActivation(nn.Module):
    r"""$x \mapsto \phi(\alpha x)/\alpha$ for the gain $\alpha$: closer to the identity if $\phi(x) \approx x$ near 0.

    Equation (6.11) of Joudaki (2024) has no divisor: before a batch norm it changes nothing, elsewhere it keeps the
    slope at 0.

    Args:
        activation: As for `activation_module`; a module is copied.
        gain: A finite number other than 0.
    """

    def __init__(self, activation: Activation, gain: int | float) -> None:
        super().__init__()
        if gain == 0 or not math.isfinite(gain):
            raise ValueError(
                f"an activation gain is a number other than 0, got {gain!r}: the limit at 0 is activation='identity'"
            )
        self.activation = activation_module(activation)
        self.gain = float(gain)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the shaped activation to every entry."""
        shaped: Tensor = self.activation(self.gain * inputs)
        return shaped / self.gain

    def extra_repr(self) -> str:
        """The gain."""
        return f"gain={self.gain:g}"


def activation(choice: Activation, gain: int | float = 1.0) -> nn.Module:
    r"""A new module for the activation of one layer (see `activation_module`), shaped unless the gain is 1.

    Args:
        choice: As for `activation_module`.
        gain: $\alpha$ of `ShapedActivation`.
    """
    return activation_module(choice) if gain == 1 else ShapedActivation(choice, gain)


@final
class CenteredActivation(nn.Module):
    r"""$x \mapsto (\phi(x) - \phi(0))/\phi'(0)$: through 0 with slope 1; a sigmoid becomes $2\tanh(x/2)$.

    Inside a `ShapedActivation` it is $(\phi(\alpha x) - \phi(0))/(\alpha\phi'(0))$, which tends to the identity as
    $\alpha \to 0$.

    Args:
        activation: An elementwise module whose slope at 0 is not 0.
    """

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.value, self.slope = value_and_slope_at_zero(activation)
        if self.slope == 0:
            raise ValueError(f"activation {activation!r} has slope 0 at 0 and cannot be made the identity there")

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the centered activation to every entry."""
        output: Tensor = self.activation(inputs)
        return (output - self.value) / self.slope

    def extra_repr(self) -> str:
        """Value and slope of the activation at 0."""
        return f"value={self.value:g}, slope={self.slope:g}"


@final
class BlendedActivation(nn.Module):
    r"""$x \mapsto (1 - t)\,x + t\,\phi(x)$ for the share $t \in [0, 1]$: of a ReLU, the leaky ReLU of slope $1 - t$.

    Args:
        activation: An elementwise module.
        share: $t$, from 0 (the identity) to 1 (the activation).
    """

    def __init__(self, activation: nn.Module, share: float) -> None:
        super().__init__()
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(f"the share of an activation is a number from 0 to 1, got {share!r}")
        self.activation = activation
        self.share = float(share)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the blend of identity and activation to every entry."""
        # The identity part first: an in-place activation would overwrite the inputs.
        rest = (1 - self.share) * inputs
        output: Tensor = self.activation(inputs)
        return rest + self.share * output

    def extra_repr(self) -> str:
        """The share of the activation."""
        return f"share={self.share:g}"


def toward_identity(activation: nn.Module, strength: float) -> nn.Module:
    r"""The activation blended toward the identity: 0 is the identity, 1 the activation up to shift and scale.

    * with a kink or slope 0 at 0: $(1-t)x + t\phi(x)$, of a ReLU the leaky one;
    * else: $(\phi(tx) - \phi(0))/(t\,\phi'(0))$.

    Args:
        activation: An elementwise module; it is copied.
        strength: $t$, above 0 and at most 1.
    """
    if not 0 < strength <= 1:
        raise ValueError(f"the strength of an activation is above 0 and at most 1, got {strength!r}")
    if isinstance(activation, nn.ReLU | nn.LeakyReLU):
        below = getattr(activation, "negative_slope", 0.0)
        return nn.LeakyReLU(1 - strength * (1 - below), inplace=activation.inplace)
    twin = out_of_place(activation)
    if not _has_one_slope_at_zero(twin):
        return BlendedActivation(twin, strength)
    value, slope = value_and_slope_at_zero(twin)
    return ShapedActivation(twin if (value, slope) == (0.0, 1.0) else CenteredActivation(twin), strength)


def out_of_place(activation: nn.Module) -> nn.Module:
    """A copy that does not overwrite its inputs."""
    twin = copy.deepcopy(activation)
    for module in twin.modules():
        if hasattr(module, "inplace"):
            setattr(module, "inplace", False)  # noqa: B010 - not an attribute that nn.Module declares
    return twin


def value_and_slope_at_zero(activation: nn.Module) -> tuple[float, float]:
    r"""$\phi(0)$ and $\phi'(0)$ of a copy, by automatic differentiation in float64.

    Args:
        activation: An elementwise module; it is not changed.
    """
    twin = copy.deepcopy(activation)
    with torch.enable_grad():
        origin = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        value = twin(origin.clone())  # a clone: an in-place activation may not write on a leaf
        (slope,) = torch.autograd.grad(value, origin)
    return float(value.detach()), float(slope)


def _has_one_slope_at_zero(activation: nn.Module) -> bool:
    """Whether the slopes left and right of 0 agree and are not 0, so that small gains lead to a straight line."""
    step = 1e-7
    points = torch.tensor([-step, step], dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        output = activation(points.clone())
        if not output.requires_grad:
            return False
        (slopes,) = torch.autograd.grad(output.sum(), points)
    left, right = slopes.tolist()
    return bool(abs(left - right) <= 1e-3 * max(abs(left), abs(right)) and abs(left) >= 1e-3)
