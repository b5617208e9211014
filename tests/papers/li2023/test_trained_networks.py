"""Alignment of trained networks: quick runs find what is claimed, and no check survives rows without the effect."""

import dataclasses
import math

import pytest
import torch

from orthoscope_papers.experiments import Experiment, load
from orthoscope_papers.li2023.alignment_checks import datasets, gained, values
from orthoscope_papers.li2023.trained_networks import ENTRY, LEADING, PAIR, SCORES, Row, _plane, cells, run
from papers.figures import drawn

SHORT = {"images": 60, "batch": 20, "steps": 4, "samples": 2, "seeds": (0, 1)}
Found = tuple[Experiment, list[Row]]


@pytest.fixture(scope="module", params=["fully_connected", "convolutional", "down_sampling"])
def found(request: pytest.FixtureRequest) -> Found:
    experiment = load(f"li2023/{request.param}")
    return experiment, experiment.run(experiment.settings["quick"])


def test_a_quick_run_finds_what_is_claimed(found: Found) -> None:
    experiment, rows = found
    checks = experiment.check(rows)
    assert all(checks.values()), [statement for statement, held in checks.items() if not held]
    for evidence in experiment.compare(rows):
        assert evidence.low <= evidence.ours <= evidence.high
        assert evidence.verdict == "agrees" or evidence.why


def test_the_figure_is_drawn_from_rows_alone(found: Found) -> None:
    experiment, rows = found
    panels = experiment.plot(rows)
    assert len(panels) == 4 * len(datasets(rows)) + 4
    drawn(panels)


def without_training(rows: list[Row]) -> list[Row]:
    """Every trained network gets the numbers of the same one before training."""
    before = {(r.data, r.skip, r.seed, r.quantity, r.block, r.other): r.value for r in rows if not r.trained}
    return [
        row._replace(value=before.get((row.data, row.skip, row.seed, row.quantity, row.block, row.other), row.value))
        for row in rows
    ]


def without_skips(rows: list[Row]) -> list[Row]:
    """Every network with skips gets the numbers of the one without."""
    bare = {(r.data, r.trained, r.seed, r.quantity, r.block, r.other): r.value for r in rows if not r.skip}
    return [
        row._replace(value=bare.get((row.data, row.trained, row.seed, row.quantity, row.block, row.other), row.value))
        for row in rows
    ]


def test_no_check_survives_networks_that_training_or_skips_did_not_change(found: Found) -> None:
    experiment, rows = found
    untrained, bare = experiment.check(without_training(rows)), experiment.check(without_skips(rows))
    survived = [name for name in untrained if untrained[name] and bare[name]]
    assert not survived
    trained = [name for name in untrained if "skips" not in name and "even" not in name]
    assert not any(untrained[name] for name in trained)
    assert not any(bare[name] for name in bare if "skips" in name)


def test_a_single_dataset_without_the_effect_is_enough_to_fail(found: Found) -> None:
    experiment, rows = found
    other = [row._replace(data="another") for row in without_training(rows)]
    failed = [name for name, held in experiment.check([*rows, *other]).items() if not held]
    assert any("RA1" in name for name in failed)
    assert any("RA3" in name for name in failed)


def test_the_table_has_every_score_and_pictures_of_one_seed(found: Found) -> None:
    experiment, rows = found
    config = experiment.settings["quick"]
    networks = len(config.data) * len(config.skips) * len(config.seeds)
    for quantity in SCORES:
        times = 1 if quantity == "loss" else 2
        assert len([row for row in rows if row.quantity == quantity]) == times * networks, quantity
    depth = sum(config.blocks)
    assert len([row for row in rows if row.quantity == LEADING]) == 2 * networks * depth
    assert len([row for row in rows if row.quantity == PAIR]) == 2 * depth**2
    assert len([row for row in rows if row.quantity == ENTRY]) == 2 * (depth * config.shown) ** 2
    assert {(row.skip, row.seed) for row in rows if row.quantity in (PAIR, ENTRY)} == {(1, 0)}


def test_cells_joined_are_the_whole_run() -> None:
    config = dataclasses.replace(load("li2023/fully_connected").settings["quick"], blocks=(3,), width=16, **SHORT)
    parts = [row for cell in cells(config) for row in run(cell)]
    whole = run(config)
    assert len(parts) == len(whole)
    for one, other in zip(parts, whole, strict=True):
        assert one == other or (math.isnan(one.value) and math.isnan(other.value))


def test_differences_are_taken_seed_by_seed() -> None:
    rows = [
        Row("d", skip, seed, trained, "step_cosine", 0, 0, value)
        for skip, trained, found in ((1, 1, (0.5, 0.9)), (1, 0, (0.0, 0.4)), (0, 1, (-0.5, -0.1)))
        for seed, value in enumerate(found)
    ]
    assert values(rows, "d", "step_cosine", trained=False) == [0.0, 0.4]
    assert gained(rows, "d", "step_cosine") == pytest.approx((0.5, 0.5, 0.5))
    assert gained(rows, "d", "step_cosine", over_no_skip=True) == pytest.approx((1.0, 1.0, 1.0))


def test_a_straight_path_lies_on_the_first_axis_from_zero_to_one() -> None:
    direction = torch.randn(2, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    flat = _plane([step * direction for step in range(5)])
    assert [first for first, _ in flat] == pytest.approx([0, 0.25, 0.5, 0.75, 1], abs=1e-4)
    assert [second for _, second in flat] == pytest.approx([0] * 5, abs=1e-4)
