"""The sweep: its beginnings are balanced, rates are run as far as they can decide, and failures have no loss."""

import math
from collections import Counter
from dataclasses import replace

import pytest

from orthoscope_papers.calibration import trainability
from orthoscope_papers.calibration.families import FAMILIES
from orthoscope_papers.calibration.interventions import INTERVENTIONS, UNTOUCHED, Member, members
from orthoscope_papers.calibration.trainability import (
    FULL,
    QUICK,
    Config,
    Row,
    cells,
    final_loss,
    losses,
    reference_loss,
    run,
)

ROW = Row("mlp", UNTOUCHED, "sgd", 0, math.nan, 1.0, math.nan, 2.0, 0.5)


def test_there_are_more_than_600_members_and_every_one_meets_every_optimizer_once() -> None:
    assert len(members()) > 600
    seen = Counter((cell.families, cell.interventions, cell.optimizers) for cell in cells(FULL))
    assert set(seen.values()) == {1}
    assert len(seen) == 3 * len(members())


@pytest.mark.parametrize("share", [0.1, 0.2, 1 / 3, 0.7])
def test_any_beginning_of_the_sweep_is_balanced(share: float) -> None:
    order = cells(FULL)
    begun = order[: round(share * len(order))]
    whole, part = (Counter(cell.families[0] for cell in some) for some in (order, begun))
    assert all(abs(part[name] - share * whole[name]) <= 1.5 for name in FAMILIES)
    optimizers = Counter(cell.optimizers[0] for cell in begun)
    assert all(count == pytest.approx(len(begun) / 3, rel=0.1) for count in optimizers.values())
    whole, part = (Counter(cell.interventions[0] for cell in some) for some in (order, begun))
    for name in INTERVENTIONS:  # by a hash: five standard deviations of a binomial
        assert abs(part[name] - share * whole[name]) <= 5 * math.sqrt(whole[name] * share * (1 - share)) + 1


def test_the_default_setting_is_the_beginning_of_the_full_one() -> None:
    begun = cells(Config())
    assert begun == cells(FULL)[: len(begun)]
    assert len({(cell.families, cell.interventions) for cell in begun}) == len(begun) == len(members())


def test_the_best_rate_counts_and_a_training_that_diverged_learned_nothing() -> None:
    assert ROW.learned == pytest.approx(2 / 3)
    assert ROW.trains
    assert ROW._replace(loss_middle=1.3).trains is False
    assert ROW._replace(loss_low=9.0, loss_middle=math.inf, loss_high=0.6).best == 0.6
    assert ROW._replace(loss_middle=math.inf).learned == 0
    assert ROW._replace(loss_middle=3.0).learned == 0


def test_other_rates_are_run_only_where_they_can_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {3e-3: 1.0, 6e-4: 1.5, 1.5e-2: 0.9}
    asked: list[float] = []

    def final(member: Member, optimizer: str, rate: float, seed: int, steps: int) -> float:
        asked.append(rate)
        return ends[rate]

    monkeypatch.setattr(trainability, "final_loss", final)
    monkeypatch.setattr(trainability, "RATES", {"adamw": (6e-4, 3e-3, 1.5e-2)})
    member = Member("residual mlp", UNTOUCHED)
    guessing = member.task.guessing
    enough = losses(member, "adamw", 0, 10, reference=guessing - (guessing - 1.0) / 0.61)
    assert asked == [3e-3]
    assert enough[1] == 1.0
    assert math.isnan(enough[0])
    assert math.isnan(enough[2])
    assert losses(member, "adamw", 0, 10, reference=guessing - (guessing - 1.0) / 0.59) == (1.5, 1.0, 0.9)


def test_a_training_that_explodes_has_no_final_loss() -> None:
    assert final_loss(Member("residual mlp", UNTOUCHED), "sgd", 1e4, seed=0, steps=30) == math.inf


def test_a_sound_network_learns_and_one_without_way_for_the_gradient_learns_less() -> None:
    reference = reference_loss("residual mlp", "adamw", 0, 60)
    guessing = Member("residual mlp", UNTOUCHED).task.guessing
    assert reference < 0.5 * guessing
    shut = final_loss(Member("residual mlp", "dead biases"), "adamw", 3e-3, 0, 60)
    assert shut > reference


def test_the_quick_setting_repeats_itself_cell_by_cell() -> None:
    config = replace(
        QUICK, families=("residual mlp",), interventions=(UNTOUCHED, "softmax before the loss"), optimizers=("sgd",)
    )
    config = replace(config, steps=12)
    rows = run(config)
    parts = [row for cell in cells(config) for row in run(cell)]
    assert sorted(map(str, rows)) == sorted(map(str, parts))
    assert {row.seed for row in rows if row.intervention == UNTOUCHED} == {0, 1}
    assert trainability.check(rows)
    assert trainability.plot(rows)
    assert Config() != QUICK
