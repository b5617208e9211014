"""Weights of linear and convolutional layers as stacks of matrices, read and written.

A grouped convolution is block diagonal, so a weight is a stack `(groups, out, in·k·k)`. Writing works for parametrized
weights, which are assigned, and for sharded ones (FSDP2), of which every process keeps its slice.
"""

import math
from collections.abc import Callable, Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from orthoscope.linalg import group_matrices, weight_of_group_matrices

WeightLayer = nn.Linear | _ConvNd

_ENTRIES = 8  # sampled of every weight and bias; training changes all of them


def check_network(model: nn.Module) -> None:
    """Raise a ValueError if this is no module, as a weight is none."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"a network or a layer is initialized, got a {type(model).__name__}")


def weight_layers(model: nn.Module) -> list[tuple[str, WeightLayer]]:
    """Linear and convolutional layers in order of definition, without those tied to an embedding."""
    check_network(model)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)}
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, WeightLayer) and id(module.weight) not in embeddings
    ]


def weight_sample(model: nn.Module) -> tuple[float, ...]:
    """A few evenly spaced entries of every weight and bias that is not on the meta device.

    Sharded ones are gathered, so all processes must call.
    """
    found: list[float] = []
    for _, layer in weight_layers(model):
        for values in (layer.weight, layer.bias):
            if values is not None and not values.is_meta:
                flat = whole(values.detach()).flatten()
                found += flat[:: max(1, len(flat) // _ENTRIES)].tolist()
    return tuple(found)


def weight_blocks(layer: WeightLayer) -> Float[Tensor, "groups out fan_in"]:
    """The weight as one matrix `(out, in·k·k)` per group; sharded weights are gathered."""
    return group_matrices(whole(layer.weight.detach()), *_layout(layer))


def blocks_shape(layer: WeightLayer) -> tuple[int, int, int]:
    """Shape `(groups, out, fan_in)` of `weight_blocks`, without gathering a sharded weight."""
    shadow = torch.empty(layer.weight.shape, device="meta")
    groups, out, fan_in = group_matrices(shadow, *_layout(layer)).shape
    return groups, out, fan_in


@torch.no_grad()
def fill_(layer: WeightLayer, blocks: Float[Tensor, "groups out fan_in"]) -> None:
    """Write matrices, shaped as `weight_blocks`, into the layer's weight."""
    weight = layer.weight
    filters = weight_of_group_matrices(blocks, weight.shape, _layout(layer)[1])
    if parametrize.is_parametrized(layer, "weight"):
        # A parametrized `weight` is recomputed at every access: in-place writes would be lost.
        layer.weight = filters.to(weight)
    else:
        write_(weight, filters)


def normal_blocks(
    layer: WeightLayer, std: float, generator: torch.Generator | None = None
) -> Float[Tensor, "groups out fan_in"]:
    r"""Independent $\mathcal N(0, \text{std}^2)$, shaped as `weight_blocks`, on the generator's device."""
    weight = layer.weight
    device = generator.device if generator is not None else weight.device
    return std * torch.randn(blocks_shape(layer), generator=generator, dtype=weight.dtype, device=device)


def fans(layer: WeightLayer) -> tuple[int, int]:
    r"""Fan in and fan out inside one group.

    $$ \text{fan\_in} = \frac{\text{in}}{\text{groups}} \prod k, \qquad
       \text{fan\_out} = \frac{\text{out}}{\text{groups}} \prod k $$

    Strides are ignored, as is usual; the fan out of a grouped convolution is smaller than torch's, which ignores the
    groups.
    """
    _, out, fan_in = blocks_shape(layer)
    return fan_in, out * math.prod(layer.weight.shape[2:])


def _layout(layer: WeightLayer) -> tuple[int, bool]:
    """The number of groups, and whether a convolution is transposed."""
    return (layer.groups, layer.transposed) if isinstance(layer, _ConvNd) else (1, False)


def is_sharded(tensor: Tensor) -> bool:
    """True if a tensor is a DTensor, without importing that class, which takes a second."""
    return hasattr(tensor, "device_mesh")


@torch.no_grad()
def write_(parameter: Tensor, values: Tensor) -> None:
    """Copy full values into a parameter; each process keeps its slice of the first process's values of a sharded one.

    Values must not be drawn shard by shard: processes with equal seeds would repeat the first shard, and a matrix of
    orthogonal shards is not orthogonal. So the full tensor is drawn and broadcast from the first process of the mesh,
    since others may have other seeds; the result does not depend on the number of processes.
    """
    if is_sharded(parameter):
        from torch.distributed.tensor import distribute_tensor

        mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
        values = distribute_tensor(values.to(parameter.device, parameter.dtype), mesh, placements)
    parameter.copy_(values)


def whole(tensor: Tensor) -> Tensor:
    """The tensor, gathered if it is sharded (a collective: all processes must call)."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def check_kept(layers: Sequence[tuple[str, WeightLayer]], keep: Collection[str]) -> None:
    """A ValueError for a name in `keep` that no layer has."""
    names = [name for name, _ in layers]
    unknown = [name for name in keep if name not in names]
    if unknown:
        raise ValueError(f"there is no weight layer {unknown[0]!r} to keep: choose from {', '.join(names)}")


def check_has_weight(name: str, layer: WeightLayer) -> None:
    """A ValueError for a lazy layer."""
    if is_lazy(layer.weight):
        raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")


def check_unsharded(name: str, layer: WeightLayer) -> None:
    """A ValueError for a lazy or a sharded layer."""
    check_has_weight(name, layer)
    if is_sharded(layer.weight):
        raise ValueError(
            f"layer {name!r} is sharded, and every process would set it for its own batch: shard it afterwards"
        )


def check_accepted(
    layers: Sequence[tuple[str, WeightLayer]],
    fill: Callable[[WeightLayer, torch.Generator | None], None],
    what: str,
) -> None:
    """Fill every parametrized layer for a trial and undo it; a ValueError names a layer that refuses `what`.

    Called before any layer is changed for good.
    """
    for name, layer in layers:
        if not parametrize.is_parametrized(layer, "weight") or layer.weight.is_meta:
            continue
        before = {key: value.clone() for key, value in layer.state_dict().items() if isinstance(value, Tensor)}
        # Not the caller's generator: the trial must not change the numbers it gives afterwards.
        generator = torch.Generator(layer.weight.device).manual_seed(0)
        try:
            fill(layer, generator)
        except (RuntimeError, TypeError, ValueError) as reason:
            raise ValueError(
                f"layer {name!r} is parametrized and refuses {what}, so no layer was changed: parametrize it after "
                "initializing (only initialize_(model, 'orthogonal') reaches orthogonal layers)"
            ) from reason
        finally:
            state = layer.state_dict()
            for key, value in before.items():
                state[key].copy_(value)
