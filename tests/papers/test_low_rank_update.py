"""Low-rank fine-tuning and orthogonality: a quick run, its statistics, and the saved full run."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from orthoscope.models import MLP
from orthoscope_papers.lu2024.low_rank_update import (
    NETWORKS,
    QUICK,
    WHOLE,
    Config,
    Row,
    cells,
    check,
    compare,
    fine_tuned,
    hidden_layers,
    interval,
    plot,
    rises,
    run,
)
from orthoscope_papers.results import plain, read_meta, read_table
from papers.figures import drawn

SAVED = Path(__file__).parents[2] / "results" / "lu2024" / "low_rank_update"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(QUICK)


def test_the_quick_run_finds_what_is_claimed(rows: list[Row]) -> None:
    assert all(check(rows).values()), [statement for statement, holds in check(rows).items() if not holds]


def test_every_check_can_fail(rows: list[Row]) -> None:
    untouched = [row._replace(pii_after=row.pii_before, pii_drawn=0.0) for row in rows]
    ruined = [row._replace(pii_after=1.0) for row in rows]
    seen = [check(table) for table in (untouched, ruined)]
    assert all(any(not found[statement] for found in seen) for statement in check(rows))


def test_the_table_has_every_combination_once_and_sane_columns(rows: list[Row]) -> None:
    keys = {(r.network, r.rank, r.learning_rate, r.seed, r.layer) for r in rows}
    methods = (len(QUICK.ranks) + 1) * len(QUICK.learning_rates)
    assert len(keys) == len(rows) == len(NETWORKS) * methods * QUICK.num_seeds * (QUICK.depth - 1)
    for row in rows:
        assert 0 <= row.pii_before <= 1
        assert 0 < row.pii_after <= 1
        assert row.relative_update > 0
        assert row.accuracy > 0.3, "it must have learned something for its weights to mean anything"
        if row.network.startswith("orthogonal"):
            assert row.pii_drawn < 1e-6


@pytest.mark.parametrize("rank", [2, WHOLE])
def test_fine_tuning_leaves_the_original_and_updates_by_the_rank(rank: int) -> None:
    tiny = dataclasses.replace(QUICK, width=16, steps=5)
    model = MLP(depth=3, width=16, in_features=64, bias=True, generator=torch.Generator().manual_seed(0))
    before = [layer.weight.detach().clone() for layer in hidden_layers(model)]
    tuned = fine_tuned(model, tiny, rank, 1e-2, torch.Generator().manual_seed(0))
    assert len(before) == 2
    for old, kept, new in zip(before, hidden_layers(model), hidden_layers(tuned), strict=True):
        assert torch.equal(kept.weight, old)
        moved = torch.linalg.matrix_rank((new.weight - old).detach().double(), rtol=1e-5)
        assert moved == 2 if rank == 2 else moved > 2


def test_cells_joined_are_the_whole_run() -> None:
    short = dataclasses.replace(QUICK, width=16, ranks=(2,), steps=2, num_seeds=1)
    parts = cells(short)
    assert len(parts) == len(short.learning_rates)
    assert [row for part in parts for row in run(part)] == run(short)


def test_a_large_update_is_corrected_and_an_idle_one_is_not(rows: list[Row]) -> None:
    assert [each.verdict for each in compare(rows)] == ["agrees", "corrected"]
    idle = [row._replace(pii_after=row.pii_before) for row in rows]
    assert [each.verdict for each in compare(idle)] == ["agrees", "agrees"]
    ruined = [row._replace(pii_after=1.0) for row in rows]
    assert compare(ruined)[0].verdict == "differs"


def test_rises_average_layers_first_and_intervals_are_of_seeds() -> None:
    row = Row("Gaussian", 128, 4, 0.1, 0, 0, 0.0, 0.25, 0.5, 1.0, 1.0)
    table = [row, row._replace(layer=1, pii_after=1.0), row._replace(seed=1, pii_after=0.75), row._replace(rank=1)]
    assert rises(table, "Gaussian", 4, 0.1) == [0.5, 0.5]
    low, high = interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 3 / math.sqrt(3), 2 + 3 / math.sqrt(3)))


def test_the_figure_is_one_document_with_a_panel_a_network(rows: list[Row]) -> None:
    document = drawn(plot(rows))
    for network in NETWORKS:
        assert f">Start: {network}<" in document
    assert document.count(">random vectors<") == len(NETWORKS)


def test_the_saved_run_is_of_the_full_configuration_and_finds_what_is_claimed() -> None:
    meta, saved = read_meta(SAVED), read_table(SAVED, Row)
    assert meta["config"] == plain(Config())
    assert meta["seeds"] == list(range(Config().num_seeds))
    assert meta["checks"] == check(saved)
    assert all(check(saved).values())
    assert (SAVED / "figure.svg").read_text(encoding="utf-8") == drawn(plot(saved)), "drawn from the saved table"
    for file in SAVED.iterdir():
        assert not any(place in file.read_text(encoding="utf-8") for place in ("/home", "/tmp", "/work", "/root"))
