"""The structure of a model, without running it: hyper-parameters for theory, parts for a fix, and signs of training.

Weights may be drawn again in place only if they are known to be unchanged since initialization (`doubt_that_drawn`).
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.parameter import is_lazy

from orthoscope.activations import activation_modules, nonlinearity
from orthoscope.activations.functions import FunctionCall, function_calls, may_add, returned_softmax
from orthoscope.diagnosis.faults import Faults, faults
from orthoscope.init import bias_variance, weight_sample, weight_variance
from orthoscope.init.weights import weight_layers
from orthoscope.linalg.matrices import is_sharded
from orthoscope.models import MLP
from orthoscope.models.blocks import ResidualBlock, require_positive, structure
from orthoscope.theory import Hyperparameters, LinearLaw, NoTheory

# What the modules of orthoscope.models.blocks add to a variance; RMSNorm works in float32 as a rule.
_EPSILON = {"layer": 1e-5, "batch": 1e-5, "rms": torch.finfo(torch.float32).eps}


def mlp_hyperparameters(arguments: Mapping[str, Any]) -> Hyperparameters:
    """The hyper-parameters, as theory takes them, of `mlp(...)` with these arguments, all of them given."""
    _require_kinds(arguments)
    width, outputs = arguments["width"], arguments["out_features"]
    inputs = width if arguments["in_features"] is None else arguments["in_features"]
    skips = arguments["residual"]
    return Hyperparameters(
        activation=nonlinearity(arguments["activation"], arguments["gain"]),
        first=_linear_law(arguments, inputs, width),
        hidden=_linear_law(arguments, width, width),
        last=None if outputs is None else _linear_law(arguments, width, outputs),
        norm=arguments["norm"],
        order=arguments["order"],
        epsilon=_EPSILON.get(arguments["norm"], 0.0),
        residual_scale=float(arguments["residual_scale"]) if skips else None,
        first_skips=inputs == width,
        first_rotates=width >= inputs,
        rotation=arguments["init"] == "orthogonal",
    )


def _linear_law(arguments: Mapping[str, Any], fan_in: int, fan_out: int) -> LinearLaw:
    try:
        variance = fan_in * weight_variance(arguments["init"], fan_in, fan_out, arguments["weight_gain"])
        drawn = float(arguments["bias_std"]) ** 2 or bias_variance(arguments["init"], fan_in)
        return LinearLaw(fan_out, variance, drawn if arguments["bias"] else 0.0)
    except OverflowError as error:
        raise NoTheory("the variance of weights or biases is beyond the range of floats") from error


def initial_arguments(model: nn.Module) -> Mapping[str, Any]:
    """The arguments a network was built with; `NoTheory` if theory does not cover it or it was changed since."""
    if type(model) is not MLP or "drawn" not in vars(model):
        raise NoTheory(f"theory covers the fully connected networks of orthoscope.models, not {type(model).__name__}")
    arguments = model.arguments
    if arguments["init"] is None:
        raise NoTheory("its weights are drawn by a function, whose variance is unknown")
    if structure(model) != model.made_of:
        raise NoTheory("its modules were changed since it was built")
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        raise NoTheory("it has forward hooks, which may change its outputs")
    if not _as_drawn(model, model.drawn):
        raise NoTheory("theory is of networks at initialization, and the weights of this one have changed")
    return arguments


def is_as_drawn(model: nn.Module) -> bool | None:
    """Whether weights are unchanged since initialization; None for a network that does not store what was drawn."""
    drawn = vars(model).get("drawn")
    return None if type(model) is not MLP or drawn is None else _as_drawn(model, drawn)


def _as_drawn(model: nn.Module, drawn: Sequence[float]) -> bool:
    """Whether the sampled weights are those at the start, to the rounding of the type they have now."""
    now = torch.tensor(weight_sample(model), dtype=torch.float64)
    then = torch.tensor(drawn, dtype=torch.float64)
    coarsest = max(torch.finfo(parameter.dtype).eps for parameter in model.parameters())
    return now.shape == then.shape and bool(((now - then).abs() <= coarsest * then.abs()).all())


def _require_kinds(arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError that names an argument of the wrong type, before anything is computed from it."""
    for name in ("gain", "weight_gain", "residual_scale", "bias_std"):
        value = arguments[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value!r}, but must be a number")
    for name in ("residual", "bias"):
        if not isinstance(arguments[name], bool):
            raise ValueError(f"{name} is {arguments[name]!r}, but must be True or False")
    sizes = {name: arguments[name] for name in ("width", "in_features", "out_features")}
    require_positive(**{name: size for name, size in sizes.items() if size is not None})
    if arguments["bias_std"] and not arguments["bias"]:
        raise ValueError(f"bias_std={arguments['bias_std']} needs biases: build with bias=True")


_NORMS = (_NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


@dataclass(frozen=True)
class Anatomy:
    """What a network is made of, as plain facts and copies of its activations."""

    weights: tuple[str, ...] = ()  # linear and convolutional layers
    linear: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # those that are linear -> (out, in)
    convolutions: int = 0
    norms: int = 0
    residual_blocks: int = 0  # of orthoscope.models; others are found by running
    may_branch: bool = True  # whether there may be others, or some are known
    activations: Mapping[str, str] = field(default_factory=dict)  # module name -> what it prints
    kinds: Mapping[str, nn.Module] = field(default_factory=dict)  # what it prints -> a copy
    trained: str = ""  # signs that the weights are trained; empty if there are none
    functions: tuple[FunctionCall, ...] = ()  # activations that are functions inside a forward
    returned_softmax: FunctionCall | None = None  # softmax that the network ends with, as a function
    faults: Faults = field(default_factory=Faults)


def anatomy(model: nn.Module) -> Anatomy:
    """Inspect the modules; nothing is run."""
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
        functions=tuple(function_calls(model)),
        returned_softmax=returned_softmax(model),
        faults=faults(model),
    )


_PLAIN_CONTAINERS = {nn.Module, nn.Sequential, nn.ModuleList, nn.ModuleDict}


def _in_a_line(module: nn.Module) -> bool:
    """Whether a module surely adds no tensors: a part of torch, a plain network, or no `+` in its source."""
    if module._forward_hooks or "forward" in vars(module):
        return False
    of_torch = [kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn.modules.")]
    if next(module.children(), None) is not None:
        known = type(module) in (MLP, ResidualBlock)
        # Blocks of torch, such as its encoder layers, add inside.
        return known or (set(of_torch) <= _PLAIN_CONTAINERS and not may_add(type(module)))
    return type(module).__module__.startswith(("torch.nn.modules.", "orthoscope.")) or not may_add(type(module))


def signs_of_training(model: nn.Module) -> str:
    """Why the weights look trained; empty without any sign. Weights alone cannot prove that they are untrained.

    (a) a network of `orthoscope.models` stores what was drawn, and it has changed; (b) batch norm has counted
    batches; (c) scale or shift of a normalization differs from unit to unit; (d) a parameter holds a gradient.
    """
    drawn = is_as_drawn(model)
    if drawn is not None:
        return "" if drawn else "its weights changed since initialization"
    for name, module in model.named_modules():
        counted = getattr(module, "num_batches_tracked", None)
        if isinstance(counted, Tensor) and not counted.is_meta and int(counted) > 0:
            return f"batch norm {name!r} has seen {int(counted)} batches"
        if isinstance(module, _NORMS) and _uneven(module):
            return f"the units of normalization {name!r} have different scales or shifts"
    held = next((name for name, parameter in model.named_parameters() if parameter.grad is not None), None)
    return "" if held is None else f"parameter {held!r} holds a gradient"


def _uneven(module: Any) -> bool:
    values = [getattr(module, name, None) for name in ("weight", "bias")]
    # A slice of a sharded scale says nothing that all ranks would agree on.
    whole = [value for value in values if isinstance(value, Tensor) and not value.is_meta and not is_sharded(value)]
    return any(value.numel() > 1 and bool((value != value.flatten()[0]).any()) for value in whole)


_RARE = 28.0  # an untrained weight is rejected with probability exp(-14), about one in a million


def doubt_that_drawn(model: nn.Module) -> str:
    r"""Why the weights may be trained; empty if they are known to be unchanged since initialization.

    They are known if a network of `orthoscope.models` stores them; or if there is no sign of training and every linear
    and convolutional layer is consistent with the default of torch, $U(-b, b)$ with $b = 1/\sqrt{\text{fan\_in}}$: no
    number beyond $b$, and the $n$ of a weight reach to $b(1 - 28/n)$ on both sides. Training pushes some weight over
    the bound, weight decay takes all away from it; a training that moves weights by less than their distance to it, a
    share of about $1/n$, is not noticed.
    """
    signs = signs_of_training(model)
    if signs or is_as_drawn(model):
        return signs
    layers = weight_layers(model)
    if not layers:
        return "no layer has weights that could be compared with torch's default"
    for name, layer in layers:
        if not _looks_drawn(layer.weight, layer.bias):
            return f"the weights of {name!r} are not drawn by torch's default"
    return ""


def _looks_drawn(weight: Tensor, bias: Tensor | None) -> bool:
    for values in (weight, bias):
        if values is not None and (is_lazy(values) or values.is_meta or is_sharded(values)):
            return False
    bound = weight[0].numel() ** -0.5
    if not _spans(weight, bound):
        return False
    # Many networks start with biases of 0; the first step of a training moves them.
    return bias is None or not bool(bias.any()) or _spans(bias, bound)


def _spans(values: Tensor, bound: float) -> bool:
    """Whether numbers lie within ± bound, are not all equal, and come as close to both ends as so many must."""
    low, high = (float(end) for end in values.detach().double().aminmax())
    most = bound * (1 + 2 * torch.finfo(values.dtype).eps)
    least = bound * (1 - _RARE / values.numel())
    varied = low < high or values.numel() == 1
    return varied and -most <= low <= -least and least <= high <= most
