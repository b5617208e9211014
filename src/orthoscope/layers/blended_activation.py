"""An activation mixed with the identity, as a leaky ReLU is a mixture of a ReLU and the identity."""

import math
from typing import final

from jaxtyping import Float
from torch import Tensor, nn


@final
class BlendedActivation(nn.Module):
    r"""$x \mapsto (1 - t)\,x + t\,\phi(x)$ for the share $t$: of a ReLU, the leaky ReLU of slope $1 - t$.

    Unlike a gain it also tames activations with a kink at 0, which look the same at every scale there.
    """

    def __init__(self, activation: nn.Module, share: float) -> None:
        super().__init__()
        if (
            isinstance(share, bool)
            or not isinstance(share, int | float)
            or not (0 <= share <= 1 and math.isfinite(share))
        ):
            raise ValueError(f"the share of an activation is a number from 0 to 1, got {share!r}")
        self.activation = activation
        self.share = float(share)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        # The identity first: an activation in place would change what is added.
        rest = (1 - self.share) * inputs
        output: Tensor = self.activation(inputs)
        return rest + self.share * output

    def extra_repr(self) -> str:
        return f"share={self.share:g}"
