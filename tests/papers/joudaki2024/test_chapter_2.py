"""Figure 2.3: where assumption A1 holds, and that the phase diagram could have come out otherwise."""

import pytest
import torch

from orthoscope_papers.joudaki2024 import figure_2_3
from orthoscope_papers.joudaki2024.figure_2_3 import Row
from papers.figures import drawn


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return figure_2_3.run(figure_2_3.QUICK)


def test_the_quick_run_shows_the_claim(rows: list[Row]) -> None:
    checks = figure_2_3.check(rows)
    assert all(checks.values()), [statement for statement, holds in checks.items() if not holds]
    drawn(figure_2_3.plot(rows))


def test_the_square_is_reproduced_and_told_from_the_first_power_and_the_cube(rows: list[Row]) -> None:
    (exponent,) = figure_2_3.compare(rows)
    assert exponent.verdict == "agrees"
    for power in (1, 3):
        other = [row._replace(of_layers=row.of_input * (row.width >= 12 * (row.batch / 6) ** power)) for row in rows]
        assert figure_2_3.compare(other)[0].verdict == "differs"


def test_the_curve_of_the_thesis_is_compared_only_where_it_is_drawn() -> None:
    table = [
        Row(batch, width, 0, 1.0, float(width >= needed))
        for batch, needed in {24: 512, 38: 64, 48: 512}.items()
        for width in (32, 64, 128, 256, 512)
    ]
    _, *needed = figure_2_3.compare(table)
    assert [each.printed for each in needed] == pytest.approx([10**1.8, 20**1.8])
    assert [each.verdict for each in needed] == ["agrees", "differs"]


def test_the_checks_fail_where_independence_is_never_or_always_lost(rows: list[Row]) -> None:
    fails, holds, *_ = figure_2_3.check([row._replace(of_layers=row.of_input) for row in rows]).values()
    assert (fails, holds) == (False, True)
    linear = [row._replace(of_layers=row.of_input * (row.width >= 3 * row.batch)) for row in rows]
    assert list(figure_2_3.check(linear).values())[2:] == [False, False]


def test_the_width_needed_is_where_every_wider_network_holds_in_every_run() -> None:
    table = [
        Row(2, width, seed, 1.0, low)
        for width, lows in {4: (1, 1), 8: (1, 0), 16: (1, 1)}.items()
        for seed, low in enumerate(map(float, lows))
    ]
    assert figure_2_3.widths_needed(table) == {2: 16}
    assert figure_2_3.holding(table, 2, 8) == 0.5
    assert figure_2_3.holding(table, 2, 5) is None


def test_the_weakest_energy_is_the_square_of_the_smallest_singular_value() -> None:
    hidden = torch.randn(3, 4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(hidden)
    expected = values[:, -1].square() / values.square().sum(-1)
    assert torch.allclose(figure_2_3.weakest_energy(hidden), expected)


def test_the_cells_joined_are_the_run() -> None:
    config = figure_2_3.Config(batches=(2, 4), widths=(4, 6), depth=5, seeds=(0, 1))
    assert [row for cell in figure_2_3.cells(config) for row in figure_2_3.run(cell)] == figure_2_3.run(config)
