"""What a prompt shows of a public object is text for people, not the arguments of a constructor."""

import re

import pytest
import torch
from torch import nn

import orthoscope
from orthoscope.models import MLP
from orthoscope.optim.muon.cost import muon_cost


@pytest.fixture(scope="module")
def diagnosis() -> orthoscope.Diagnosis:
    model = MLP(depth=30, width=32, activation="relu", init="torch", generator=torch.Generator().manual_seed(0))
    return orthoscope.diagnose(model, torch.randn(32, 32, generator=torch.Generator().manual_seed(1)))


@pytest.mark.slow
def test_every_object_reads_as_sentences(diagnosis: orthoscope.Diagnosis) -> None:
    plan = orthoscope.prescribe(diagnosis)
    block = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with orthoscope.watch(block, every=1, logger=None) as watched:
        block(torch.randn(8, 8)).sum().backward()
    spectrum = next(iter(diagnosis.weight_spectra.values()), None)
    aligned = orthoscope.align(MLP(depth=3, width=8, residual=True, norm="layer"), torch.randn(4, 8))
    shown = [
        diagnosis,
        diagnosis.recording,
        diagnosis.layers[0],
        diagnosis.findings[0],
        plan,
        plan[0],
        orthoscope.compare(diagnosis, diagnosis),
        orthoscope.predict("mlp(activation=relu, depth=1..4, width=64)", samples=16),
        orthoscope.predict("mlp(activation=relu, depth=1..4, width=64)", samples=16).limit[0],
        muon_cost([(8, 8)], layout="ddp", ranks=2),
        watched,
        aligned,
        aligned.jacobians,
        *([] if spectrum is None else [spectrum]),
    ]
    for one in shown:
        for text in (str(one), repr(one)):
            assert not re.match(r"\w+\((\w+=|<)", text), f"{type(one).__name__} is a dump: {text[:60]}"
            assert "object at 0x" not in text
            assert "nan" not in text.split()


@pytest.mark.slow
def test_a_plan_says_why_what_theory_expects_and_the_code(diagnosis: orthoscope.Diagnosis) -> None:
    plan = orthoscope.prescribe(diagnosis)
    text = str(plan)
    assert text.startswith(f"MLP is SICK: {len(plan)} prescriptions, the most promising first\n")
    for number, step in enumerate(plan, start=1):
        assert f"{number}. {step.name}" in text
        assert all(line.strip() in text for line in step.code.splitlines())
    assert str(orthoscope.prescriptions.Plan(diagnosis, ())) == "MLP is SICK: nothing to change"


def test_a_diagnosis_ends_with_what_to_do_next(diagnosis: orthoscope.Diagnosis) -> None:
    assert str(diagnosis).rstrip().splitlines()[-2].strip() == "orthoscope.fix(model, batch)"
    healthy = orthoscope.diagnose(
        MLP(depth=2, width=64), torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
    )
    assert str(healthy).rstrip().splitlines()[-1].strip() == "orthoscope.watch(model)"
    shifted = orthoscope.diagnose(MLP(depth=2, width=64), torch.ones(32, 64))
    assert "Give a batch whose samples differ" in " ".join(str(shifted).split())
