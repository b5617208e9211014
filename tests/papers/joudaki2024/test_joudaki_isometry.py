"""Chapter 4: isometry as a volume, and what normalization does to it."""

import math

import pytest
import torch

from orthoscope_papers.joudaki2024 import figure_4_1, isometry_of_normalization
from papers.figures import drawn


@pytest.fixture(scope="module")
def volumes() -> list[figure_4_1.Row]:
    return figure_4_1.run(figure_4_1.QUICK)


@pytest.fixture(scope="module")
def batches() -> list[isometry_of_normalization.Row]:
    return isometry_of_normalization.run(isometry_of_normalization.QUICK)


def test_isometry_is_a_root_of_the_volume_over_the_mean_square(volumes: list[figure_4_1.Row]) -> None:
    checks = figure_4_1.check(volumes)
    assert all(checks.values()), checks
    assert {row.verdict for row in figure_4_1.compare(volumes)} == {"agrees", "corrected"}
    drawn(figure_4_1.plot(volumes))
    halved = [row._replace(isometry=row.isometry / 2) for row in volumes]
    assert not any(figure_4_1.check(halved).values())


def test_two_vectors_by_hand() -> None:
    r"""Lengths 1 and 2 at 30 degrees: $2 \cdot 2 \cdot \tfrac12/5$."""
    gram = figure_4_1.gram_of(2, 2.0, 30)
    assert gram.tolist() == [[1.0, pytest.approx(math.sqrt(3))], [pytest.approx(math.sqrt(3)), 4.0]]
    assert 2 * figure_4_1.text_ratio(2.0, 30) == pytest.approx(0.4)


def test_normalization_multiplies_isometry_by_what_the_lengths_say(
    batches: list[isometry_of_normalization.Row],
) -> None:
    checks = isometry_of_normalization.check(batches)
    assert all(checks.values()), [statement for statement, held in checks.items() if not held]
    assert {row.verdict for row in isometry_of_normalization.compare(batches)} == {"agrees", "corrected"}
    drawn(isometry_of_normalization.plot(batches))


def test_every_statement_about_normalization_can_fail(batches: list[isometry_of_normalization.Row]) -> None:
    unchanged = [row._replace(gap_after=row.gap_before) for row in batches]
    equal = [row._replace(log_bound=row.log_gain) for row in batches]
    always = [row._replace(gap_before=row.gap_after + row.log_printed + 1) for row in batches]
    seen = [isometry_of_normalization.check(table) for table in (unchanged, equal, always)]
    assert not [name for name in seen[0] if all(found[name] for found in seen)]


def test_centering_is_seen_by_the_centering_norms_only(batches: list[isometry_of_normalization.Row]) -> None:
    for row in batches:
        assert (row.gap_centered == row.gap_before) is (row.norm in ("rms", "batch-uncentered"))


def test_a_batch_of_digits_is_in_the_unit_interval() -> None:
    config = isometry_of_normalization.QUICK
    batch = isometry_of_normalization.batch_of("digits", 4, config, torch.Generator().manual_seed(0))
    assert batch.shape == (4, 64)
    assert 0 <= float(batch.min()) < float(batch.max()) <= 1
