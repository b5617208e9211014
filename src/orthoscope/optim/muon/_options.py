"""The options of Muon's parameter groups: plain data, checked when given and again when loaded from a saved state."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from orthoscope.linalg import METHODS, orthogonalize
from orthoscope.optim._validation import Group, check_rates, check_shapes, parameter_names, saved_states
from orthoscope.optim.muon.views import MatrixView, check_scale

# Options of the constructor that become `lr` and `weight_decay` of a group of AdamW.
_FOR_ADAMW = {"adamw_lr": "lr", "adamw_weight_decay": "weight_decay"}
ADAMW_RATE = 3e-4
# Keys that must agree with the saved group, because the state would mean something else otherwise.
_STRUCTURE = ("use_muon", "views")
# Entries of a saved state from which the next step continues, by `use_muon`.
_NEEDED = {True: ("momentum_buffer",), False: ("step", "exp_avg", "exp_avg_sq")}
# Options that only `torch.optim.Muon` has, and the only coefficients of its quintic for which there is a method here.
_TORCH_OPTIONS = ("ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")
_KELLER = (3.4445, -4.7750, 2.0315)


def check_muon_options(options: Group) -> None:
    """Raise if a number or a name is not a valid option."""
    check_rates(options)
    if not 0 <= options["momentum"] < 1:
        raise ValueError(f"momentum must be at least 0 and less than 1, got {options['momentum']}")
    if not all(0 <= beta < 1 for beta in options["adamw_betas"]):
        raise ValueError(f"adamw_betas must be at least 0 and less than 1, got {options['adamw_betas']}")
    if not options["adamw_eps"] >= 0:
        raise ValueError(f"adamw_eps must be at least 0, got {options['adamw_eps']}")
    method, steps = options["method"], options["steps"]
    if method not in METHODS and method != "auto":
        raise ValueError(f"method must be one of 'auto', {', '.join(map(repr, METHODS))}, got {method!r}")
    if steps is not None and not isinstance(steps, int):
        raise TypeError(f"steps must be a whole number or None, got {steps!r}: leave it out for the method's default")
    # Whether method, steps and dtype go together is known to `orthogonalize`, which checks before it computes.
    orthogonalize(torch.empty(0, 0), method, steps, dtype=options["dtype"])
    check_scale(options["scale"])


def separated(group: Group, given: Iterable[str]) -> list[Group]:
    """Split a group into one that follows Muon and one that follows AdamW; empty ones are left out.

    Args:
        group: The group with all options. Without `use_muon`, parameters with two or more dimensions follow Muon.
        given: The keys that the user wrote; the others have their default.

    Returns:
        One or two groups, each with `use_muon` and `views` (plain tuples, None for AdamW).
    """
    group = dict(group)
    given = set(given)
    use_muon = group.pop("use_muon")
    views = _plain_views(group.pop("views"), len(group["params"]))
    adamw = {own: group.pop(key) for key, own in _FOR_ADAMW.items()}
    if adamw["lr"] is None:
        adamw["lr"] = group["lr"] if group["scale"] == "match_rms_adamw" else ADAMW_RATE
    adamw = {key: value for key, value in adamw.items() if use_muon is None or key not in given}
    chosen = [p.ndim >= 2 if use_muon is None else bool(use_muon) for p in group["params"]]
    parts = []
    for muon in (True, False):
        places = [place for place, other in enumerate(chosen) if other is muon]
        if places or (not chosen and muon is bool(use_muon)):
            part = {**group, "params": [group["params"][place] for place in places], "use_muon": muon}
            if "param_names" in group:
                part["param_names"] = [group["param_names"][place] for place in places]
            part["views"] = [views[place] for place in places] if muon else None
            parts.append(part if muon else {**part, **adamw})
    for part in parts:
        _check_parameters(part)
    return parts


def _plain_views(views: Any, count: int) -> list[tuple[Any, ...]]:
    if views is None or isinstance(views, MatrixView):
        return [(views or MatrixView()).plain] * count
    if len(views) != count:
        raise ValueError(f"views must be one MatrixView or one for each of {count} parameters, got {len(views)}")
    return [view.plain if isinstance(view, MatrixView) else MatrixView(*view).plain for view in views]


def _check_parameters(group: Group) -> None:
    for place, (name, parameter) in enumerate(zip(parameter_names(group), group["params"], strict=True)):
        if parameter.is_complex():
            raise TypeError(
                f"{name} of shape {tuple(parameter.shape)} is complex, which Muon does not take: keep its real and"
                " imaginary parts as two parameters, or give it to torch.optim.AdamW"
            )
        if not torch.is_floating_point(parameter):
            raise TypeError(f"{name} has type {parameter.dtype}, and parameters are floating: convert it with .float()")
        if group["use_muon"]:
            try:
                MatrixView(*group["views"][place]).shape(parameter.shape)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None


def loadable_groups(state_dict: Mapping[str, Any], own_groups: list[Group]) -> list[Group]:
    """Return the saved groups in the form that `own_groups` have; an option that was not saved keeps its value.

    Raises:
        ValueError: If the state was saved by another optimizer, for other rules or views, or for parameters of other
            shapes.
    """
    groups = []
    for read, own in zip(state_dict["param_groups"], own_groups, strict=False):
        saved = _with_our_names(read)
        for key in _STRUCTURE:
            if key in saved and _as_tuples(saved[key]) != _as_tuples(own[key]):
                raise ValueError(
                    f"the state was saved with {key}={saved[key]} and this group has {own[key]}: build the"
                    " optimizer from the same parameter groups"
                )
        kept = {key: value for key, value in own.items() if key not in ("params", "param_names")}
        # JSON and YAML turn the tuples of `views` into lists, which cannot be hashed.
        groups.append({**kept, **saved, "views": own["views"]})
    _check_entries(state_dict, own_groups)
    check_shapes(state_dict, own_groups)
    # Torch raises if there are more saved groups than own ones.
    return [*groups, *state_dict["param_groups"][len(groups) :]]


def _with_our_names(saved: Group) -> Group:
    """A saved group, with the options of `torch.optim.Muon` translated if it has those."""
    if "use_muon" in saved:
        return saved
    if not set(_TORCH_OPTIONS) <= set(saved):
        # SGD also has a momentum_buffer, but without the factor 1 - μ: it is about twenty times as large.
        options = ", ".join(key for key in saved if key not in ("params", "param_names"))
        raise ValueError(
            f"the state was saved by another optimizer, whose groups have {options} and no use_muon: load one of Muon"
            " or of torch.optim.Muon"
        )
    if tuple(saved["ns_coefficients"]) != _KELLER:
        raise ValueError(
            f"the state was saved by a torch.optim.Muon with ns_coefficients={saved['ns_coefficients']}, and only"
            f" {_KELLER} can be continued, as method 'keller': load its momentum without the options"
        )
    return {
        **{key: value for key, value in saved.items() if key not in _TORCH_OPTIONS},
        "use_muon": True,
        "scale": saved["adjust_lr_fn"] or "original",
        "method": "keller",
        "steps": saved["ns_steps"],
    }


def _check_entries(state_dict: Mapping[str, Any], groups: list[Group]) -> None:
    """Raise if a state lacks an entry from which its group's rule, Muon's or AdamW's, continues."""
    for name, _, group, saved in saved_states(state_dict, groups):
        missing = [key for key in _NEEDED[group["use_muon"]] if key not in saved]
        if saved and missing:
            rule = "Muon" if group["use_muon"] else "AdamW"
            raise ValueError(
                f"{name} follows {rule} and its state has {', '.join(saved)} but no {missing[0]!r}: load a state of"
                " the same rule, or start without one"
            )


def _as_tuples(value: Any) -> Any:
    return [tuple(item) for item in value] if isinstance(value, list | tuple) else value
