"""The rows that a layer multiplies by its weight: samples and tokens, or the patches under a kernel."""

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.init.weights import WeightLayer


def layer_rows(name: str, layer: WeightLayer, inputs: Tensor) -> Float64[Tensor, "groups rows fan_in"]:
    """Whatever a layer's weight blocks are applied to, so that its output is `rows @ blocks.mT`, without the bias.

    One row a sample (and token) for a linear layer; for `nn.Conv1d` and `nn.Conv2d` one a patch, as their padding,
    stride and dilation cut it. `name` is for the message to whoever has another kind of layer.
    """
    if isinstance(layer, nn.Linear):
        return inputs.flatten(end_dim=-2).double().unsqueeze(0)
    if not isinstance(layer, nn.Conv1d | nn.Conv2d):
        raise ValueError(
            f"layer {name!r} is a {type(layer).__name__}, whose input is not cut into patches here: "
            f"name it among those to keep"
        )
    # A sequence is a picture of height 1; an unbatched input is a batch of one.
    sizes = len(layer.kernel_size)
    batched = inputs if inputs.ndim == sizes + 2 else inputs.unsqueeze(0)
    padding = layer._reversed_padding_repeated_twice
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = functional.pad(batched.double(), tuple(padding), mode=mode)
    if sizes == 1:
        padded = padded.unsqueeze(-2)
    kernel, stride, dilation = (
        (1,) * (2 - sizes) + tuple(numbers) for numbers in (layer.kernel_size, layer.stride, layer.dilation)
    )
    patches = functional.unfold(padded, kernel, dilation=dilation, stride=stride)
    # unfold orders a patch by channel first, so that the channels of a group are neighbours, as in the weight.
    grouped = torch.stack(patches.chunk(layer.groups, dim=1))
    return grouped.transpose(-1, -2).flatten(1, 2)
