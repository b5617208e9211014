"""The gain that makes an activation closer to the identity."""

import math
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.layers.activations import Activation, unshaped


@final
class ShapedActivation(nn.Module):
    r"""$x \mapsto \phi(\alpha x)/\alpha$ for the gain $\alpha$: if $\phi(x) \approx x$ near 0, closer to the identity.

    `activation` is an elementwise module (copied), a name such as "tanh", a class or a function of tensors. Equation
    (6.11) of Joudaki (2024) has no divisor: before a batch norm it changes nothing, elsewhere it keeps the slope at 0.
    Like the slope of `nn.LeakyReLU`, the gain is an attribute and not in the `state_dict`.
    """

    def __init__(self, activation: Activation, gain: int | float) -> None:
        super().__init__()
        if gain == 0 or not math.isfinite(gain):
            raise ValueError(
                f"an activation gain is a number other than 0, got {gain!r}: the limit at 0 is activation='identity'"
            )
        self.activation = unshaped(activation)
        self.gain = float(gain)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        shaped: Tensor = self.activation(self.gain * inputs)
        return shaped / self.gain

    def extra_repr(self) -> str:
        return f"gain={self.gain:g}"
