"""The parts that all networks here are made of: weight layers, plain blocks and residual blocks."""

from collections import OrderedDict
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import skip_init

from orthoscope.models.activations import Activation, activation

Layer = TypeVar("Layer", bound=nn.Module)

ORDERS = ("norm-activation", "activation-norm")


def linear(in_features: int, out_features: int, bias: bool) -> nn.Linear:
    """A linear layer without values: `initialise_` fills it, and the global generator stays untouched."""
    return _without_values(nn.Linear, in_features, out_features, bias=bias)


def convolution(in_channels: int, out_channels: int, kernel: int, bias: bool, stride: int = 1) -> nn.Conv2d:
    """A convolution without values, zero-padded so that at stride 1 the map keeps its size."""
    if kernel < 1 or kernel % 2 == 0:
        raise ValueError(f"kernel is {kernel}, but only an odd kernel can be padded evenly on both sides")
    return _without_values(nn.Conv2d, in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=bias)


def embedding(count: int, width: int) -> nn.Embedding:
    """An embedding without values."""
    return _without_values(nn.Embedding, count, width)


def _without_values(kind: type[Layer], *sizes: int, **options: Any) -> Layer:
    # `skip_init` would put the layer on the CPU whatever `with torch.device(...)` says.
    device = torch.get_default_device()
    layer: Layer = skip_init(kind, *sizes, **options, device=device)
    return layer


class ResidualBlock(nn.Module):
    r"""$h \mapsto s(h) + \text{scale} \cdot F(h)$: $F$ is the `branch`, $s$ the `shortcut` or the identity.

    With `skip=False` it is $\text{scale} \cdot F(h)$, as in the same network without skip connections.
    `branch` stands alone, so that its Jacobian can be taken without the skip.
    """

    def __init__(
        self, branch: nn.Module, *, skip: bool = True, scale: float = 1.0, shortcut: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.branch = branch
        self.skip = skip
        self.scale = scale
        self.shortcut = shortcut if skip else None

    def forward(self, hidden: Float[Tensor, "samples *shape"]) -> Float[Tensor, "samples *shape_out"]:
        step: Tensor = self.branch(hidden)
        if self.scale != 1:
            step = self.scale * step
        if not self.skip:
            return step
        return (hidden if self.shortcut is None else self.shortcut(hidden)) + step

    def extra_repr(self) -> str:
        return f"skip={self.skip}, scale={self.scale}"


def block(
    weight: nn.Linear | nn.Conv2d, norm: nn.Module, nonlinearity: Activation, gain: float, order: str
) -> nn.Sequential:
    """Weight, then norm and activation in the chosen order, under these names; no norm is no module."""
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}: choose one of {', '.join(ORDERS)}")
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["linear" if isinstance(weight, nn.Linear) else "conv"] = weight
    for name in order.split("-"):
        if name == "activation":
            parts[name] = activation(nonlinearity, gain)
        elif not isinstance(norm, nn.Identity):
            parts[name] = norm
    return nn.Sequential(parts)


def require_positive(**sizes: object) -> None:
    """A size that is not a whole number of at least 1 is the user's mistake."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} is {size!r}, but must be a whole number of at least 1")
