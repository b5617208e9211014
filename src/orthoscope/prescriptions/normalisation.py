"""Layer normalisation in front of the weights that have none."""

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from orthoscope.init.schemes import weight_layers
from orthoscope.probe.batches import as_call, tensors_in
from orthoscope.probe.jacobians.replica import arguments, differentiable_pass, replica

_NORMS = (_NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


def insert_norms_(model: nn.Module, batch: Any) -> list[str]:
    """Put a normalisation of every sample before each hidden linear layer or convolution; returns their names.

    $h \\mapsto W\\,\\mathrm{norm}(h)$: `nn.LayerNorm` before `nn.Linear`, `nn.GroupNorm` of one group before others.
    The first layer that runs is left alone, for its input is data; so is one whose input is the output
    of a normalisation, or a view of it.
    A layer named `fc` becomes `nn.Sequential(norm, fc)`: its weight is `fc.1.weight` from then on.
    """
    layers = dict(weight_layers(model))
    hidden = list(_normalised(model, batch).items())[1:]
    chosen = [name for name, normalised in hidden if not normalised and _norm_for(layers[name]) is not None]
    if not chosen:
        raise ValueError("every hidden layer that can take one has a normalisation before it")
    for name in chosen:
        norm = _norm_for(layers[name])
        assert norm is not None
        weight = layers[name].weight
        parent, _, child = name.rpartition(".")
        pair = nn.Sequential(norm.to(weight.device, weight.dtype), layers[name]).train(layers[name].training)
        setattr(model.get_submodule(parent), child, pair)
    return chosen


def _normalised(model: nn.Module, batch: Any) -> dict[str, bool]:
    """For every weight layer, in the order of their first calls on a copy, whether a normalisation made its input."""
    call = as_call(model, batch)
    twin = replica(model)
    inputs = arguments(twin, call)
    outputs: list[Tensor] = []  # kept, so that no other tensor gets their memory
    made: set[tuple[int, int]] = set()
    found: dict[str, bool] = {}

    def after_norm(_module: nn.Module, _args: Any, output: Any) -> None:
        outputs.extend(tensors_in(output))
        made.update(_contents(tensor) for tensor in tensors_in(output))

    def before_layer(name: str) -> Any:
        def look(_module: nn.Module, args: Any, kwargs: Any) -> None:
            given = next(tensors_in((args, kwargs)), None)
            found.setdefault(name, given is not None and _contents(given) in made)

        return look

    for module in twin.modules():
        if isinstance(module, _NORMS):
            module.register_forward_hook(after_norm)
    for name, layer in weight_layers(twin):
        layer.register_forward_pre_hook(before_layer(name), with_kwargs=True)
    with differentiable_pass():
        twin(*inputs.args, **inputs.kwargs)
    return found


def _contents(tensor: Tensor) -> tuple[int, int]:
    """The memory of a tensor and how often it was written to: the same for its views, until one is changed in place."""
    return tensor.untyped_storage().data_ptr(), tensor._version


def _norm_for(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, nn.Linear):
        return nn.LayerNorm(layer.in_features)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return nn.GroupNorm(1, layer.in_channels)
    return None
