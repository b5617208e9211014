"""What a network is made of, as far as a fix needs to know: kept with its diagnosis, which outlives the network."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from orthoscope.diagnosis.hyperparameters import is_as_drawn
from orthoscope.init.schemes import weight_layers
from orthoscope.init.sharded import is_sharded
from orthoscope.layers.activation_modules import activation_modules
from orthoscope.models import MLP
from orthoscope.models.blocks import ResidualBlock

_NORMS = (_NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Anatomy:
    """Plain facts, and copies of the activations: these are small."""

    weights: tuple[str, ...] = ()  # linear and convolutional layers
    linear: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # those that are linear -> (out, in)
    convolutions: int = 0
    norms: int = 0
    residual_blocks: int = 0  # of orthoscope.models; others are found by running
    may_branch: bool = True  # whether there may be others, or some are known
    activations: Mapping[str, str] = field(default_factory=dict)  # module name -> what it prints
    kinds: Mapping[str, nn.Module] = field(default_factory=dict)  # what it prints -> a copy
    trained: str = ""  # signs that the weights are trained; empty if there are none


def anatomy(model: nn.Module) -> Anatomy:
    """Look at the modules; nothing is run."""
    layers = weight_layers(model)
    found = dict(activation_modules(model))
    blocks = sum(isinstance(module, ResidualBlock) and module.skip for module in model.modules())
    return Anatomy(
        weights=tuple(name for name, _ in layers),
        linear={name: (one.out_features, one.in_features) for name, one in layers if isinstance(one, nn.Linear)},
        convolutions=sum(isinstance(layer, _ConvNd) for _, layer in layers),
        norms=sum(isinstance(module, _NORMS) for module in model.modules()),
        residual_blocks=blocks,
        may_branch=blocks > 0 or not all(_in_a_line(module) for module in model.modules()),
        activations={name: repr(module) for name, module in found.items()},
        kinds={repr(module): copy.deepcopy(module) for module in {repr(m): m for m in found.values()}.values()},
        trained=signs_of_training(model),
    )


def _in_a_line(module: nn.Module) -> bool:
    """Whether a module is known to add nothing up: a part of torch, a sequence, or a plain network of our own."""
    if module._forward_hooks or "forward" in vars(module):
        return False
    if next(module.children(), None) is not None:
        return type(module) in (nn.Sequential, MLP, ResidualBlock)
    return type(module).__module__.startswith(("torch.nn.modules.", "orthoscope."))


def signs_of_training(model: nn.Module) -> str:
    """Why the weights look trained, empty if nothing says so. Nobody can see it for sure: weights have no memory.

    (a) a network of `orthoscope.models` remembers what was drawn, and it has changed; (b) batch norm has counted
    batches; (c) scale or shift of a normalisation differs from unit to unit; (d) a parameter holds a gradient.
    """
    drawn = is_as_drawn(model)
    if drawn is not None:
        return "" if drawn else "its weights are no longer as they were drawn"
    for name, module in model.named_modules():
        counted = getattr(module, "num_batches_tracked", None)
        if isinstance(counted, Tensor) and not counted.is_meta and int(counted) > 0:
            return f"batch norm {name!r} has seen {int(counted)} batches"
        if isinstance(module, _NORMS) and _uneven(module):
            return f"the units of normalisation {name!r} have different scales or shifts"
    held = next((name for name, parameter in model.named_parameters() if parameter.grad is not None), None)
    return "" if held is None else f"parameter {held!r} holds a gradient"


def _uneven(module: Any) -> bool:
    values = [getattr(module, name, None) for name in ("weight", "bias")]
    # A slice of a sharded scale says nothing that all ranks would agree on.
    whole = [value for value in values if isinstance(value, Tensor) and not value.is_meta and not is_sharded(value)]
    return any(value.numel() > 1 and bool((value != value.flatten()[0]).any()) for value in whole)
