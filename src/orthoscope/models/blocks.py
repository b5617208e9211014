"""The parts that the networks here are made of: normalizations by name, weight layers, plain and residual blocks."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import skip_init

from orthoscope.activations import Activation, activation

Module = TypeVar("Module", bound=nn.Module)

ORDERS = ("norm-activation", "activation-norm")


def block(
    weight: nn.Linear | nn.Conv2d, norm: nn.Module, nonlinearity: Activation, gain: float, order: str
) -> nn.Sequential:
    """A weight layer, then normalization and activation in the given order.

    Modules are named "linear" or "conv", "norm" and "activation"; an identity in place of the norm is left out.
    """
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


class ModReLU(nn.Module):
    r"""$\operatorname{sign}(x)\,\max(|x| + b, 0)$ with a bias $b$ per unit, initially 0, where it is the identity.

    Arjovsky et al., 2016. It acts on the magnitude only and keeps signs, so an orthogonal recurrence preserves norms.

    Args:
        units: Number of units.
    """

    def __init__(self, units: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(units))

    def forward(self, inputs: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units"]:
        """Apply the activation."""
        return inputs.sign() * (inputs.abs() + self.bias).relu()


class ResidualBlock(nn.Module):
    r"""$h \mapsto s(h) + \text{scale} \cdot F(h)$: $F$ is the `branch`, $s$ the `shortcut` or the identity.

    Args:
        branch: $F$, a module of its own, so that its Jacobian can be taken without the skip.
        skip: False for $\text{scale} \cdot F(h)$, the same network without skip connections.
        scale: Factor of the branch.
        shortcut: $s$, where the branch changes the shape; None for the identity.
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
        """The skip plus the scaled branch."""
        step: Tensor = self.branch(hidden)
        if self.scale != 1:
            step = self.scale * step
        if not self.skip:
            return step
        return (hidden if self.shortcut is None else self.shortcut(hidden)) + step

    def extra_repr(self) -> str:
        """Skip and scale."""
        return f"skip={self.skip}, scale={self.scale}"


def linear(in_features: int, out_features: int, bias: bool) -> nn.Linear:
    """A linear layer with uninitialized values: `initialize_` fills it, and the global generator is not used."""
    return _without_values(nn.Linear, in_features, out_features, bias=bias)


def convolution(in_channels: int, out_channels: int, kernel: int, bias: bool, stride: int = 1) -> nn.Conv2d:
    """A convolution with uninitialized values, zero-padded so that at stride 1 the map keeps its size."""
    if kernel < 1 or kernel % 2 == 0:
        raise ValueError(f"kernel is {kernel}, but only an odd kernel can be padded evenly on both sides")
    return _without_values(nn.Conv2d, in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=bias)


def _without_values(kind: type[Module], *sizes: int, **options: Any) -> Module:
    # `skip_init` would put the layer on the CPU despite `with torch.device(...)`.
    device = torch.get_default_device()
    layer: Module = skip_init(kind, *sizes, **options, device=device)
    return layer


class BatchRootMeanSquare(nn.Module):
    r"""Divides every unit by its root mean square over the batch (and the positions of a map).

    $$ y_{ij} = x_{ij} \Big/ \sqrt{\tfrac1n \sum_k x_{kj}^2} $$

    No centering and no ε: the batch normalization of daneshmand2021, eq. (1), up to the constant $\sqrt n$.
    A unit that is exactly 0 on the whole batch becomes NaN.
    """

    def forward(self, inputs: Float[Tensor, "samples units *map"]) -> Float[Tensor, "samples units *map"]:
        """Normalize a batch."""
        others = [0, *range(2, inputs.ndim)]
        return inputs / inputs.square().mean(others, keepdim=True).sqrt()


class MapRootMeanSquare(nn.Module):
    r"""RMS normalization of a feature map: divides every sample by its root mean square over all its entries.

    $$ y_i = x_i \Big/ \sqrt{\operatorname{mean}(x_i^2) + \epsilon} $$

    with ε the machine epsilon, as in `nn.RMSNorm`.
    """

    def forward(self, inputs: Float[Tensor, "samples units *map"]) -> Float[Tensor, "samples units *map"]:
        """Normalize a batch of feature maps."""
        power = inputs.square().mean(list(range(1, inputs.ndim)), keepdim=True)
        return inputs * (power + torch.finfo(inputs.dtype).eps).rsqrt()


Factory = Callable[[int, bool], nn.Module]

VECTOR_NORMS: dict[str, Factory] = {
    "none": lambda features, affine: nn.Identity(),
    "batch": lambda features, affine: nn.BatchNorm1d(features, affine=affine),
    "batch-uncentered": lambda features, affine: BatchRootMeanSquare(),
    "layer": lambda features, affine: nn.LayerNorm(features, elementwise_affine=affine),
    "rms": lambda features, affine: nn.RMSNorm(features, elementwise_affine=affine),
}

MAP_NORMS: dict[str, Factory] = {
    "none": lambda features, affine: nn.Identity(),
    "batch": lambda features, affine: nn.BatchNorm2d(features, affine=affine),
    "batch-uncentered": lambda features, affine: BatchRootMeanSquare(),
    # One group of all channels: mean and variance of a whole sample.
    "layer": lambda features, affine: nn.GroupNorm(1, features, affine=affine),
    "rms": lambda features, affine: MapRootMeanSquare(),
}


def vector_norm(name: str, features: int, affine: bool = False) -> nn.Module:
    """A normalization of `(samples, features)` by its name in `VECTOR_NORMS`.

    Without learnable scale and shift unless `affine`, so that the theory, which has none, also holds during training.
    """
    return _factory(VECTOR_NORMS, name)(features, affine)


def map_norm(name: str, features: int, affine: bool = False) -> nn.Module:
    """A normalization of `(samples, features, height, width)` by its name in `MAP_NORMS`; `affine` as for vectors."""
    return _factory(MAP_NORMS, name)(features, affine)


def _factory(table: dict[str, Factory], name: str) -> Factory:
    if name not in table:
        raise ValueError(f"unknown normalization {name!r}: choose one of {', '.join(table)}")
    return table[name]


def structure(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """Name and printed form, without children, of every module; shared modules are listed at each place."""
    return tuple(
        (name, repr(module) if next(module.children(), None) is None else _of_itself(module))
        for name, module in model.named_modules(remove_duplicate=False)
    )


def _of_itself(module: nn.Module) -> str:
    return f"{type(module).__name__}({module.extra_repr()})"


def require_positive(**sizes: object) -> None:
    """A ValueError for a size that is not a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} is {size!r}, but must be a whole number of at least 1")
