"""Layer-sequential unit variance (LSUV; Mishkin & Matas, 2016): every layer's output is scaled to variance 1."""

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.init.schemes import initialize_
from orthoscope.init.weights import (
    WeightLayer,
    check_accepted,
    check_kept,
    check_unsharded,
    fill_,
    weight_blocks,
    weight_layers,
)
from orthoscope.probe.batches import as_call
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import copied


def lsuv_(
    model: nn.Module,
    batch: Any,
    tolerance: float = 0.01,
    generator: torch.Generator | None = None,
    start: str | None = "orthogonal",
    keep: Collection[str] = (),
) -> dict[str, float]:
    r"""Orthogonal weights, each layer then divided by the standard deviation of its output, in forward order.

    $$ W_\ell \leftarrow W_\ell / \sqrt{\operatorname{Var}(W_\ell h_{\ell-1})} $$

    One pass is enough: a layer is linear in its weight and bias, so its rescaled output is known and passed on to the
    next layer. A layer that is called more than once is scaled for its first call. The method controls the variance
    only, which does not detect rank collapse.

    Args:
        model: Changed in place; after a failure all weights, and the generator, are as before.
        batch: As for `probe.record`.
        tolerance: A layer whose variance is within `tolerance` of 1 is not scaled (published: 0.1).
        generator: Source of random numbers for `start`.
        start: A scheme of `init.SCHEMES`; None scales the weights and biases that the model has.
        keep: Names of layers to leave unchanged.

    Returns:
        By layer, the standard deviation that was divided out.

    Raises:
        ValueError: If a layer cannot be scaled, as an orthogonal, sharded or lazy one, or its output is constant.
    """
    everything = weight_layers(model)
    check_kept(everything, keep)
    layers = [(name, layer) for name, layer in everything if name not in keep]
    if not layers:
        raise ValueError("the model has no linear or convolutional layer to scale")
    for name, layer in layers:
        check_unsharded(name, layer)
    check_accepted(layers, lambda layer, _: fill_(layer, 2 * weight_blocks(layer)), "a multiple of its weight")
    before = [(parameter, parameter.detach().clone()) for parameter in model.parameters()]
    source = generator or torch.default_generator
    state = source.get_state()
    try:
        if start is not None:
            initialize_(model, start, generator=generator, keep=keep)
        scales = _scales(model, batch, layers, tolerance)
    except BaseException:
        source.set_state(state)
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
    """Standard deviation of every layer's output, from one pass in which outputs are already divided by it."""
    scales: dict[str, float] = {}
    call = as_call(model, batch)
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            layer.register_forward_hook(partial(_normalize_output, name, scales, tolerance))
        args, kwargs = copied((call.args, dict(call.kwargs)), layers[0][1].weight.device)
        model(*args, **kwargs)
    return scales


def _normalize_output(
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
