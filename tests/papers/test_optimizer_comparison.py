"""Optimizers compared: equal starts, data and budgets, a quick run, its statistics, and the saved full run."""

import dataclasses
import math
from itertools import combinations
from pathlib import Path

import pytest
import torch

from orthoscope_papers.ju2025.optimizer_comparison import (
    QUICK,
    best_rate,
    cells,
    check,
    compare,
    differences,
    final_losses,
    interval,
    plot,
    rates,
    run,
    summary,
)
from orthoscope_papers.ju2025.tuned_training import (
    CHOICE,
    COMPARISON,
    DIGITS,
    OPTIMIZERS,
    TASKS,
    TEXT,
    Config,
    Job,
    Row,
    SideBySide,
    batches,
    held_out,
    network,
    rising_and_falling,
    training,
)
from orthoscope_papers.results import plain, read_meta, read_table
from papers.figures import drawn

SAVED = Path(__file__).parents[2] / "results" / "ju2025" / "optimizer_comparison"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(QUICK)


def test_every_optimizer_has_as_many_trials_and_then_the_same_seeds(rows: list[Row]) -> None:
    for task in TASKS:
        for name in OPTIMIZERS:
            tried = final_losses(rows, task, name, CHOICE)
            assert [rate for rate, _ in tried] == list(rates(QUICK, name))
            assert len(tried) == len(QUICK.rates)
            compared = final_losses(rows, task, name, COMPARISON)
            assert list(compared) == [(best_rate(rows, task, name), seed) for seed in range(QUICK.num_seeds)]
            assert {seed for _, seed in tried}.isdisjoint(seed for _, seed in compared)
    assert len(rows) == 2 * len(OPTIMIZERS) * (len(QUICK.rates) + QUICK.num_seeds) * QUICK.evaluations


def test_the_quick_run_finds_what_is_claimed(rows: list[Row]) -> None:
    assert all(check(rows).values()), [statement for statement, holds in check(rows).items() if not holds]


def test_a_difference_is_worded_by_its_interval(rows: list[Row]) -> None:
    worse = [row._replace(loss=row.loss + 100 * (row.optimizer == "Muon")) for row in rows]
    assert {(each.verdict, each.why) for each in compare(worse)[:2]} == {("differs", "AdamW ends lower")}
    assert [(each.verdict, each.why.partition(";")[0]) for each in compare(worse)[2:]] == [
        ("differs", "torch's ends lower")
    ] * 2
    better = [row._replace(loss=row.loss - 100 * (row.optimizer == "Muon")) for row in rows]
    assert {each.why.partition(";")[0] for each in compare(better)[2:]} == {"ours ends lower"}
    on_digits, on_text, *_ = compare(rows)
    assert (on_digits.verdict, on_text.verdict) == ("differs", "agrees")
    assert on_digits.why.startswith("no difference is shown")


def test_every_optimizer_learns_at_its_best_rate(rows: list[Row]) -> None:
    for task, untrained in ((DIGITS, math.log(10)), (TEXT, math.log(128))):
        for name in OPTIMIZERS:
            assert max(final_losses(rows, task, name, COMPARISON).values()) < 0.9 * untrained


@pytest.mark.parametrize("task", TASKS)
def test_weights_and_batches_depend_on_the_seed_alone(task: str) -> None:
    first, again, other = (network(QUICK, task, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    for one, same, new in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, same)
        assert one.ndim < 2 or not torch.equal(one, new)
    first = [next(iter(batches(QUICK, task, torch.Generator().manual_seed(seed))())) for seed in (0, 0, 1)]
    assert torch.equal(first[0][0], first[1][0])
    assert not torch.equal(first[0][0], first[2][0])


def test_the_text_is_shown_beside_itself_one_character_later() -> None:
    for inputs, targets in (
        next(batches(QUICK, TEXT, torch.Generator().manual_seed(0))()),
        held_out(QUICK, TEXT, COMPARISON),
    ):
        assert inputs.shape == targets.shape
        assert inputs.shape[1] == QUICK.length
        assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_what_is_trained_on_and_the_two_judges_share_no_digit() -> None:
    epoch = list(batches(QUICK, DIGITS, torch.Generator().manual_seed(0))())
    parts = [torch.cat([inputs for inputs, _ in epoch]), *(held_out(QUICK, DIGITS, s)[0] for s in (CHOICE, COMPARISON))]
    assert [len(part) for part in parts] == [1197, 240, 360]
    kinds = [{tuple(sample.tolist()) for sample in part} for part in parts]
    assert all(one.isdisjoint(other) for one, other in combinations(kinds, 2))


def test_the_rate_rises_for_a_tenth_and_falls_to_zero() -> None:
    course = [rising_and_falling(taken, 100) for taken in range(101)]
    assert course[0] == pytest.approx(0.1)
    assert max(course) == course[9] == course[10] == 1
    assert course[55] == pytest.approx(0.5)
    assert course[100] == 0


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_schedule_reaches_every_parameter(name: str) -> None:
    model = network(QUICK, TEXT, torch.Generator().manual_seed(0))
    optimizer = OPTIMIZERS[name](model, 0.01)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(held) == len({id(p) for p in held}) == len(list(model.parameters()))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [p.detach().clone() for p in model.parameters()]
    inputs, _ = held_out(QUICK, TEXT, CHOICE)
    model(inputs[:2]).square().mean().backward()
    optimizer.step(lambda: 1.0)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_side_by_side_is_each_part_on_its_own_parameters() -> None:
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    both = SideBySide(torch.optim.SGD([first], lr=0.5), torch.optim.SGD([second], lr=0.25))
    first.grad = second.grad = torch.ones(2)
    assert both.step(lambda: 3.0) == 3.0
    assert first.tolist() == [0.5, 0.5]
    assert second.tolist() == [0.75, 0.75]


def test_a_diverged_training_is_infinite_to_its_end() -> None:
    short = dataclasses.replace(QUICK, digits_steps=20)
    losses = [row.loss for row in training(short, Job(DIGITS, "SGD", 1e6, CHOICE, 0))]
    assert losses == [math.inf, math.inf]


def test_differences_are_paired_by_seed_and_intervals_are_students() -> None:
    table = [
        Row(DIGITS, name, 0.1, COMPARISON, seed, 5, loss + seed)
        for name, loss in (("Muon", 1.0), ("AdamW", 1.5))
        for seed in range(3)
    ]
    assert differences(table, DIGITS, "Muon", "AdamW") == [-0.5, -0.5, -0.5]
    # 4.302653 is the 97.5% point of Student's distribution of two degrees of freedom.
    reach = 4.302653 / math.sqrt(3)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2 - reach, 2 + reach), rel=1e-6)
    assert interval([1.0, math.inf]) == (-math.inf, math.inf)


def test_a_cell_is_a_task_with_an_optimizer_and_finds_what_the_whole_finds(rows: list[Row]) -> None:
    parts = cells(QUICK)
    assert [(*part.tasks, *part.optimizers) for part in parts] == [
        (task, name) for task in TASKS for name in OPTIMIZERS
    ]
    assert run(parts[1]) == [row for row in rows if (row.task, row.optimizer) == (TASKS[0], list(OPTIMIZERS)[1])]


def test_every_check_can_fail(rows: list[Row]) -> None:
    """At the edge of the rates, diverged, and with one optimizer far ahead of all others."""
    edge = [row._replace(loss=row.learning_rate) for row in rows]
    diverged = [row._replace(loss=math.inf) for row in rows]
    seen = [check(edge), check(diverged)]
    for winner in ("Muon", "SGD"):
        seen.append(check([row._replace(loss=row.loss - 100 * (row.optimizer == winner)) for row in rows]))
    assert all(any(not found[statement] for found in seen) for statement in check(rows))


def test_the_figure_is_one_document_with_every_optimizer_in_a_panel_a_task(rows: list[Row]) -> None:
    for table in (rows, [row._replace(loss=math.inf) if row.optimizer == "SGD" else row for row in rows]):
        document = drawn(plot(table))
        for name in OPTIMIZERS:
            assert document.count(f">{name}, learning rate ") == 2


def test_the_saved_run_is_of_the_full_configuration_and_finds_what_is_claimed() -> None:
    meta, saved = read_meta(SAVED), read_table(SAVED, Row)
    assert meta["config"] == plain(Config())
    assert meta["seeds"] == list(range(Config().num_seeds))
    assert meta["checks"] == check(saved)
    assert all(check(saved).values())
    assert len(summary(saved)) == 2 * len(OPTIMIZERS)
    assert (SAVED / "figure.svg").read_text(encoding="utf-8") == drawn(plot(saved)), "drawn from the saved table"
    for file in SAVED.iterdir():
        assert not any(place in file.read_text(encoding="utf-8") for place in ("/home", "/tmp", "/work", "/root"))
