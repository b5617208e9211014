"""An activation moved and stretched so that it passes through 0 with slope 1."""

import copy
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn


@final
class CentredActivation(nn.Module):
    r"""$x \mapsto (\phi(x) - \phi(0))/\phi'(0)$: near 0 the identity, whatever $\phi$ is.

    A sigmoid becomes $2\tanh(x/2)$. With `ShapedActivation` around it the same at any gain,
    $(\phi(\alpha x) - \phi(0))/(\alpha\phi'(0))$, which tends to the identity as $\alpha \to 0$.
    """

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.value, self.slope = value_and_slope_at_zero(activation)
        if self.slope == 0:
            raise ValueError(f"activation {activation!r} has slope 0 at 0 and cannot be made the identity there")

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        output: Tensor = self.activation(inputs)
        return (output - self.value) / self.slope

    def extra_repr(self) -> str:
        return f"value={self.value:g}, slope={self.slope:g}"


def value_and_slope_at_zero(activation: nn.Module) -> tuple[float, float]:
    r"""$\phi(0)$ and $\phi'(0)$, by automatic differentiation in float64; a copy is run."""
    twin = copy.deepcopy(activation)
    with torch.enable_grad():
        origin = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        value = twin(origin.clone())  # it may work in place, which a leaf does not allow
        (slope,) = torch.autograd.grad(value, origin)
    return float(value.detach()), float(slope)
