"""The one training loop: it learns, repeats itself from a seed, and stops for a stated reason."""

import math

import pytest
import torch
from torch import Tensor, nn

from orthoscope.data import load
from orthoscope.models import MLP
from orthoscope.training import Step, minibatches, train


def digits(size: int = 64, seed: int = 0):  # type: ignore[no-untyped-def]
    data = load("digits")
    return minibatches(data.inputs.flatten(1), data.labels, size, torch.Generator().manual_seed(seed))


def network(depth: int = 2) -> MLP:
    return MLP(depth=depth, width=64, in_features=64, generator=torch.Generator().manual_seed(0))


@pytest.mark.slow
def test_digits_are_learned_and_accuracy_on_unseen_ones_follows() -> None:
    model = network()
    history = train(model, digits(), torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), steps=200)
    unseen = load("digits", "test")
    accuracy = (model(unseen.inputs).argmax(-1) == unseen.labels).double().mean()
    assert history.stopped == "done"
    assert len(history.losses) == 200
    assert history.losses[0] == pytest.approx(math.log(10), rel=0.3)
    assert history.final() < 0.1
    assert accuracy > 0.9


def test_the_same_generator_gives_the_same_losses() -> None:
    def losses(seed: int) -> list[float]:
        model = network()
        return train(model, digits(seed=seed), torch.optim.SGD(model.parameters(), 0.1), steps=30).losses

    assert losses(0) == losses(0)
    assert losses(0) != losses(1)


def test_an_epoch_shows_every_sample_once() -> None:
    inputs, targets = torch.arange(10).float().unsqueeze(1), torch.arange(10)
    epoch = minibatches(inputs, targets, 4, torch.Generator().manual_seed(0))
    first, second = list(epoch()), list(epoch())
    assert [len(batch) for batch, _ in first] == [4, 4, 2]
    assert sorted(int(t) for _, labels in first for t in labels) == list(range(10))
    assert [labels.tolist() for _, labels in first] != [labels.tolist() for _, labels in second], "shuffled anew"


def test_divergence_stops_the_loop_and_is_called_by_its_name() -> None:
    model = network(depth=6)
    history = train(model, digits(), torch.optim.SGD(model.parameters(), 1e6), steps=200)
    assert history.stopped == "diverged"
    assert history.final() == math.inf
    assert len(history.losses) < 200


def test_a_stall_stops_the_loop() -> None:
    model = network()
    history = train(model, digits(), torch.optim.SGD(model.parameters(), 0.0), steps=500, patience=25)
    assert history.stopped == "stalled"
    assert 25 < len(history.losses) < 500


def test_a_callback_sees_every_step_and_can_stop() -> None:
    model = network()
    seen: list[Step] = []

    def callback(step: Step) -> str | None:
        seen.append(step)
        return "enough" if step.number == 40 else None

    history = train(model, digits(), torch.optim.SGD(model.parameters(), 0.1), steps=100, callback=callback)
    assert history.stopped == "enough"
    assert [step.number for step in seen] == list(range(1, 41))
    assert seen[-1].epoch == 2
    assert [step.loss for step in seen] == history.losses


def test_schedule_clip_and_other_losses_are_applied() -> None:
    model = nn.Linear(3, 1, bias=False)
    inputs, targets = torch.randn(32, 3), torch.zeros(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    norms: list[float] = []

    def clip(clipped: nn.Module) -> None:
        norms.append(float(nn.utils.clip_grad_norm_(clipped.parameters(), 1e-3)))

    before = model.weight.detach().clone()
    loss = nn.functional.mse_loss
    train(model, minibatches(inputs, targets, 32), optimizer, steps=3, loss=loss, schedule=schedule, clip=clip)
    assert schedule.get_last_lr() == [0.125]
    assert len(norms) == 3
    assert float((model.weight.detach() - before).norm()) <= 1e-3 * (1 + 0.5 + 0.25) + 1e-6


def test_an_optimizer_that_needs_a_closure_works() -> None:
    model = nn.Linear(3, 1)
    inputs = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    targets = inputs @ torch.tensor([[1.0], [2.0], [3.0]])
    epoch = minibatches(inputs, targets, 64)
    history = train(model, epoch, torch.optim.LBFGS(model.parameters()), steps=5, loss=nn.functional.mse_loss)
    assert history.final(1) < 1e-6


def test_the_model_leaves_in_the_mode_it_came_in() -> None:
    model = nn.Sequential(nn.Linear(64, 10), nn.Dropout()).eval()
    train(model, digits(), torch.optim.SGD(model.parameters(), 0.1), steps=2)
    assert not model.training


@pytest.mark.parametrize(
    ("inputs", "targets", "size", "message"),
    [
        (torch.ones(3, 2), torch.ones(4), 2, "3 inputs and 4 targets"),
        (torch.ones(3, 2), torch.ones(3), 0, "at least one sample"),
    ],
)
def test_data_that_does_not_fit_is_refused(inputs: Tensor, targets: Tensor, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        minibatches(inputs, targets, size)


def test_empty_data_is_refused_instead_of_looping_for_ever() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="no samples"):
        minibatches(torch.ones(0, 2), torch.ones(0), 2)
    with pytest.raises(ValueError, match="an epoch gave no batch"):
        train(model, list, torch.optim.SGD(model.parameters(), 0.1), steps=3)
