"""Repairs of single layers: new weights, biases reset, gates unfrozen, attention and inputs scaled, softmax removed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.init import initialize_
from orthoscope.init.weights import WeightLayer, weight_layers
from orthoscope.probe.batches import as_call
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import copied, tensors_in

_UNIT = 0.1  # relative distance from 1 at which a scale is left as it is
_SMALLEST = 1e-12  # of a standard deviation that is divided by


def redraw_(model: nn.Module, names: Sequence[str], generator: torch.Generator | None = None) -> None:
    """Draw weight and bias of the named layers as torch draws those of a new one.

    Args:
        model: Changed in place.
        names: Linear or convolutional layers.
        generator: Source of random numbers.

    Raises:
        ValueError: If there is no such layer.
    """
    for _, layer in list(_named(model, names)):
        initialize_(layer, "torch", generator=generator)


def zero_biases_(model: nn.Module, names: Sequence[str]) -> None:
    """Set the biases of the named layers to zero.

    Args:
        model: Changed in place.
        names: Linear or convolutional layers.

    Raises:
        ValueError: If there is no such layer, or it has no bias.
    """
    found = list(_named(model, names))
    for name, layer in found:
        if layer.bias is None:
            raise ValueError(f"layer {name!r} has no bias to reset")
    with torch.no_grad():
        for _, layer in found:
            layer.bias.zero_()  # type: ignore[union-attr]


def _named(model: nn.Module, names: Sequence[str]) -> Iterator[tuple[str, WeightLayer]]:
    layers = dict(weight_layers(model))
    for name in names:
        if name not in layers:
            raise ValueError(f"there is no weight layer {name!r}: choose from {', '.join(layers)}")
        yield name, layers[name]


def unfreeze_(model: nn.Module, names: Sequence[str] | None = None) -> None:
    """Let the named parameters be trained; without names, all of them.

    Args:
        model: Changed in place.
        names: Names of parameters.

    Raises:
        ValueError: If there is no such parameter.
    """
    parameters = dict(model.named_parameters())
    for name in parameters if names is None else names:
        if name not in parameters:
            raise ValueError(f"there is no parameter {name!r} to unfreeze: names are those of model.named_parameters()")
        parameters[name].requires_grad_(True)


def remove_softmax_(model: nn.Module, name: str) -> None:
    """Replace the softmax at the end by `nn.Identity`, so that the network returns logits.

    Args:
        model: Changed in place.
        name: The module.

    Raises:
        ValueError: If the module is no softmax.
    """
    module = model.get_submodule(name)
    if not name or not isinstance(module, nn.Softmax | nn.Softmax2d):
        raise ValueError(f"module {name!r} is a {type(module).__name__}, and only a softmax inside a model is removed")
    model.set_submodule(name, nn.Identity().train(module.training))


class Normalize(nn.Module):
    r"""$x \mapsto (x - \mu)/\sigma$ with fixed numbers for each feature or channel.

    Args:
        mean: $\mu$, in a shape that broadcasts with a sample.
        std: $\sigma$, in the same shape.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize every sample."""
        return (inputs - self.mean) / self.std


def normalize_input_(model: nn.Module, batch: Any) -> str:
    """Put a `Normalize` in front of the first weight layer that runs, with the statistics of its input on `batch`.

    A layer named `fc` becomes `nn.Sequential(Normalize, fc)`. Vectors are normalized feature by feature, maps channel
    by channel.

    Args:
        model: Changed in place.
        batch: As for `diagnose`.

    Returns:
        The name of the layer.

    Raises:
        ValueError: If no layer gets numbers.
    """
    for name, inputs in _first_inputs(model, batch).items():
        if not inputs.is_floating_point():
            continue
        layer = model.get_submodule(name)
        conv = not isinstance(layer, nn.Linear)
        axes = [axis for axis in range(inputs.ndim) if axis != (1 if conv else inputs.ndim - 1)]
        mean, std = (
            inputs.double().mean(axes, keepdim=True)[0],
            inputs.double().std(axes, correction=0, keepdim=True)[0],
        )
        # A feature that is the same in all samples is only shifted.
        std = torch.where(std > _SMALLEST * std.max(), std, torch.ones_like(std))
        norm = Normalize(mean.to(inputs), std.to(inputs))
        parent, _, child = name.rpartition(".")
        if not name:
            raise ValueError("the model is a single layer: normalize its input in the data")
        setattr(model.get_submodule(parent), child, nn.Sequential(norm, layer).train(layer.training))
        return name
    raise ValueError("no weight layer gets floating-point numbers: there is no input to normalize")


def _first_inputs(model: nn.Module, batch: Any) -> dict[str, Tensor]:
    """By weight layer, in the order of first calls, the input it gets."""
    found: dict[str, Tensor] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any) -> None:
            given = next(tensors_in((args, kwargs)), None)
            if given is not None:
                found.setdefault(name, given.detach().clone())

        return hook

    layers = weight_layers(model)
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            layer.register_forward_pre_hook(note(name), with_kwargs=True)
        _run(model, batch)
    return found


def _run(model: nn.Module, batch: Any) -> None:
    call = as_call(model, batch)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    args, kwargs = copied((call.args, dict(call.kwargs)), device)
    model(*args, **kwargs)


def scale_attention_(model: nn.Module, batch: Any, names: Sequence[str] = ()) -> dict[str, float]:
    r"""Divide the weights of queries and keys by the root mean square of what they return on `batch`.

    Logits of attention, $q \cdot k/\sqrt d$, then have about unit variance. Of a fused layer only the rows of queries
    and keys are scaled, the first two thirds, and of `nn.MultiheadAttention` its projection of both.

    Args:
        model: Changed in place.
        batch: As for `diagnose`.
        names: Layers that return queries or keys, or both with the values; every `nn.MultiheadAttention` is added.

    Returns:
        By layer, the number that was divided by.

    Raises:
        ValueError: If there is no such layer, or every one has unit scale already.
    """
    blocks = {name: one for name, one in model.named_modules() if isinstance(one, nn.MultiheadAttention)}
    layers = dict(_named(model, names))
    sizes: dict[str, Tensor] = {}

    def after_layer(name: str) -> Callable[..., None]:
        def hook(layer: WeightLayer, _: Any, output: Tensor) -> None:
            sizes.setdefault(name, _rms(output[..., : _rows(layer)]))

        return hook

    def before_block(name: str) -> Callable[..., None]:
        def hook(block: nn.MultiheadAttention, args: Any, kwargs: Any) -> None:
            given = [*args, *(kwargs[key] for key in ("query", "key") if key in kwargs)][:2]
            for key, value, (weight, bias) in zip("qk", given, _projections(block), strict=False):
                sizes.setdefault(f"{name}.{key}", _rms(F.linear(value, weight, bias)))

        return hook

    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers.items():
            layer.register_forward_hook(after_layer(name))
        for name, block in blocks.items():
            block.register_forward_pre_hook(before_block(name), with_kwargs=True)
        _run(model, batch)
    found = {name: float(size) for name, size in sizes.items()}
    scaled = {name: size for name, size in found.items() if size > 0 and abs(size - 1) > _UNIT}
    if not scaled:
        raise ValueError("no attention returns queries or keys of another than unit scale")
    with torch.no_grad():
        for name, size in scaled.items():
            for values in _scaled_parameters(name, layers, blocks):
                values.div_(size)
    return scaled


def _rms(values: Tensor) -> Tensor:
    return values.double().square().mean().sqrt()


def _rows(layer: WeightLayer) -> int:
    """The rows that make queries and keys: of a layer three times as wide as its input, the first two thirds."""
    out, fan_in = layer.weight.shape[:2]
    return 2 * fan_in if out == 3 * fan_in else int(out)


def _projections(block: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Weight and bias of queries and of keys, as views."""
    size = block.embed_dim
    biases = (
        [None, None] if block.in_proj_bias is None else [block.in_proj_bias[:size], block.in_proj_bias[size : 2 * size]]
    )
    if block._qkv_same_embed_dim:
        weights = [block.in_proj_weight[:size], block.in_proj_weight[size : 2 * size]]
    else:
        weights = [block.q_proj_weight, block.k_proj_weight]
    return list(zip(weights, biases, strict=True))


def _scaled_parameters(
    name: str, layers: dict[str, WeightLayer], blocks: dict[str, nn.MultiheadAttention]
) -> Iterator[Tensor]:
    if name in layers:
        layer = layers[name]
        yield layer.weight[: _rows(layer)]
        if layer.bias is not None:
            yield layer.bias[: _rows(layer)]
        return
    owner, _, key = name.rpartition(".")
    weight, bias = _projections(blocks[owner])["qk".index(key)]
    yield weight
    if bias is not None:
        yield bias
