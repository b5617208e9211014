"""The first steps on copies, the probability made of them, and findings that agree with it."""

import copy
import math

import pytest
import torch
from torch import nn

from orthoscope import diagnose
from orthoscope.data import load
from orthoscope.diagnosis.first_steps import SAMPLES, STEPS, first_steps
from orthoscope.diagnosis.numbers import OF_CHECKS
from orthoscope.diagnosis.probability import AdditiveModel, Term, from_data
from orthoscope.diagnosis.rules import CALIBRATION
from orthoscope.findings import State, Verdict
from orthoscope.optim.recipes import OPTIMIZERS, SHORT_TRAINING_RATES
from orthoscope.probe.samples import Call

LOSS = nn.functional.cross_entropy


def network(depth: int = 2, width: int = 32) -> nn.Module:
    torch.manual_seed(0)
    hidden = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), *hidden, nn.Dropout(0.1), nn.Linear(width, 10))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return load("digits").batch(64)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_those_of_a_training_written_out(optimizer: str) -> None:
    model, (inputs, targets) = network(), batch()
    found = first_steps(model, Call(args=(inputs,), target=targets), LOSS, optimizer, seed=3)
    assert found.rates == SHORT_TRAINING_RATES[optimizer]
    for rate, losses in zip(found.rates, found.losses, strict=True):
        twin = copy.deepcopy(model).train()
        stepper = OPTIMIZERS[optimizer](twin, rate)
        torch.manual_seed(3)
        expected = []
        for _ in range(STEPS + 1):
            loss = LOSS(twin(inputs[:SAMPLES]), targets[:SAMPLES])
            expected.append(loss.item())
            stepper.zero_grad()
            loss.backward()
            stepper.step()
        assert losses == pytest.approx(expected, rel=1e-5)
    assert found.fall == pytest.approx(found.start - min(run[-1] for run in found.losses))
    assert found.first_fall == pytest.approx(found.start - min(run[1] for run in found.losses))


def test_the_model_its_mode_and_the_random_state_are_left_as_they_are() -> None:
    model, samples = network().eval(), batch()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    diagnose(model, samples, LOSS, optimizer="muon")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_run_that_diverges_is_no_fall() -> None:
    class Exploding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return (self.weight * inputs).pow(60)

    call = Call(args=(torch.full((8, 1), 1.5),), target=None)
    found = first_steps(Exploding(), call, lambda output: output.square().mean(), "sgd", seed=0)
    assert found.fall == -math.inf or found.fall > 0
    assert any(len(run) <= STEPS for run in found.losses)


def test_without_a_loss_or_a_trainable_parameter_no_step_is_taken() -> None:
    without = diagnose(network(), batch()[0], optimizer="adamw")
    assert without.first_steps is None
    assert any("no first steps" in note for note in without.notes)
    frozen = network().requires_grad_(False)
    assert diagnose(frozen, batch(), LOSS, optimizer="adamw").verdict is Verdict.SICK


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_network_that_trains_is_healthy_and_one_whose_output_is_constant_is_not(optimizer: str) -> None:
    healthy = diagnose(network(depth=0), batch(), LOSS, optimizer=optimizer)
    assert healthy.verdict is Verdict.HEALTHY
    assert healthy.findings[-1].check == "first steps"
    blind = network(depth=1)
    with torch.no_grad():
        blind[1].weight.zero_()
    blind[1].requires_grad_(False)
    assert diagnose(blind, batch(), LOSS, optimizer=optimizer).verdict.rank >= Verdict.AT_RISK.rank


@pytest.mark.parametrize("depth", [2, 40])
def test_no_finding_is_worse_than_the_verdict_and_one_explains_it(depth: int) -> None:
    found = diagnose(network(depth), batch(), LOSS, optimizer="sgd")
    severities = [finding.severity for finding in found.findings if finding.state is State.FOUND]
    if found.verdict is Verdict.HEALTHY:
        assert not severities
    else:
        assert max(severities, key=lambda one: one.rank) is found.verdict


def test_the_document_says_what_the_risk_of_an_optimizer_rests_on() -> None:
    risk = diagnose(network(), batch(), LOSS, optimizer="sgd").as_document().risk
    assert risk.accuracy == CALIBRATION.document["after_steps"]["by_optimizer"]["sgd"]["accuracy"]


MODEL = AdditiveModel(-2.0, (Term("depth", 1.0, 0.5), Term("depth", 2.0, 1.0), Term("no gradient", 0.5, 2.0, "sgd")))


def test_the_log_odds_are_the_base_and_what_lies_beyond_each_limit() -> None:
    def odds(optimizer: str, **numbers: float) -> float:
        risk = MODEL.probability({name.replace("_", " "): value for name, value in numbers.items()}, optimizer)
        return math.log(risk / (1 - risk))

    assert odds("sgd") == pytest.approx(-2.0)
    assert odds("adamw", depth=1.5, no_gradient=1.0) == pytest.approx(-1.5)
    assert odds("sgd", depth=math.inf, no_gradient=1.0) == pytest.approx(1.5)
    assert MODEL.contributions({"depth": 3.0, "no gradient": 1.0}, "sgd") == {"no gradient": 2.0, "depth": 1.5}
    assert from_data(MODEL.as_data()) == MODEL


def test_more_of_a_symptom_never_lowers_the_committed_risk() -> None:
    terms = CALIBRATION.after_steps.terms
    assert terms
    assert all(term.adds > 0 for term in terms)
    names = {*OF_CHECKS, "depth", "no gradient", "decrease by sgd", "decrease by signs", "relative gradient"}
    assert {term.number for term in terms} <= names | {"first steps", "first step", "loss after first steps"}
