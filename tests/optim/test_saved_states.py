"""A state of other parameters or of another optimizer is refused before anything is loaded."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from optim.optimizers import CASES, Case, frame, gaussian, on_stiefel, walk
from orthoscope.optim import Muon

Build = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


def parameters(size: int) -> list[nn.Parameter]:
    return [nn.Parameter(gaussian(size, size)), nn.Parameter(gaussian(size))]


def grouped(size: int) -> Muon:
    matrix, bias = parameters(size)
    return Muon(
        [
            {"params": [("body.weight", matrix)], "use_muon": True},
            {"params": [("body.bias", bias)], "use_muon": False},
        ]
    )


def check_untouched(optimizer: torch.optim.Optimizer, state: dict[str, Any], message: str) -> None:
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
    assert optimizer.state_dict() == before
    walk(optimizer, 1)


@pytest.mark.parametrize(
    ("other", "options"),
    [
        (torch.optim.AdamW, "lr, betas, .* and no use_muon"),
        (lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9), "lr, momentum, .* and no use_muon"),
        (lambda ps: torch.optim.SGD(ps, 0.1), "lr, momentum, .* and no use_muon"),
    ],
    ids=["AdamW", "SGD with momentum", "SGD"],
)
def test_muon_refuses_the_state_of_another_optimizer(other: Build, options: str) -> None:
    theirs = other(parameters(4)[:1])
    walk(theirs, 2)
    check_untouched(
        Muon(parameters(4)[:1]), theirs.state_dict(), rf"saved by another optimizer, whose groups have {options}: load"
    )


def test_muon_refuses_a_state_that_lacks_an_entry() -> None:
    source = grouped(4)
    walk(source, 2)
    state = source.state_dict()
    exchanged = {**state, "state": {0: state["state"][1], 1: state["state"][1]}}
    check_untouched(
        grouped(4),
        exchanged,
        r"body.weight follows Muon and its state has step, exp_avg, .* no 'momentum_buffer': load",
    )
    exchanged = {**state, "state": {0: state["state"][0], 1: state["state"][0]}}
    check_untouched(grouped(4), exchanged, r"body.bias follows AdamW and its state has momentum_buffer but no 'step'")


def test_a_parameter_without_a_saved_state_starts_afresh() -> None:
    source = grouped(4)
    walk(source, 1)
    state = source.state_dict()
    for saved in ({}, {0: state["state"][0]}, {0: {}, 1: state["state"][1]}):
        optimizer, fresh = grouped(4), grouped(4)
        optimizer.load_state_dict({**state, "state": saved})
        for each in (optimizer, fresh):
            walk(each, 1)
        for place, key in enumerate(("momentum_buffer", "exp_avg")):
            ours, new = (each.state_dict()["state"][place][key] for each in (optimizer, fresh))
            assert torch.equal(ours, new) == (not saved.get(place))


def test_muon_refuses_a_state_of_another_width() -> None:
    source = grouped(16)
    walk(source, 1)
    state = source.state_dict()
    check_untouched(
        grouped(32),
        state,
        r"body.weight has shape \(32, 32\) and its saved momentum_buffer \(16, 16\): load",
    )
    check_untouched(
        grouped(32),
        {**state, "state": {1: state["state"][1]}},
        r"body.bias has shape \(32,\) and its saved exp_avg \(16,\)",
    )


def has_tensors(case: Case) -> bool:
    return "Adam" in case.build.__name__ or "momentum" in case.options


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("case", [case for case in CASES if has_tensors(case)], ids=str)
def test_optimizers_on_manifolds_refuse_a_state_of_another_width(case: Case, batched: bool) -> None:
    def optimizer(size: int) -> torch.optim.Optimizer:
        weight = nn.Parameter(frame(size, 2).detach().expand(3, -1, -1).clone()) if batched else frame(size, 2)
        return case([*on_stiefel([weight], batched=batched), {"params": [nn.Parameter(gaussian(size))]}])

    source = optimizer(4)
    walk(source, 1)
    optimizer(4).load_state_dict(copy.deepcopy(source.state_dict()))
    shape = r"\(3, 8, 2\)" if batched else r"\(8, 2\)"
    check_untouched(optimizer(8), source.state_dict(), rf"a parameter has shape {shape} and its saved")
    only_plain = {**source.state_dict(), "state": {1: source.state_dict()["state"][1]}}
    check_untouched(optimizer(8), only_plain, r"a parameter has shape \(8,\) and its saved .* \(4,\)")
