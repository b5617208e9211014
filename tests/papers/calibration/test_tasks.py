"""Tasks repeat themselves from a seed, and what guessing costs is the loss of the best constant."""

from itertools import islice

import pytest
import torch

from orthoscope_papers.calibration.tasks import HIDDEN, LENGTH, MASK, SIZE, TASKS, Task

pytestmark = pytest.mark.usefixtures("without_data")
tasks = pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)


@tasks
def test_batches_are_those_of_the_seed_and_of_nothing_else(task: Task) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, second = next(task.batches(0)), next(task.batches(0))
    assert all(torch.equal(a, b) for a, b in zip(first.args, second.args, strict=True))
    assert torch.equal(first.target, second.target)
    assert not torch.equal(first.args[0], next(task.batches(1)).args[0])
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(len(tensor) == SIZE for tensor in (*first.args, first.target))


@pytest.mark.parametrize("name", ["digits", "next characters", "pairs", "foreground", "noise", "masked text"])
def test_no_constant_is_better_than_guessing(name: str) -> None:
    """A constant is optimized on the very batches from which the cost of guessing was taken."""
    task = TASKS[name]
    batches = list(islice(task.batches(0), 64))
    width = {"digits": (10,), "next characters": (LENGTH, 100), "masked text": (LENGTH, 100), "pairs": ()}.get(
        name, tuple(batches[0].target.shape[1:])
    )
    shared = width[-1:] if task.classifies else width
    constant = torch.zeros(shared, requires_grad=True)
    optimizer = torch.optim.LBFGS([constant], max_iter=60, line_search_fn="strong_wolfe")
    target = torch.cat([batch.target for batch in batches])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = task.loss(constant.expand(len(target), *width), target)
        value.backward()
        return value

    optimizer.step(closure)
    best = float(task.loss(constant.detach().expand(len(target), *width), target))
    assert task.guessing == pytest.approx(best, rel=2e-3)


def test_characters_are_masked_or_shown() -> None:
    batch = next(TASKS["masked text"].batches(0))
    hidden = batch.args[0] == MASK
    assert torch.equal(batch.args[0][~hidden], batch.target[~hidden])
    assert hidden.float().mean() == pytest.approx(HIDDEN, abs=0.05)


def test_the_decoder_goes_on_where_the_encoder_ends() -> None:
    source, given = next(TASKS["continued text"].batches(0)).args
    assert torch.equal(source[:, -1], given[:, 0])
    assert torch.equal(given[:, 1:], next(TASKS["continued text"].batches(0)).target[:, :-1])


def test_half_of_the_pairs_are_of_one_class() -> None:
    target = torch.cat([batch.target for batch in islice(TASKS["pairs"].batches(0), 4)])
    assert target.mean() == pytest.approx(0.5, abs=0.02)


def test_the_distance_of_equal_distributions_is_zero_and_of_others_is_not() -> None:
    loss = TASKS["images from noise"].loss
    generator = torch.Generator().manual_seed(0)
    same = [loss(*torch.randn(2, 32, 64, generator=generator)) for _ in range(40)]
    assert float(torch.stack(same).mean()) == pytest.approx(0, abs=0.01)
    shifted = torch.randn(2, 32, 64, generator=generator)
    assert float(loss(shifted[0] + 1, shifted[1])) > 0.3
