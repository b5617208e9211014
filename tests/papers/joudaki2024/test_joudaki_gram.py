"""Chapter 3: Gram matrices with batch normalization, at finite width."""

import math

import pytest
import torch

from orthoscope_papers.evidence import Evidence
from orthoscope_papers.joudaki2024 import figure_3_1, figure_3_2, figure_3_3, figure_3_4, gram_chains
from papers.figures import drawn


@pytest.fixture(scope="module")
def rows_1() -> list[figure_3_1.Row]:
    return figure_3_1.run(figure_3_1.QUICK)


@pytest.fixture(scope="module")
def rows_2() -> list[figure_3_2.Row]:
    return figure_3_2.run(figure_3_2.QUICK)


@pytest.fixture(scope="module")
def rows_3() -> list[figure_3_3.Row]:
    return figure_3_3.run(figure_3_3.QUICK)


@pytest.fixture(scope="module")
def rows_4() -> list[figure_3_4.Row]:
    return figure_3_4.run(figure_3_4.QUICK)


def holds(checks: dict[str, bool]) -> None:
    assert all(checks.values()), [statement for statement, held in checks.items() if not held]


def verdicts(found: list[Evidence]) -> set[str]:
    return {row.verdict for row in found}


def can_fail(checks: dict[str, bool], *mutated: dict[str, bool]) -> None:
    """Every statement fails on one of the tables from which the effect was taken out."""
    assert not [name for name in checks if all(found[name] for found in mutated)]


def test_without_normalization_the_error_grows_and_with_batch_norm_it_stays(rows_1: list[figure_3_1.Row]) -> None:
    holds(figure_3_1.check(rows_1))
    assert verdicts(figure_3_1.compare(rows_1)) == {"agrees", "corrected"}
    drawn(figure_3_1.plot(rows_1))
    flat = [row._replace(distance=0.1) for row in rows_1]
    grown = [row._replace(distance=row.distance * math.sqrt(row.layer)) for row in rows_1]
    large = [row._replace(distance=2 * row.distance) for row in rows_1]
    can_fail(figure_3_1.check(rows_1), *map(figure_3_1.check, (flat, grown, large)))


def test_moments_of_the_plain_network_are_those_of_drawn_wishart_matrices() -> None:
    width, batch, depth, draws = 6, 3, 4, 40_000
    generator = torch.Generator().manual_seed(0)
    hidden = gram_chains.frame(batch, width).expand(draws, -1, -1)
    for _ in range(depth):
        weight = torch.randn(draws, width, width, generator=generator, dtype=torch.float64) / math.sqrt(width)
        hidden = hidden @ weight.mT
    squares = gram_chains.distance(hidden, torch.eye(batch, dtype=torch.float64)).square()
    error = float(squares.std()) / math.sqrt(draws)
    assert abs(float(squares.mean()) - figure_3_1.vanilla_distance(batch, width, depth) ** 2) < 4 * error
    assert error < 0.05 * float(squares.mean()), "the test must be able to tell"


def test_deviations_return_at_the_predicted_rate_to_the_predicted_level(rows_2: list[figure_3_2.Row]) -> None:
    holds(figure_3_2.check(rows_2))
    assert verdicts(figure_3_2.compare(rows_2)) == {"agrees", "corrected"}
    drawn(figure_3_2.plot(rows_2))
    stuck = [row._replace(distance=1.0, along=1.0) for row in rows_2]
    can_fail(figure_3_2.check(rows_2), figure_3_2.check(stuck))


def test_the_start_deviates_from_the_fixed_point_between_pairs_only() -> None:
    pattern = figure_3_2.pairs(10)
    assert float(pattern.norm()) == pytest.approx(1)
    assert float(pattern.sum(-1).abs().max()) < 1e-12
    assert float(pattern.diagonal().abs().max()) == 0
    start = gram_chains.gram(figure_3_2.start(10, 50))
    assert float(start[0, 1]) == pytest.approx(figure_3_2.OVERLAP)
    assert float(start[1, 2]) == pytest.approx(0)
    with pytest.raises(ValueError, match="even number"):
        figure_3_2.pairs(5)


def test_the_distance_falls_as_the_root_of_the_width(rows_3: list[figure_3_3.Row]) -> None:
    holds(figure_3_3.check(rows_3))
    assert verdicts(figure_3_3.compare(rows_3)) == {"agrees"}
    drawn(figure_3_3.plot(rows_3))
    level = [row._replace(distance=row.distance * math.sqrt(row.width)) for row in rows_3]
    assert not any(figure_3_3.check(level).values())
    assert "differs" in verdicts(figure_3_3.compare(level))


def test_the_distance_grows_with_the_batch_as_predicted_and_faster_if_linear(rows_4: list[figure_3_4.Row]) -> None:
    holds(figure_3_4.check(rows_4))
    assert verdicts(figure_3_4.compare(rows_4)) == {"differs"}
    drawn(figure_3_4.plot(rows_4))
    level = [row._replace(distance=row.distance / row.batch**1.5) for row in rows_4]
    assert not any(figure_3_4.check(level).values())


def test_power_is_the_exponent_of_a_power_law() -> None:
    assert gram_chains.power([1, 2, 8], [5.0, 5 * 2**-0.5, 5 * 8**-0.5]) == pytest.approx(-0.5)
