"""What a parameter group of Muon holds: plain data only, so that it can be saved, compared and sent to other ranks."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from orthoscope.linalg.newton_schulz import polynomial_schedule
from orthoscope.linalg.orthogonalize import METHODS, check_compute_dtype, check_steps
from orthoscope.optim.manifold_groups import check_options
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.update_scale import check_scale

Group = dict[str, Any]
# Options of the constructor that a group of AdamW has as its `lr` and `weight_decay`.
_FOR_ADAMW = {"adamw_lr": "lr", "adamw_weight_decay": "weight_decay"}
_ADAMW_RATE = 3e-4
# Options that only `torch.optim.Muon` has.
_TORCHS = ("ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")


def check_muon_options(options: Group) -> None:
    """Refuse numbers and names that have no meaning."""
    check_options(options)
    if not 0 <= options["momentum"] < 1:
        raise ValueError(f"momentum must be at least 0 and less than 1, got {options['momentum']}")
    if not all(0 <= beta < 1 for beta in options["adamw_betas"]):
        raise ValueError(f"adamw_betas must be at least 0 and less than 1, got {options['adamw_betas']}")
    if not options["adamw_eps"] >= 0:
        raise ValueError(f"adamw_eps must be at least 0, got {options['adamw_eps']}")
    if options["method"] not in METHODS and options["method"] != "auto":
        raise ValueError(f"method must be one of 'auto', {', '.join(map(repr, METHODS))}, got {options['method']!r}")
    check_steps(options["steps"])
    check_compute_dtype(options["method"], options["dtype"])
    check_scale(options["scale"])


def check_process_group(process_group: Any) -> None:
    """Refuse what cannot carry a step to other ranks."""
    if process_group is not None and not isinstance(process_group, dist.ProcessGroup):
        raise TypeError(
            f"process_group must be a group of torch.distributed, or None, got {process_group!r}: pass"
            " torch.distributed.group.WORLD after init_process_group"
        )


def default_rate(scale: str) -> float:
    """The `lr` of a Muon that was given none: 0.02, or AdamW's where the scale is made for that."""
    return _ADAMW_RATE if scale == "match_rms_adamw" else 0.02


def with_our_names(saved: Group) -> Group:
    """A saved group with the options of `torch.optim.Muon`, if it is one's, under the names they have here."""
    if "use_muon" in saved:
        return saved
    if not set(_TORCHS) <= set(saved):
        # A buffer of SGD has no factor 1 - μ: it would be taken for a momentum twenty times as large.
        options = ", ".join(key for key in saved if key not in ("params", "param_names"))
        raise ValueError(
            f"the state was saved by another optimizer, whose groups have {options} and no use_muon: load one of Muon"
            " or of torch.optim.Muon"
        )
    (known,) = polynomial_schedule("keller", 1)
    if tuple(saved["ns_coefficients"]) != known:
        raise ValueError(
            f"the state was saved by a torch.optim.Muon with ns_coefficients={saved['ns_coefficients']}, and only"
            f" {known} can be continued, as method 'keller': load its momentum without the options"
        )
    return {
        **{key: value for key, value in saved.items() if key not in _TORCHS},
        "use_muon": True,
        "scale": saved["adjust_lr_fn"] or "original",
        "method": "keller",
        "steps": saved["ns_steps"],
    }


def separated(group: Group, given: Iterable[str]) -> list[Group]:
    """The group in parts of which each follows one rule, Muon's or AdamW's; `given` are the keys its author wrote.

    Without `use_muon`, matrices and whatever has more dimensions follow Muon, vectors and scalars AdamW.
    """
    group = dict(group)
    given = set(given)
    use_muon = group.pop("use_muon")
    views = _plain_views(group.pop("views"), len(group["params"]))
    adamw = {own: group.pop(key) for key, own in _FOR_ADAMW.items()}
    if adamw["lr"] is None:
        adamw["lr"] = group["lr"] if group["scale"] == "match_rms_adamw" else _ADAMW_RATE
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
    names = group.get("param_names", ["a parameter"] * len(group["params"]))
    for place, (name, parameter) in enumerate(zip(names, group["params"], strict=True)):
        _check_type(name, parameter)
        if group["use_muon"]:
            try:
                MatrixView(*group["views"][place]).shape(parameter.shape)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None


def _check_type(name: str, parameter: Tensor) -> None:
    if parameter.is_complex():
        raise TypeError(
            f"{name} of shape {tuple(parameter.shape)} is complex, which Muon does not take: keep its real and"
            " imaginary parts as two parameters, or give it to torch.optim.AdamW"
        )
    if not torch.is_floating_point(parameter):
        raise TypeError(f"{name} is of type {parameter.dtype}, and parameters are floating: convert it with .float()")
