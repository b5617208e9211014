"""From the arguments of a network of `orthoscope.models` to the numbers of the theory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from orthoscope.init import bias_variance, weight_sample, weight_variance
from orthoscope.models import MLP
from orthoscope.models.blocks import require_positive
from orthoscope.models.structure import structure
from orthoscope.theory import Hyperparameters, LinearLaw, NoTheory, nonlinearity

# What the modules of orthoscope.models.normalisations add to a variance; RMSNorm works in float32 as a rule.
_EPSILON = {"layer": 1e-5, "batch": 1e-5, "rms": torch.finfo(torch.float32).eps}


def mlp_hyperparameters(arguments: Mapping[str, Any]) -> Hyperparameters:
    """The theory's view of `mlp(...)` with these arguments, all of them given."""
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
        return LinearLaw(fan_out, variance, _bias_variance(arguments, fan_in))
    except OverflowError as error:
        raise NoTheory("the variance of weights or biases is beyond the range of floats") from error


def _bias_variance(arguments: Mapping[str, Any], fan_in: int) -> float:
    if not arguments["bias"]:
        return 0.0
    drawn = float(arguments["bias_std"]) ** 2
    return drawn or bias_variance(arguments["init"], fan_in)


def initial_arguments(model: nn.Module) -> Mapping[str, Any]:
    """The arguments a network was made with; refuses one that theory does not cover or that has been changed since."""
    if type(model) is not MLP or "drawn" not in vars(model):
        raise NoTheory(f"theory covers the fully connected networks of orthoscope.models, not {type(model).__name__}")
    arguments = model.arguments
    if arguments["init"] is None:
        raise NoTheory("its weights come from a function, whose variance is not known")
    if structure(model) != model.made_of:
        raise NoTheory("its modules are not those it was made with")
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        raise NoTheory("a forward hook may change what theory does not see")
    if not _as_drawn(model, model.drawn):
        raise NoTheory("its weights are no longer as they were drawn: theory is of networks at initialisation")
    return arguments


def is_as_drawn(model: nn.Module) -> bool | None:
    """Whether weights are as they were drawn, None for a network that does not remember."""
    drawn = vars(model).get("drawn")
    return None if type(model) is not MLP or drawn is None else _as_drawn(model, drawn)


def _as_drawn(model: nn.Module, drawn: Sequence[float]) -> bool:
    """Whether the sampled weights are those at the start, to the rounding of the type they have now."""
    now = torch.tensor(weight_sample(model), dtype=torch.float64)
    then = torch.tensor(drawn, dtype=torch.float64)
    coarsest = max(torch.finfo(parameter.dtype).eps for parameter in model.parameters())
    return now.shape == then.shape and bool(((now - then).abs() <= coarsest * then.abs()).all())


def _require_kinds(arguments: Mapping[str, Any]) -> None:
    """An argument of the wrong kind is the user's mistake: say which, before anything is computed from it."""
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
