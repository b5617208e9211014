"""A prescription is made only where its cause is found and its object is there; zero-initialized branches stay."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope.diagnosis import Diagnosis
from orthoscope.models import MLP
from orthoscope.prescriptions import Prescription
from orthoscope.prescriptions.plan import REMEDIES, plan_for
from prescriptions.people import (
    GPT,
    LENGTH,
    VOCABULARY,
    Denoiser,
    PlainConv,
    ZeroGated,
    applied_and_pasted,
    plain,
    scaled,
    seeded,
    with_dead_biases,
)

GENERATOR = torch.Generator().manual_seed(0)
BATCH = torch.randn(32, 64, generator=GENERATOR)
IDS = torch.randint(VOCABULARY, (16, LENGTH), generator=GENERATOR)
IMAGES = torch.randn(16, 1, 8, 8, generator=GENERATOR)
TIMES = torch.randint(10, (32,), generator=GENERATOR)


def plan(model: nn.Module, batch: Any) -> dict[str, Prescription]:
    """Every prescription by name, whatever the verdict is."""
    return {step.name: step for step in plan_for(orthoscope.diagnose(model, batch), trained=False, reinitialize=True)}


def with_softmax() -> nn.Module:
    return nn.Sequential(*plain(3), nn.Softmax(-1))


def harmed(harm: Any) -> nn.Module:
    model = seeded(lambda: plain(5))
    harm(model)
    return model


# By prescription: a network that has its cause, and one that does not.
CAUSES: dict[str, tuple[Any, Any, Any]] = {
    "biases reset to zero": (lambda: with_dead_biases(GPT()), GPT, IDS),
    "new weights for layers that lose the signal": (
        lambda: harmed(lambda m: nn.init.zeros_(m[4].weight)),
        lambda: plain(5),
        BATCH,
    ),
    "parameters unfrozen": (lambda: plain(3).requires_grad_(False), lambda: plain(3), BATCH),
    "no softmax before the loss": (with_softmax, lambda: plain(3), BATCH),
    "attention logits of unit scale": (lambda: scaled(GPT(), 20), GPT, IDS),
    "weights scaled layer by layer": (lambda: scaled(plain(5), 50), lambda: plain(2), BATCH),
    "normalized input": (lambda: plain(3), lambda: plain(3), (100 * BATCH, BATCH)),
    "batch normalization behind convolutions": (
        lambda: PlainConv(4),
        lambda: nn.Sequential(PlainConv(4), nn.BatchNorm1d(10)),
        IMAGES,
    ),
    "skip connections": (lambda: plain(25), ZeroGated, (BATCH, IMAGES)),
    "smaller learning rate": (lambda: plain(25), lambda: GPT(8), (BATCH, IDS)),
    "activations as modules": (lambda: PlainConv(4), lambda: plain(4), (IMAGES, BATCH)),
    "Xavier weights": (GPT, lambda: plain(4), (IDS, BATCH)),
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_prescription_is_made_with_its_cause_and_not_without(name: str) -> None:
    with_cause, without, batches = CAUSES[name]
    first, second = batches if isinstance(batches, tuple) else (batches, batches)
    assert name in plan(seeded(with_cause), first)
    assert name not in plan(seeded(without), second)


def test_a_transformer_gets_neither_orthogonal_weights_nor_advice_for_plain_networks() -> None:
    names = plan(seeded(lambda: GPT(8)), IDS).keys()
    assert not names & {"orthogonal weights", "orthogonal weights while training", "smaller learning rate"}
    assert not any("SGD" in step.code for step in plan(seeded(lambda: GPT(8)), IDS).values())


def test_a_plain_network_of_a_class_of_its_own_gets_no_advice_for_branches() -> None:
    assert not any("branches" in name for name in plan(seeded(PlainConv), IMAGES))


def test_relu_as_a_function_keeps_the_gain_of_relu() -> None:
    step = plan(seeded(PlainConv), IMAGES)["orthogonal weights"]
    assert "1.414" in step.code


@pytest.mark.parametrize("model", [seeded(ZeroGated), seeded(lambda: nn.Sequential(ZeroGated(), nn.Linear(10, 10)))])
def test_a_zero_initialized_branch_is_zero_after_every_prescription(model: nn.Module) -> None:
    gates = [name for name, one in model.named_parameters() if name.endswith("second.weight")]
    assert len(gates) == 4
    applied = 0
    for step in plan(model, IMAGES).values():
        if not step.applies:
            continue
        after = copy.deepcopy(model)
        try:
            step.apply_(after, IMAGES)
        except ValueError:
            continue
        applied += 1
        zeros = [name for name, one in after.named_parameters() if one.ndim == 4 and not one.any()]
        assert len(zeros) == 4, step.name
    assert applied >= 2


def test_a_zero_layer_without_a_way_around_it_is_drawn_anew() -> None:
    model = harmed(lambda m: nn.init.zeros_(m[4].weight))
    step = plan(model, BATCH)["new weights for layers that lose the signal"]
    assert "'4'" in step.code
    step.apply_(model, BATCH)
    assert bool(model.get_parameter("4.weight").any())


class FrozenGate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gate = nn.Linear(64, 64), nn.Parameter(torch.zeros(64), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.gate * self.layer(x)
        return out


def test_a_frozen_gate_is_unfrozen_and_an_open_one_left_alone() -> None:
    step = plan(FrozenGate(), BATCH)["zero gates unfrozen"]
    model = FrozenGate()
    step.apply_(model, BATCH)
    assert model.gate.requires_grad
    assert "zero gates unfrozen" not in plan(model, BATCH)


FAULTY: dict[str, tuple[Any, Any]] = {
    "dead biases": (lambda: with_dead_biases(GPT()), IDS),
    "large attention": (lambda: scaled(GPT(), 20), IDS),
    "zero layer": (lambda: harmed(lambda m: nn.init.zeros_(m[4].weight)), 100 * BATCH),
    "softmax": (with_softmax, BATCH),
    "frozen": (lambda: plain(3).requires_grad_(False), BATCH),
    "plain convolutions": (lambda: PlainConv(6), IMAGES),
    "zero gates": (ZeroGated, IMAGES),
    "diffusion": (lambda: scaled(Denoiser(), 8), (BATCH, TIMES)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTY)
def test_the_code_of_every_prescription_is_the_change_to_the_last_bit(name: str) -> None:
    make, batch = FAULTY[name]
    model = seeded(make)
    checked = 0
    for step in plan(model, batch).values():
        if not step.applies:
            continue
        pair = applied_and_pasted(step, model, batch)
        if pair is None:
            continue
        one, other = (changed.state_dict() for changed in pair)
        assert all(torch.equal(value, other[key]) for key, value in one.items()), step.name
        flags = [[p.requires_grad for p in m.parameters()] for m in pair]
        assert flags[0] == flags[1]
        checked += 1
    assert checked


@pytest.mark.slow
def test_every_remedy_of_the_list_is_made_for_some_network() -> None:
    diagnoses: list[Diagnosis] = [orthoscope.diagnose(seeded(make), batch) for make, batch in FAULTY.values()]
    deep = MLP(depth=60, width=16, residual=True, generator=torch.Generator().manual_seed(0))
    collapsed = MLP(depth=60, width=16, generator=torch.Generator().manual_seed(0))
    diagnoses += [orthoscope.diagnose(one, torch.randn(32, 16)) for one in (deep, collapsed)]
    diagnoses.append(orthoscope.diagnose(FrozenGate(), BATCH))
    for remedy in REMEDIES:
        assert any(remedy(diagnosis) is not None for diagnosis in diagnoses), remedy
