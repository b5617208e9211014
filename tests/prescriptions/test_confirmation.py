"""A short training tells whether the verdict was right, by the rule of the calibration."""

import itertools
import json
import math
from collections.abc import Iterator

import jsonschema
import pytest
import torch
from torch import nn

import orthoscope
from orthoscope import report
from orthoscope.models import MLP, Transformer
from orthoscope.prescriptions._baselines import Comparable, constant_loss
from orthoscope.prescriptions._tasks import fitting_examples
from orthoscope.prescriptions.confirmation import trained
from orthoscope.probe.samples import Call

BATCH = torch.randn(16, 20, generator=torch.Generator().manual_seed(0))


def mlp(depth: int, init: str) -> MLP:
    return MLP(depth=depth, width=20, init=init, generator=torch.Generator().manual_seed(0))


def test_half_of_what_the_reference_learns_is_enough() -> None:
    assert trained(1.0, 0.0, 2.0)
    assert not trained(1.0001, 0.0, 2.0)
    assert not trained(math.inf, 0.0, 2.0)
    assert not trained(math.nan, 0.0, 2.0)
    with pytest.raises(ValueError, match="no better than guessing"):
        trained(1.0, 2.0, 2.0)


@pytest.mark.slow
def test_a_verdict_is_confirmed_by_the_training_of_copies() -> None:
    sound, dead = mlp(2, "he"), mlp(15, "torch")
    weights = [parameter.clone() for parameter in dead.parameters()]
    good = orthoscope.confirm(sound, batch=BATCH, steps=60, learning_rates=(0.03,))
    bad = orthoscope.confirm(dead, batch=BATCH, steps=20, learning_rates=(0.03,))
    assert (good.outcome, good.confirmed) == ("trains", True)
    assert (bad.outcome, bad.confirmed) == ("does not train", True)
    assert all(torch.equal(a, b) for a, b in zip(weights, dead.parameters(), strict=True))
    refuted = orthoscope.confirm(
        dead, batch=BATCH, steps=20, learning_rates=(0.03,), diagnosis=orthoscope.diagnose(sound, BATCH)
    )
    assert refuted.confirmed is False
    assert "refuted" in refuted.summary
    jsonschema.validate(json.loads(bad.to_json()), report.schema())
    assert str(bad).startswith("CONFIRM")


def test_guessing_is_the_entropy_of_the_labels_and_the_variance_of_numbers() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    inputs = torch.zeros(4, 2)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    found = constant_loss(Comparable((Call((inputs,), target=labels),), torch.zeros(4, 2), nn.functional.cross_entropy))
    assert found == pytest.approx(entropy, abs=1e-5)
    numbers = torch.tensor([[1.0], [2.0], [3.0], [6.0]])
    calls = tuple(Call((inputs[part],), target=numbers[part]) for part in (slice(3), slice(3, 4)))
    found = constant_loss(Comparable(calls, torch.zeros(3, 1), nn.functional.mse_loss))
    assert found == pytest.approx(numbers.var(correction=0).item(), abs=1e-5)


def test_embedded_data_is_made_to_fit() -> None:
    images = fitting_examples(orthoscope.models.ConvNet(depth=1, channels=2), torch.zeros(4, 3, 12, 10))
    assert images.inputs.shape[1:] == (3, 12, 10)
    vectors = fitting_examples(mlp(1, "he"), BATCH)
    assert vectors.inputs.shape[1] == 20
    assert vectors.inputs.std().item() == pytest.approx(1, abs=1e-3)
    tokens = Transformer(depth=1, width=8, heads=2, vocabulary=128, length=6)
    text = fitting_examples(tokens, torch.zeros(2, 6, dtype=torch.long))
    assert torch.equal(text.inputs[:, 1:], text.targets[:, :-1])
    for model, batch in (
        (MLP(depth=1, width=20, out_features=3), BATCH),
        (Transformer(depth=1, width=8, heads=2, vocabulary=16, length=6), torch.zeros(2, 6, dtype=torch.long)),
    ):
        with pytest.raises(ValueError, match="give a loader"):
            fitting_examples(model, batch)


@pytest.mark.slow
def test_data_and_loss_of_the_user_are_taken() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(256, 20, generator=generator)
    targets = inputs[:, :1] * 2
    model = nn.Linear(20, 1)
    nn.init.zeros_(model.weight)
    healthy = orthoscope.diagnose(mlp(2, "he"), BATCH)
    found = orthoscope.confirm(model, (inputs, targets), steps=60, learning_rates=(0.03,), diagnosis=healthy)
    assert found.trains
    assert found.source == "your data"
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=32)
    absolute = orthoscope.confirm(
        model, loader, nn.functional.l1_loss, steps=60, learning_rates=(0.03,), diagnosis=healthy
    )
    assert absolute.guessing_loss == pytest.approx((targets - targets.median()).abs().mean().item(), rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"steps": 3}, "give at least 10"),
        ({"learning_rates": ()}, "at least one"),
        ({"optimizer": "magic"}, "choose one of adamw, sgd, muon"),
        ({"batch": None}, "there is no training data"),
        ({"batches": []}, "the data is empty"),
    ],
)
def test_mistakes_are_one_sentence(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        orthoscope.confirm(mlp(2, "he"), **{"batch": BATCH, **arguments})  # type: ignore[arg-type]


class Tokens(nn.Module):
    """A prediction for every token of sequences of any length, which notes what it was shown."""

    seen: list[list[int]]

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(tokens.flatten().tolist())
        out: torch.Tensor = self.head(self.embedding(tokens))
        return out


@pytest.mark.slow
def test_an_endless_loader_of_batches_of_any_size_is_read_once_and_no_further_than_needed() -> None:
    generator = torch.Generator().manual_seed(0)
    taken: list[torch.Tensor] = []

    def endless() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for count in itertools.count():
            tokens = torch.randint(12, (2 + count % 3, 4 + count % 2), generator=generator)
            taken.append(tokens)
            yield tokens, tokens % 3

    model = Tokens()
    Tokens.seen = []
    healthy = orthoscope.diagnose(mlp(2, "he"), BATCH)
    found = orthoscope.confirm(model, endless(), steps=12, learning_rates=(0.1, 0.01), diagnosis=healthy)
    assert len(taken) == 12
    assert Tokens.seen == [tokens.flatten().tolist() for tokens in taken] * 2
    shares = torch.cat([tokens.flatten() % 3 for tokens in taken]).bincount().double()
    entropy = torch.distributions.Categorical(probs=shares).entropy().item()
    assert found.guessing_loss == pytest.approx(entropy, abs=1e-4)
    assert found.reference == "a shallow network"


class Noting(nn.Module):
    seen: list[list[float]]

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen.append(inputs.flatten().tolist())
        out: torch.Tensor = self.layer(inputs)
        return out


@pytest.mark.slow
def test_every_learning_rate_sees_the_same_batches_in_the_same_order() -> None:
    Noting.seen = []
    inputs = torch.arange(100.0).reshape(-1, 1) / 100
    healthy = orthoscope.diagnose(mlp(2, "he"), BATCH)
    orthoscope.confirm(Noting(), (inputs, inputs), steps=10, learning_rates=(0.01, 0.001), diagnosis=healthy)
    assert len(Noting.seen) == 20
    assert Noting.seen[:10] == Noting.seen[10:]
    assert Noting.seen[0] != Noting.seen[2]  # and every epoch is shuffled anew
