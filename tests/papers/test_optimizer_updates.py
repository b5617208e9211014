"""What optimizers do to angles: a quick run, its statistics, and the saved full run."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from orthoscope.data import load
from orthoscope.metrics import angle_change, parameter_independence
from orthoscope.models import MLP
from orthoscope.training import minibatches, train
from orthoscope_papers.lu2024.optimizer_updates import (
    OPTIMIZERS,
    QUICK,
    Config,
    Row,
    best_multiple,
    by_seed,
    cells,
    check,
    compare,
    hidden_weights,
    plot,
    random_defect,
    run,
    trajectory,
)
from orthoscope_papers.results import plain, read_meta, read_table
from papers.figures import drawn

SAVED = Path(__file__).parents[2] / "results" / "lu2024" / "optimizer_updates"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(QUICK)


def test_the_quick_run_finds_what_is_claimed(rows: list[Row]) -> None:
    assert all(check(rows).values()), [statement for statement, holds in check(rows).items() if not holds]


def test_every_check_can_fail(rows: list[Row]) -> None:
    conformal = [row._replace(defect=0.0, pii=row.pii_at_start, moved=1.0) for row in rows]
    names = {"SGD": "Adam", "Adam": "SGD", "Muon": "AdamW", "AdamW": "Muon"}
    exchanged = [row._replace(optimizer=names.get(row.optimizer, row.optimizer)) for row in rows]
    decayed = [row._replace(pii=1.0) if row.optimizer == "AdamW" else row for row in rows]
    seen = [check(table) for table in (conformal, exchanged, decayed)]
    assert all(any(not found[statement] for found in seen) for statement in check(rows))


def test_the_table_has_every_combination_once_and_sane_columns(rows: list[Row]) -> None:
    keys = {(r.optimizer, r.multiple, r.seed, r.step, r.layer) for r in rows}
    runs = len(OPTIMIZERS) * len(QUICK.multiples) * QUICK.num_seeds
    assert len(keys) == len(rows) == runs * len(QUICK.measured) * (QUICK.depth - 1)
    for row in rows:
        assert row.defect == pytest.approx(row.update_turned / row.update)
        assert 0 < row.unlike < math.sqrt(2 * row.width / (row.width - 1)) + 1e-9
        assert 0 < row.uneven < 1
        assert (row.moved, row.turned) == pytest.approx((row.update, row.update_turned)) or row.step > 1
        assert row.step < QUICK.measured[-1] or row.accuracy > 0.8, (
            "it must have learned for its weights to mean anything"
        )


def test_cells_joined_are_the_whole_run() -> None:
    short = dataclasses.replace(QUICK, width=16, multiples=(0.3, 1.0), measured=(1, 2), num_seeds=1)
    parts = cells(short)
    assert len(parts) == 2
    assert [row for part in parts for row in run(part)] == run(short)


def test_table_2_agrees_and_theorem_2_is_corrected_unless_optimizers_are_alike(rows: list[Row]) -> None:
    assert [each.verdict for each in compare(rows)] == ["agrees", "corrected"]
    alike = [row._replace(pii=row.pii_at_start, defect=0.1) for row in rows]
    assert [each.verdict for each in compare(alike)] == ["differs", "agrees"]


def test_all_optimizers_begin_alike_and_a_seed_repeats_itself() -> None:
    short = dataclasses.replace(QUICK, width=16, measured=(1, 3))
    losses = {name: trajectory(short, name, 1.0, 0)[0].loss for name in OPTIMIZERS}
    assert len(set(losses.values())) == 1
    assert trajectory(short, "Muon", 1.0, 0) == trajectory(short, "Muon", 1.0, 0)
    assert trajectory(short, "Muon", 1.0, 0)[-1].loss != trajectory(short, "Muon", 1.0, 1)[-1].loss


def test_rows_compare_with_the_start_and_with_the_step_before() -> None:
    """The weights after none, one and two steps, from three trainings of their own."""
    short = dataclasses.replace(QUICK, width=16, measured=(1, 2))
    data = load("digits", "train")
    weights = []
    for steps in range(3):
        model = MLP(depth=2, width=16, in_features=64, bias=True, generator=torch.Generator().manual_seed(0))
        batches = minibatches(data.inputs.flatten(1), data.labels, short.batch, torch.Generator().manual_seed(0))
        train(model, batches, torch.optim.SGD(model.parameters(), 0.3), steps=steps)
        weights += hidden_weights(model)
    start, before, after = weights
    row = trajectory(short, "SGD", 1.0, 0)[-1]
    assert row.step == 2
    assert row.pii == pytest.approx(float(parameter_independence(after)))
    assert row.pii_at_start == pytest.approx(float(parameter_independence(start)))
    assert row.moved == pytest.approx(float((after - start).norm() / start.norm()), rel=1e-5)
    assert row.turned == pytest.approx(float(angle_change(start, after)))
    assert row.update == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-5)
    assert row.update_turned == pytest.approx(float(angle_change(before, after)))


def test_the_best_rate_has_the_lowest_final_loss_and_numbers_are_averaged_over_layers_first(rows: list[Row]) -> None:
    row = rows[0]._replace(optimizer="SGD", multiple=1.0, seed=0, step=9, layer=0, loss=1.0, pii=0.25)
    table = [
        row,
        row._replace(layer=1, pii=0.75),
        row._replace(seed=1, pii=1.0),
        row._replace(multiple=3.0, loss=2.0),
        row._replace(multiple=3.0, step=1, loss=0.0),
    ]
    assert best_multiple(table, "SGD") == 1.0
    assert by_seed(table, "SGD", lambda row: row.pii, step=9) == [0.5, 1.0]
    assert random_defect(100) == pytest.approx(2 / math.sqrt(100 * math.pi))


def test_the_figure_is_one_document_with_every_optimizer_in_three_panels(rows: list[Row]) -> None:
    document = drawn(plot(rows))
    for name in OPTIMIZERS:
        assert document.count(f">{name}, learning rate") == 3
    assert [len(panel.series) for panel in plot(rows)] == 3 * [len(OPTIMIZERS)]


def test_the_saved_run_is_of_the_full_configuration_and_finds_what_is_claimed() -> None:
    meta, saved = read_meta(SAVED), read_table(SAVED, Row)
    assert meta["config"] == plain(Config())
    assert meta["seeds"] == list(range(Config().num_seeds))
    assert meta["checks"] == check(saved)
    assert all(check(saved).values())
    assert (SAVED / "figure.svg").read_text(encoding="utf-8") == drawn(plot(saved)), "drawn from the saved table"
    for file in SAVED.iterdir():
        assert not any(place in file.read_text(encoding="utf-8") for place in ("/home", "/tmp", "/work", "/root"))
