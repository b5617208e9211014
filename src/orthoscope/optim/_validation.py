"""Checks of parameter groups and of saved states that all optimizers share."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from orthoscope.manifolds import Stiefel

Group = dict[str, Any]

# Similarity above which an unknown key of a group is taken for a misspelled option: "manifolds" has 0.94 to "manifold".
_MISSPELLED = 0.85
# Entries of a state that have the shape of their parameter.
_SHAPED_AS_PARAMETER = ("momentum_buffer", "exp_avg")


def check_rates(options: Mapping[str, Any]) -> None:
    """Raise unless `lr` and `weight_decay` are numbers of at least 0; a tensor is not read."""
    for name in ("lr", "weight_decay"):
        value = options[name]
        if not hasattr(value, "__float__"):
            raise TypeError(f"{name} must be a number, got {value!r}: convert it with float()")
        if not torch.is_tensor(value) and not float(value) >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_keys(group: Group, defaults: Mapping[str, Any]) -> None:
    """Raise if a key of the group is a misspelled option, or holds a manifold under another name."""
    known = ["params", "param_names", *defaults]
    for key in set(group) - set(known):
        meant = ["manifold"] if isinstance(group[key], Stiefel) else get_close_matches(key, known, 1, _MISSPELLED)
        if meant:
            raise ValueError(f"unknown key {key!r} in a parameter group: write {meant[0]!r}, or rename it")


def parameter_names(group: Group) -> list[str]:
    """The names of the group's parameters, "a parameter" where it has none."""
    return group.get("param_names", ["a parameter"] * len(group["params"]))


def check_shapes(state_dict: Mapping[str, Any], groups: list[Group]) -> None:
    """Raise if a saved momentum has another shape than its parameter; a DTensor counts with its full shape."""
    for name, parameter, _, saved in saved_states(state_dict, groups):
        for key in _SHAPED_AS_PARAMETER:
            value = saved.get(key)
            if torch.is_tensor(value) and value.shape != parameter.shape:
                raise ValueError(
                    f"{name} has shape {tuple(parameter.shape)} and its saved {key} {tuple(value.shape)}: load the"
                    " state into an optimizer of a model of the same sizes"
                )


def saved_states(
    state_dict: Mapping[str, Any], groups: list[Group]
) -> Iterator[tuple[str, Tensor, Group, Mapping[str, Any]]]:
    """Yield name, parameter, group and saved state of every parameter that has one, matched by position as in torch."""
    for saved, group in zip(state_dict["param_groups"], groups, strict=False):
        # Not strict: `load_state_dict` of torch raises if the numbers of parameters differ.
        for key, name, parameter in zip(saved["params"], parameter_names(group), group["params"], strict=False):
            if key in state_dict["state"]:
                yield name, parameter, group, state_dict["state"][key]
