"""When a watch says that the learning rate is too high: on losses and updates made by hand, and on trainings."""

import math
import random
from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import orthoscope
from orthoscope.watcher import Watch
from orthoscope.watcher._learning_rate import LARGE_UPDATE, LEAST_LOWERED, MOST_LOWERED, WINDOW, Alarm, LossJudge

GUESSING = math.log(10)


def judged(losses: Sequence[float], size: float = 0.01, classes: int = 10) -> list[tuple[int, Alarm]]:
    """All alarms of a series, with steps; every update has the same relative size."""
    judge, found = LossJudge(), []
    judge.classes = classes
    for step, loss in enumerate(losses):
        if alarm := judge.add_loss(loss):
            found.append((step, alarm))
        judge.add_sizes({"a": size, "b": size, "c": 2 * size})
    return found


def learning(steps: int, noise: float, start: float = GUESSING, seed: int = 0) -> list[float]:
    """Losses of a training that learns, with noise in proportion."""
    draw = random.Random(seed)
    return [start * math.exp(-step / 40) * math.exp(draw.gauss(0, noise)) for step in range(steps)]


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("classes", [10, 0], ids=["cross-entropy", "guessing unknown"])
def test_a_training_that_learns_is_never_warned_of(noise: float, classes: int) -> None:
    for seed in range(20):
        assert judged(learning(300, noise, seed=seed), 0.02, classes) == []


def test_a_plateau_at_guessing_as_in_warm_up_is_none_either() -> None:
    draw = random.Random(0)
    assert judged([GUESSING * (1 + draw.gauss(0, 0.02)) for _ in range(300)], 1e-4) == []


def test_an_initial_loss_far_above_guessing_that_falls_is_none_either() -> None:
    assert judged(learning(200, 0.1, start=125.0), 0.3) == []


def test_a_spike_of_usual_updates_that_recovers_at_once_is_none() -> None:
    losses = learning(200, 0.05)
    losses[100:103] = [9.0, 6.0, 3.0]
    assert judged(losses, 0.02) == []


def test_a_loss_that_passes_guessing_after_large_updates_is_warned_of_at_that_step() -> None:
    losses = [*learning(20, 0.0), 2.6, 8.0, 40.0]
    assert judged(losses, 0.9 * LARGE_UPDATE) == []
    step, alarm = judged(losses, 1.1 * LARGE_UPDATE)[0]
    assert step == 20
    assert not alarm.lasts
    assert alarm.weight == "c"
    assert "the loss is 2.6, above that of guessing (2.303)" in alarm.sentence


def test_a_loss_that_loses_half_of_its_gain_is_warned_of_before_it_passes_guessing() -> None:
    losses = [*learning(80, 0.0), *(0.4 + 0.06 * step for step in range(60))]
    passes = next(step for step, loss in enumerate(losses) if step > 40 and loss > GUESSING)
    step, alarm = judged(losses, 1e-4)[0]
    assert step < passes
    assert alarm.lasts
    assert "the loss rose from" in alarm.sentence


def test_noise_hides_a_rise_that_is_no_larger() -> None:
    draw = random.Random(1)
    losses = [1.0 + draw.gauss(0, 0.4) for _ in range(400)]
    assert judged(losses, 0.01, classes=0) == []
    quiet = [1.0] * 20 + [0.5] * 20 + [0.9] * 20
    assert judged(quiet, 0.01, classes=0)


@pytest.mark.parametrize(("size", "factor"), [(0.2, 0.05), (1e-6, LEAST_LOWERED), (1e6, MOST_LOWERED)])
def test_a_suggestion_brings_updates_to_their_usual_size_within_bounds(size: float, factor: float) -> None:
    losses = [*learning(80, 0.0), *[2.2] * (2 * WINDOW)]
    assert judged(losses, size)[0][1].factor == pytest.approx(factor)


def batches(steps: int, spike: int | None = None) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    images, labels = orthoscope.data.load("digits").batch(1024)
    generator = torch.Generator().manual_seed(3)
    for step in range(steps):
        chosen = torch.randint(len(images), (32,), generator=generator)
        yield images[chosen].flatten(1), (9 - labels[chosen] if step == spike else labels[chosen])


def trained(make: type[torch.optim.Optimizer], rate: float, spike: int | None = None, **options: float) -> Watch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = make(model.parameters(), rate, **options)  # type: ignore[call-arg]
    with orthoscope.watch(model, logger=None, profile=False) as w:
        for inputs, labels in batches(60, spike):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return w


@pytest.mark.parametrize(("make", "rate", "options"), [
    (torch.optim.SGD, 20.0, {"momentum": 0.9}),
    (torch.optim.AdamW, 1.0, {}),
])  # fmt: skip
def test_a_rate_that_drives_a_training_to_divergence_is_named_and_a_lower_one_suggested(
    make: type[torch.optim.Optimizer], rate: float, options: dict[str, float]
) -> None:
    w = trained(make, rate, **options)
    warning = next(one for one in w.warnings if one.kind == "learning rate")
    passed = next(step for step, loss in w.losses if not loss < 1.1 * max(GUESSING, w.losses[0][1]))
    assert warning.step <= passed
    assert warning.value == rate
    assert warning.suggestion is not None
    assert warning.suggestion < rate / 3
    assert warning.sentence.startswith(f"the learning rate {rate:g} is too high: the loss")


@pytest.mark.parametrize(("make", "rate", "options"), [
    (torch.optim.SGD, 0.1, {"momentum": 0.9}),
    (torch.optim.AdamW, 3e-3, {}),
])  # fmt: skip
@pytest.mark.parametrize("spike", [None, 50])
def test_healthy_trainings_and_one_bad_batch_are_not_warned_of(
    make: type[torch.optim.Optimizer], rate: float, options: dict[str, float], spike: int | None
) -> None:
    w = trained(make, rate, spike, **options)
    assert w.warnings == []
    if spike is not None:
        assert dict(w.losses)[spike] > 1.1 * GUESSING, "the bad batch must pass guessing"
