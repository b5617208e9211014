"""Figures 1, 2a, 2b and 6: the claims on a quick run, and that each check can fail."""

import math
import statistics
from types import ModuleType
from typing import Any

import pytest
import torch

from orthoscope.metrics.representations import gram_gap, gram_overlap
from orthoscope_papers.daneshmand2021 import figure_1, figure_2a, figure_2b, figure_6
from papers.figures import drawn

MODULES = [figure_1, figure_2a, figure_2b, figure_6]
Tables = dict[ModuleType, list[Any]]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return {module: module.run(module.QUICK) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_the_quick_run_shows_the_claim(module: ModuleType, tables: Tables) -> None:
    checks = module.check(tables[module])
    assert all(checks.values()), [statement for statement, holds in checks.items() if not holds]
    drawn(module.plot(tables[module]))
    assert module.compare(tables[module])


def test_cosines_of_figure_1_are_those_of_the_picture(tables: Tables) -> None:
    assert {each.verdict for each in figure_1.compare(tables[figure_1])} == {"agrees"}
    shifted = [row._replace(cosine=row.cosine + 0.3) for row in tables[figure_1]]
    assert "differs" in {each.verdict for each in figure_1.compare(shifted)}


def test_figure_1_needs_batch_norm_to_lower_and_its_absence_to_raise_the_cosine(tables: Tables) -> None:
    frozen = {(row.network, row.seed): (row.cosine, row.log_sine) for row in tables[figure_1] if row.layer == 1}
    still = [
        row._replace(cosine=frozen[row.network, row.seed][0], log_sine=frozen[row.network, row.seed][1])
        for row in tables[figure_1]
    ]
    assert not any(figure_1.check(still).values())


def test_the_floor_of_two_samples_is_the_half_normal_mean_of_their_gap() -> None:
    """For two samples E V² = (1/2)(16)/(12 d), and the cosine is Gaussian of that variance."""
    assert figure_1.floor(32) == pytest.approx(math.sqrt(2 / math.pi * 16 / (24 * 32)))


def test_figure_2a_fails_without_the_fall_and_without_the_effect_of_width(tables: Tables) -> None:
    rows = tables[figure_2a]
    still = [row._replace(gap=math.sqrt(3 / 4)) for row in rows]
    starts, *others = figure_2a.check(still).values()
    assert starts
    assert others == [False, False, False] or others == [True, False, False]
    narrow = {(row.seed, row.layer): row.gap for row in rows if row.width == figure_2a.QUICK.widths[0]}
    same = [row._replace(gap=narrow[row.seed, row.layer]) for row in rows]
    assert not list(figure_2a.check(same).values())[-1]


def test_figure_2a_settles_at_the_level_read_off_the_paper() -> None:
    rows = figure_2a.run(figure_2a.Config(widths=(32, 512), seeds=tuple(range(8))))
    narrow, wide = (statistics.fmean(figure_2a.plateaus(rows, width)) for width in (32, 512))
    assert narrow == pytest.approx(-1.63, abs=0.08)
    assert wide == pytest.approx(-3.03, abs=0.08)


def test_the_offset_of_the_notebook_does_not_change_the_slope_but_another_power_does(tables: Tables) -> None:
    rows = tables[figure_2b]
    offset = [row._replace(mean_gap=row.mean_gap / 20) for row in rows]
    for layers in figure_2b.RANGES:
        assert figure_2b.slopes(offset, layers) == pytest.approx(figure_2b.slopes(rows, layers))
    inverse = [row._replace(mean_gap=row.mean_gap**2) for row in rows]
    assert not any(list(figure_2b.check(inverse).values())[:2])
    swapped = {figure_2b.PAPER: figure_2b.THESIS, figure_2b.THESIS: figure_2b.PAPER}
    assert not list(figure_2b.check([row._replace(layers=swapped[row.layers]) for row in rows]).values())[2]


def test_figure_2b_gives_its_verdict_by_the_errors(tables: Tables) -> None:
    of_paper, of_thesis = figure_2b.compare(tables[figure_2b])
    assert (of_paper.printed, of_thesis.printed) == (-0.46, None)
    assert of_paper.low < of_paper.ours < of_paper.high
    steep = [row._replace(mean_gap=row.mean_gap**2) for row in tables[figure_2b]]
    assert [each.verdict for each in figure_2b.compare(steep)] == ["differs", "differs"]


def test_figure_6_with_one_activation_under_every_label_is_found_out(tables: Tables) -> None:
    """What the notebook drew."""
    rows = tables[figure_6]
    sine = {(row.width, row.seed): row for row in rows if row.activation == "sin"}
    slipped = [sine[row.width, row.seed]._replace(activation=row.activation) for row in rows]
    law, alike, half, two_thirds, _, not_orthogonal = figure_6.check(slipped).values()
    assert (law, alike) == (True, True)
    assert (half, two_thirds, not_orthogonal) == (False, False, False)
    assert {each.verdict for each in figure_6.compare(slipped)} == {"agrees"}


def test_figure_6_notices_a_scatter_that_does_not_fall_with_the_width(tables: Tables) -> None:
    constant = [row._replace(deviation=0.1 + 0.001 * row.seed) for row in tables[figure_6]]
    assert not next(iter(figure_6.check(constant).values()))
    assert "differs" in {each.verdict for each in figure_6.compare(constant)}
    verdicts = [each.verdict for each in figure_6.compare(tables[figure_6])]
    assert verdicts == ["agrees"] * 5 + ["corrected"] * 2


def test_a_layer_of_figure_6_has_the_law_of_one_with_weights() -> None:
    """Against W drawn and multiplied: mean and spread of the deviation after 5 layers, for ReLU."""
    # Wide enough that no sample has all its units below zero: such a one has no angle to another.
    batch, width, layers, runs = 3, 24, 5, 600
    config = figure_6.Config(("relu",), (width,), batch, layers, tuple(range(runs)))
    *_, fast = figure_6.gram_matrices("relu", width, config)
    source = torch.Generator().manual_seed(1)
    slow = []
    for _ in range(runs):
        rows = torch.randn(width, batch, generator=source, dtype=torch.float64)
        for _ in range(layers):
            rows = torch.randn(width, width, generator=source, dtype=torch.float64) @ rows.relu()
            rows = rows / rows.norm(dim=1, keepdim=True)
        slow.append(rows.T @ rows / width)
    for measure in (gram_gap, gram_overlap):
        first, second = measure(fast), measure(torch.stack(slow))
        error = ((first.var() + second.var()) / runs).sqrt()
        assert abs(first.mean() - second.mean()) < 4 * error
        assert abs(first.std() / second.std() - 1) < 0.15


def test_the_cells_of_figure_6_joined_are_its_run() -> None:
    config = figure_6.Config(widths=(16, 32), layers=30, seeds=(0, 1))
    assert [row for cell in figure_6.cells(config) for row in figure_6.run(cell)] == figure_6.run(config)
