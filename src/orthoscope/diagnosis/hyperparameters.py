"""From the arguments of a network of `orthoscope.models` to the numbers of the theory."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from orthoscope.init import bias_variance, weight_variance
from orthoscope.models import MLP
from orthoscope.models.blocks import require_positive
from orthoscope.theory import Hyperparameters, LinearLaw, NoTheory, nonlinearity

# What the modules of orthoscope.models.normalisations add to a variance; RMSNorm works in float32 as a rule.
_EPSILON = {"layer": 1e-5, "batch": 1e-5, "rms": torch.finfo(torch.float32).eps}
# Realised mean squares of weights further off than this many standard errors are not what the scheme drew.
_STANDARD_ERRORS = 8
_ROUNDING = 1e-3  # float16 weights are that coarse


def mlp_hyperparameters(arguments: Mapping[str, Any]) -> Hyperparameters:
    """The theory's view of `mlp(...)` with these arguments, all of them given."""
    width, outputs = arguments["width"], arguments["out_features"]
    inputs = width if arguments["in_features"] is None else arguments["in_features"]
    require_positive(width=width, in_features=inputs)
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
    return LinearLaw(
        units=fan_out,
        weight_variance=fan_in * weight_variance(arguments["init"], fan_in, fan_out, arguments["weight_gain"]),
        bias_variance=_bias_variance(arguments, fan_in),
    )


def _bias_variance(arguments: Mapping[str, Any], fan_in: int) -> float:
    if not arguments["bias"]:
        return 0.0
    drawn = float(arguments["bias_std"]) ** 2
    return drawn or bias_variance(arguments["init"], fan_in)


def initial_arguments(model: nn.Module) -> Mapping[str, Any]:
    """The arguments a network was made with; refuses one that theory does not cover or whose weights have changed."""
    if not isinstance(model, MLP):
        raise NoTheory(f"theory covers the fully connected networks of orthoscope.models, not {type(model).__name__}")
    arguments = model.arguments
    if not isinstance(arguments["init"], str):
        raise NoTheory("its weights come from a function, whose variance is not known")
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            sizes = module.in_features, module.out_features
            expected = weight_variance(arguments["init"], *sizes, arguments["weight_gain"])
            _require_drawn(f"the weights of {name}", module.weight, expected)
            if module.bias is not None:
                _require_drawn(f"the biases of {name}", module.bias, _bias_variance(arguments, module.in_features))
    return arguments


def _require_drawn(what: str, values: torch.Tensor, variance: float) -> None:
    realised = torch.linalg.vector_norm(values.detach(), dtype=torch.float32).item() ** 2 / values.numel()
    if abs(realised - variance) > variance * (_STANDARD_ERRORS * (2 / values.numel()) ** 0.5 + _ROUNDING):
        raise NoTheory(
            f"{what} are not as they are drawn: mean square {realised:.3g} instead of {variance:.3g}; "
            "theory is of networks at initialisation"
        )
