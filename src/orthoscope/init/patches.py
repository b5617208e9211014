"""The rows that a layer multiplies by its weight: samples and tokens, or the patches under a kernel."""

import math
from collections.abc import Iterator

from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.init.weights import WeightLayer

Rows = Float64[Tensor, "groups rows fan_in"]

# Elements of patches cut at once, 64 MB: a kernel of 3 x 3 makes nine numbers of every one that comes in.
_BLOCK_ELEMENTS = 1 << 23

SERVED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def check_served(name: str, layer: WeightLayer) -> None:
    """A ValueError for a kind of layer, such as a transposed convolution, whose input is not read as rows."""
    if not isinstance(layer, SERVED):
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, whose input is not cut into patches here: "
            f"name it among those to keep"
        )


def row_blocks(layer: WeightLayer, inputs: Tensor) -> Iterator[Rows]:
    """`layer_rows` of a few samples at a time, so that the patches of a large batch are never all there at once."""
    if isinstance(layer, nn.Linear):
        yield layer_rows(layer, inputs)
        return
    batched = inputs if inputs.ndim == len(layer.kernel_size) + 2 else inputs.unsqueeze(0)
    a_sample = batched[0].numel() * math.prod(layer.kernel_size) / math.prod(layer.stride)
    for samples in batched.split(max(1, int(_BLOCK_ELEMENTS / max(a_sample, 1)))):
        yield layer_rows(layer, samples)


def layer_rows(layer: WeightLayer, inputs: Tensor) -> Rows:
    """Whatever a layer's weight blocks are applied to, so that its output is `rows @ blocks.mT`, without the bias.

    One row a sample (and token) for a linear layer; for `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d`, of batched inputs,
    one a patch, as their padding, stride and dilation cut it.
    """
    if isinstance(layer, nn.Linear):
        return inputs.reshape(1, -1, inputs.shape[-1]).double()
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    windows = functional.pad(inputs, tuple(layer._reversed_padding_repeated_twice), mode=mode)
    cut = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    for axis, (taps, stride, dilation) in enumerate(cut, start=2):
        windows = windows.unfold(axis, dilation * (taps - 1) + 1, stride)[..., ::dilation]
    # From (samples, channels, *places, *taps): a patch has its channels first, those of a group as neighbours.
    grouped = windows.movedim(1, len(layer.kernel_size) + 1).unflatten(len(layer.kernel_size) + 1, (layer.groups, -1))
    rows = grouped.flatten(len(layer.kernel_size) + 2).flatten(end_dim=len(layer.kernel_size))
    return rows.transpose(0, 1).double()
