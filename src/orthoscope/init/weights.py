"""Weights of linear and convolutional layers as stacks of matrices: read, written, and the rows they multiply.

A grouped convolution is block diagonal, so a weight is a stack `(groups, out, in·k·k)`. Writing works for parametrized
weights, which are assigned, and for sharded ones (FSDP2), of which every process keeps its slice.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize

from orthoscope.linalg import group_matrices, weight_of_group_matrices

WeightLayer = nn.Linear | _ConvNd


def weight_blocks(layer: WeightLayer) -> Float[Tensor, "groups out fan_in"]:
    """The weight as one matrix `(out, in·k·k)` per group; sharded weights are gathered."""
    return group_matrices(whole(layer.weight.detach()), _groups(layer), _is_transposed(layer))


def blocks_shape(layer: WeightLayer) -> tuple[int, int, int]:
    """Shape `(groups, out, fan_in)` of `weight_blocks`, without gathering a sharded weight."""
    shadow = torch.empty(layer.weight.shape, device="meta")
    groups, out, fan_in = group_matrices(shadow, _groups(layer), _is_transposed(layer)).shape
    return groups, out, fan_in


@torch.no_grad()
def fill_(layer: WeightLayer, blocks: Float[Tensor, "groups out fan_in"]) -> None:
    """Write matrices, shaped as `weight_blocks`, into the layer's weight."""
    weight = layer.weight
    filters = weight_of_group_matrices(blocks, weight.shape, _is_transposed(layer))
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


def _groups(layer: WeightLayer) -> int:
    return layer.groups if isinstance(layer, _ConvNd) else 1


def _is_transposed(layer: WeightLayer) -> bool:
    return isinstance(layer, _ConvNd) and layer.transposed


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


Rows = Float64[Tensor, "groups rows fan_in"]

# Elements of patches unfolded at once, 64 MB: a 3 x 3 kernel unfolds every input number into nine.
_BLOCK_ELEMENTS = 1 << 23

SUPPORTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def check_supported(name: str, layer: WeightLayer) -> None:
    """A ValueError for kinds of layers, such as transposed convolutions, whose input is not unfolded into rows."""
    if not isinstance(layer, SUPPORTED):
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, whose input is not unfolded into patches: name it in `keep`"
        )


def row_blocks(layer: WeightLayer, inputs: Tensor) -> Iterator[Rows]:
    """`layer_rows` of a few samples at a time, which bounds the memory for the patches of a large batch."""
    if isinstance(layer, nn.Linear):
        yield layer_rows(layer, inputs)
        return
    batched = inputs if inputs.ndim == len(layer.kernel_size) + 2 else inputs.unsqueeze(0)
    a_sample = batched[0].numel() * math.prod(layer.kernel_size) / math.prod(layer.stride)
    for samples in batched.split(max(1, int(_BLOCK_ELEMENTS / max(a_sample, 1)))):
        yield layer_rows(layer, samples)


def layer_rows(layer: WeightLayer, inputs: Tensor) -> Rows:
    """The rows that a layer multiplies: without the bias its output is `rows @ weight_blocks(layer).mT`.

    One row per sample (and token) for a linear layer; for `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d` of batched inputs
    one row per patch, given their padding, stride and dilation.
    """
    if isinstance(layer, nn.Linear):
        return inputs.reshape(1, -1, inputs.shape[-1]).double()
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    windows = functional.pad(inputs, tuple(layer._reversed_padding_repeated_twice), mode=mode)
    cut = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    for axis, (taps, stride, dilation) in enumerate(cut, start=2):
        windows = windows.unfold(axis, dilation * (taps - 1) + 1, stride)[..., ::dilation]
    # From (samples, channels, *positions, *taps): channels first in a patch, those of a group adjacent.
    grouped = windows.movedim(1, len(layer.kernel_size) + 1).unflatten(len(layer.kernel_size) + 1, (layer.groups, -1))
    rows = grouped.flatten(len(layer.kernel_size) + 2).flatten(end_dim=len(layer.kernel_size))
    return rows.transpose(0, 1).double()
