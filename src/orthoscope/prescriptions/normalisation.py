"""Layer normalisation in front of the weights that have none."""

from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from orthoscope.init.schemes import weight_layers
from orthoscope.probe import record
from orthoscope.probe.names import unwrapped

_NORMS = (_NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


def insert_norms_(model: nn.Module, batch: Any) -> list[str]:
    """Put a normalisation of every sample before each hidden linear layer or convolution; returns their names.

    $h \\mapsto W\\,\\mathrm{norm}(h)$: `nn.LayerNorm` before `nn.Linear`, `nn.GroupNorm` of one group before others.
    The first layer that runs is left alone, for its input is data; so is one whose input comes from a normalisation.
    A layer named `fc` becomes `nn.Sequential(norm, fc)`: its weight is `fc.1.weight` from then on.
    """
    layers = dict(weight_layers(model))
    order = [layer.name for layer in record(model, batch, max_samples=2).layers if layer.call == 0]
    modules = dict(unwrapped(model).named_modules())
    chosen = []
    before: nn.Module | None = None
    started = False
    for name in order:
        module = modules.get(name)
        if name in layers and started and not isinstance(before, _NORMS) and _norm_for(layers[name]) is not None:
            chosen.append(name)
        started = started or name in layers
        if module is not None and next(module.children(), None) is None:
            before = module
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


def _norm_for(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, nn.Linear):
        return nn.LayerNorm(layer.in_features)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return nn.GroupNorm(1, layer.in_channels)
    return None
