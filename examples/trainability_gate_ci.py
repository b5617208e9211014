"""Trainability gate for continuous integration: exit code 1 if a network would not train, 0 if it would.

Run as a script it checks two networks, prints one line for each, and exits with 1 because the second is sick. The same
check is a plain assertion in a test: `pytest examples/trainability_gate_ci.py` runs those below. Takes 3 seconds.
"""

import sys

import torch
from torch import nn

import orthoscope

DEPTH, WIDTH = 40, 64


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return orthoscope.data.load("digits").batch(64, torch.Generator().manual_seed(0))


def build(init: str = "orthogonal") -> nn.Module:
    """The network of your project; `init` stands for a change that somebody proposes."""
    return orthoscope.models.MLP(
        depth=DEPTH,
        width=WIDTH,
        in_features=64,
        out_features=10,
        activation="tanh",
        init=init,
        generator=torch.Generator().manual_seed(0),
    )


def diagnosis_of(model: nn.Module) -> orthoscope.Diagnosis:
    images, labels = batch()
    return orthoscope.diagnose(model, (images.flatten(1), labels), loss=nn.functional.cross_entropy)


def test_network_will_train() -> None:
    diagnosis = diagnosis_of(build())
    assert diagnosis.verdict != "SICK", diagnosis.summary


def test_signal_reaches_the_output_and_gradients_the_input() -> None:
    """Finer than the verdict: no symptom at all, and a stated margin for the gradients."""
    diagnosis = diagnosis_of(build())
    assert not diagnosis.symptoms, diagnosis.summary
    assert abs(diagnosis.slope) < 0.05, f"gradients change by e^{diagnosis.slope:.3f} per layer"


def main() -> int:
    sick = False
    for init in ("orthogonal", "torch"):
        diagnosis = diagnosis_of(build(init))
        print(f"{init} weights: {diagnosis.verdict} ({', '.join(diagnosis.symptoms) or 'no symptom'})")
        sick |= diagnosis.verdict == "SICK"
    return int(sick)


if __name__ == "__main__":
    sys.exit(main())
