"""Whether a saved state is one of these parameters, before any of it is taken over."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

Group = dict[str, Any]
# What every state that has it lays out as its parameter.
_LIKE_THE_PARAMETER = ("momentum_buffer", "exp_avg")
# What a step continues from, by `use_muon`.
_NEEDED = {True: ("momentum_buffer",), False: ("step", "exp_avg", "exp_avg_sq")}


def check_shapes(state_dict: Mapping[str, Any], groups: list[Group]) -> None:
    """Refuse a state whose tensors have another shape than their parameter; that of a DTensor is the whole one's."""
    for name, parameter, _, saved in _saved_states(state_dict, groups):
        for key in _LIKE_THE_PARAMETER:
            value = saved.get(key)
            if torch.is_tensor(value) and value.shape != parameter.shape:
                raise ValueError(
                    f"{name} has shape {tuple(parameter.shape)} and the state was saved for one of shape"
                    f" {tuple(value.shape)}: load it into an optimizer of a model of the same sizes"
                )


def check_entries(state_dict: Mapping[str, Any], groups: list[Group]) -> None:
    """Refuse a state of Muon that lacks what the rule of its group, Muon's or AdamW's, continues from."""
    for name, _, group, saved in _saved_states(state_dict, groups):
        missing = [key for key in _NEEDED[group["use_muon"]] if key not in saved]
        if saved and missing:
            rule = "Muon" if group["use_muon"] else "AdamW"
            raise ValueError(
                f"{name} follows {rule} and its state has {', '.join(saved)} but no {missing[0]!r}: load a state of"
                " the same rule, or start without one"
            )


def _saved_states(
    state_dict: Mapping[str, Any], groups: list[Group]
) -> Iterator[tuple[str, Tensor, Group, Mapping[str, Any]]]:
    """Name, parameter and group of those that have a saved state, and that: by their place, as torch loads them."""
    for saved, group in zip(state_dict["param_groups"], groups, strict=False):
        names = group.get("param_names", ["a parameter"] * len(group["params"]))
        # Torch has the word if the numbers of parameters differ.
        for key, name, parameter in zip(saved["params"], names, group["params"], strict=False):
            if key in state_dict["state"]:
                yield name, parameter, group, state_dict["state"][key]
