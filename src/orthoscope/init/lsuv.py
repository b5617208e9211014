"""Layer-sequential unit variance (Mishkin & Matas, 2016): every layer's output is scaled to variance 1."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orthoscope.init.schemes import initialise_, weight_layers
from orthoscope.init.sharded import is_sharded
from orthoscope.init.trial import check_accepted
from orthoscope.init.weights import WeightLayer, fill_, weight_blocks
from orthoscope.probe.batches import as_call, copied
from orthoscope.probe.restoration import probing_mode, untouched


def lsuv_(
    model: nn.Module,
    batch: Any,
    tolerance: float = 0.01,
    generator: torch.Generator | None = None,
    start: str | None = "orthogonal",
) -> dict[str, float]:
    r"""Orthogonal weights, then layer by layer in forward order, each scaled until its output varies by 1.

    $$ W_\ell \leftarrow W_\ell / \sqrt{\operatorname{Var}(W_\ell h_{\ell-1})} $$

    One pass is enough: a layer is linear in its weight and bias, so its rescaled output is known
    without a second pass and is what the next layer gets to see. `start=None` keeps the weights and
    biases the model came with and only scales them. A layer whose variance is already
    within `tolerance` of 1 is left as it is (published: 0.1). A layer that is called more than once is
    scaled for its first call. A layer that cannot be scaled, as an orthogonal or a sharded one, is refused before
    any is changed, and after any other failure all weights are as they were. Returns, by layer, the standard deviation
    that was divided out.

    The peer to compare with: it sees variance only, and variance cannot see samples collapse.
    """
    layers = weight_layers(model)
    if not layers:
        raise ValueError("the model has no linear or convolutional layer to scale")
    for name, layer in layers:
        if is_lazy(layer.weight):
            raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")
        if is_sharded(layer.weight):
            raise ValueError(
                f"layer {name!r} is sharded, and ranks would scale it by batches of their own: shard it afterwards"
            )
    check_accepted(layers, lambda layer, _: fill_(layer, 2 * weight_blocks(layer)), "a multiple of its weight")
    before = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
    try:
        if start is not None:
            initialise_(model, start, generator=generator)
        scales = _scales(model, batch, layers, tolerance)
    except BaseException:
        with torch.no_grad():
            for parameter, value in before:
                parameter.copy_(value)
        raise
    for name, layer in layers:
        if scales.get(name, 1.0) != 1.0:
            bias = layer.bias
            fill_(layer, weight_blocks(layer) / scales[name])
            if bias is not None:
                with torch.no_grad():
                    bias /= scales[name]
    return scales


def _scales(model: nn.Module, batch: Any, layers: list[tuple[str, WeightLayer]], tolerance: float) -> dict[str, float]:
    """By layer, what its output is to be divided by, from one pass in which it is."""
    scales: dict[str, float] = {}
    call = as_call(model, batch)
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            layer.register_forward_hook(partial(_normalise_output, name, scales, tolerance))
        args, kwargs = copied((call.args, dict(call.kwargs)), layers[0][1].weight.device)
        model(*args, **kwargs)
    return scales


def _normalise_output(
    name: str, scales: dict[str, float], tolerance: float, layer: WeightLayer, _: Any, output: Tensor
) -> Tensor:
    if name not in scales:
        variance = output.double().var(correction=0).item()
        if not 0 < variance < float("inf"):
            raise ValueError(
                f"the output of layer {name!r} has variance {variance}, which no scale makes 1: "
                "(a) the batch is constant or not finite, (b) the units before it are all dead"
            )
        scales[name] = 1.0 if abs(variance - 1) <= tolerance else variance**0.5
    return output / scales[name]
