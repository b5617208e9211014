"""With a short training, `fix` keeps what trains, says what training refutes, and leaves alone what trains as it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import orthoscope
from orthoscope.data import load
from orthoscope.data.dataset import python_manual
from orthoscope.findings import Verdict
from orthoscope.prescriptions import FixOutcome, Prescription
from orthoscope.prescriptions import plan as planning
from orthoscope.prescriptions.confirmation import Recipe, Trial
from orthoscope.prescriptions.prescription import Change
from prescriptions.people import (
    GPT,
    LENGTH,
    VOCABULARY,
    Denoiser,
    Mixture,
    PlainConv,
    Siamese,
    UNet,
    ZeroGated,
    contrastive,
    plain,
    seeded,
    with_dead_biases,
)

pytestmark = pytest.mark.slow

DIGITS = load("digits", "train")
SAMPLES = 64
IMAGES = ((DIGITS.inputs - DIGITS.inputs.mean()) / DIGITS.inputs.std())[:SAMPLES]
LABELS = DIGITS.labels[:SAMPLES]
VECTORS = IMAGES.flatten(1)
GENERATOR = torch.Generator().manual_seed(0)
NOISE, TIMES = torch.randn(SAMPLES, 64, generator=GENERATOR), torch.randint(10, (SAMPLES,), generator=GENERATOR)
ORDER = torch.randperm(SAMPLES, generator=GENERATOR)
TEXT = python_manual("train")[: 32 * LENGTH].reshape(32, LENGTH) % VOCABULARY


class Labeled(nn.Module):
    """A language model that computes its loss from labels, and returns a dict."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.model(input_ids)
        found = {"logits": logits}
        if labels is not None:
            found["loss"] = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return found


FAILING: dict[str, tuple[Any, Any, Any]] = {
    "deep saturating network": (lambda: plain(12, nn.Sigmoid), (VECTORS, LABELS), None),
    "plain deep convolutional network": (lambda: PlainConv(12), (IMAGES, LABELS), None),
    "softmax before the loss": (lambda: nn.Sequential(*plain(8), nn.Softmax(-1)), (VECTORS, LABELS), None),
    "frozen": (lambda: plain(3).requires_grad_(False), (VECTORS, LABELS), None),
}


def fixed(model: nn.Module, batch: Any, loss: Any = None, steps: int = 60) -> orthoscope.Fix:
    recipe = Recipe.checked(steps, (1e-2, 1e-3), "adamw", 0)
    return orthoscope.fix(model, batch, loss, confirm=Trial.of(model, None, loss, recipe, batch=batch))


@pytest.mark.parametrize("name", FAILING)
def test_a_network_that_does_not_train_trains_afterwards(name: str) -> None:
    make, batch, loss = FAILING[name]
    model = seeded(make)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = fixed(model, batch, loss)
    assert found.confirmations is not None
    first, last = found.confirmations
    assert (first.trains, last.trains) == (False, True), found.sentence
    assert found.outcome in (FixOutcome.FIXED, FixOutcome.IMPROVED)
    assert found.sentence.startswith(f"does not train → trains by {found.steps[0].name}")
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_where_the_reference_learns_nothing_the_sentence_names_the_losses() -> None:
    model = seeded(lambda: plain(12, nn.Sigmoid))
    trial = Trial.of(model, None, None, Recipe.checked(40, (1e-3,), "adamw", 0), batch=(VECTORS, LABELS))
    assert trial.guessing is not None
    found = orthoscope.fix(model, (VECTORS, LABELS), confirm=replace(trial, reference=trial.guessing))
    assert found.confirmations is not None
    before, after = found.confirmations
    assert (before.trains, after.trains) == (None, None)
    assert after.final_loss < 0.9 * before.final_loss
    assert found.sentence.startswith(f"loss {before.final_loss:.3g} → {after.final_loss:.3g} by {found.steps[0].name}")


# Networks that train as they are, whatever the verdict says of them.
TRAINING: dict[str, tuple[Any, Any, Any]] = {
    "zero-gated residual network": (ZeroGated, (IMAGES, LABELS), None),
    "U-Net": (UNet, (IMAGES, IMAGES), nn.functional.mse_loss),
    "mixture of experts": (lambda: Mixture(6), (VECTORS, LABELS), None),
    "diffusion": (lambda: Denoiser(3), ((NOISE + VECTORS, TIMES), NOISE), nn.functional.mse_loss),
    "siamese": (lambda: Siamese(3), ((VECTORS, VECTORS[ORDER]), LABELS[ORDER] == LABELS), contrastive),
    "labels in a dict": (lambda: Labeled(with_dead_biases(GPT())), {"input_ids": TEXT, "labels": TEXT}, None),
}


@pytest.mark.parametrize("name", TRAINING)
def test_a_network_that_trains_as_it_is_is_not_touched(name: str) -> None:
    make, batch, loss = TRAINING[name]
    model = seeded(make)
    found = fixed(model, batch, loss)
    assert "trains as it is: nothing was changed" in found.sentence
    assert found.outcome in (FixOutcome.HEALTHY, FixOutcome.REFUTED)
    assert found.steps == ()
    assert ("refutes it" in found.sentence) is (found.before.verdict is Verdict.SICK), "a risk is not refuted"
    assert " ".join(str(found).split()).count("after 60 steps") == 1, "one training is shown once"
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), found.model.parameters(), strict=True))


def test_what_training_refutes_is_tried_on_and_never_called_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def freeze(model: nn.Module) -> None:
        """Healthy to look at, and not trainable."""
        orthoscope.init.initialize_(model, "he", generator=torch.Generator().manual_seed(0))
        model.requires_grad_(False)

    step = Prescription("frozen", "for the test", (Change(freeze, "freeze"),))
    monkeypatch.setattr(planning, "REMEDIES", (lambda diagnosis: step,))
    found = fixed(seeded(lambda: plain(12, nn.Sigmoid)), (VECTORS, LABELS), steps=20)
    assert found.outcome is FixOutcome.REFUTED
    assert found.steps == ()
    assert found.plan[0].outcome == "refuted by training"
    assert "no prescription makes the network train" in found.sentence


def test_trained_weights_are_left_alone_also_with_a_training() -> None:
    model = seeded(lambda: plain(12, nn.Sigmoid))
    recipe = Recipe.checked(20, (1e-3,), "adamw", 0)
    trial = Trial.of(model, None, None, recipe, batch=(VECTORS, LABELS))
    found = orthoscope.fix(model, (VECTORS, LABELS), trained=True, confirm=trial)
    assert found.outcome is FixOutcome.TRAINED
