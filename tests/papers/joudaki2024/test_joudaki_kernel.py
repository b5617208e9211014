"""Chapter 5: kernel maps, Hermite polynomials and where overlaps go."""

import pytest
import torch

from orthoscope_papers.joudaki2024 import figure_5_1, figure_5_2, overlap_chains, table_5_1, table_5_2
from papers.figures import drawn


@pytest.fixture(scope="module")
def custom() -> list[overlap_chains.Row]:
    return figure_5_1.run(figure_5_1.QUICK)


@pytest.fixture(scope="module")
def common() -> list[overlap_chains.Row]:
    return figure_5_2.run(figure_5_2.QUICK)


@pytest.fixture(scope="module")
def hermite() -> list[table_5_1.Row]:
    return table_5_1.run(table_5_1.QUICK)


@pytest.fixture(scope="module")
def properties() -> list[table_5_2.Row]:
    return table_5_2.run(table_5_2.QUICK)


def holds(checks: dict[str, bool]) -> None:
    assert all(checks.values()), [statement for statement, held in checks.items() if not held]


def test_custom_activations_go_to_their_fixed_points(custom: list[overlap_chains.Row]) -> None:
    holds(figure_5_1.check(custom))
    corrected = [row for row in figure_5_1.compare(custom) if row.verdict == "corrected"]
    assert [row.why for row in corrected] == [f"erratum joudaki2024-theorem-5.11-case-{case}" for case in (1, 4)]
    drawn(figure_5_1.plot(custom))


def test_activations_in_use_go_to_the_fixed_points_of_their_true_cases(common: list[overlap_chains.Row]) -> None:
    holds(figure_5_2.check(common))
    (relu,) = [row for row in figure_5_2.compare(common) if row.quantity == "case of relu"]
    assert (relu.printed, relu.ours, relu.verdict) == (2, 3, "corrected")
    drawn(figure_5_2.plot(common))


def test_overlaps_that_stay_or_vanish_at_once_are_refused(
    custom: list[overlap_chains.Row], common: list[overlap_chains.Row]
) -> None:
    for rows, module in ((custom, figure_5_1), (common, figure_5_2)):
        # A little of the seed is left, or there would be no standard error.
        stuck = [row._replace(overlap=row.start + 1e-6 * row.seed) for row in rows]
        gone = [row._replace(overlap=1e-6 * row.seed) for row in rows]
        failed = {name for table in (stuck, gone) for name, held in module.check(table).items() if not held}
        measured = [name for name in module.check(rows) if "case" not in name or "bound" in name]
        assert failed >= set(measured)


def test_custom_kernel_maps_are_the_polynomials_they_are_named_after() -> None:
    overlap = torch.linspace(-1, 1, 9, dtype=torch.float64)
    expected = [
        (9 * overlap + overlap**3) / 10,
        (6 + 3 * overlap + overlap**2) / 10,
        (1 + overlap).square() / 4,
        (2 + 3 * overlap**2) / 5,
    ]
    for name, values in zip(overlap_chains.CUSTOM, expected, strict=True):
        assert torch.allclose(overlap_chains.kernel_of(name)(overlap), values, atol=1e-12)


def test_hermite_polynomials_are_as_printed_and_orthonormal(hermite: list[table_5_1.Row]) -> None:
    holds(table_5_1.check(hermite))
    assert {row.verdict for row in table_5_1.compare(hermite)} == {"agrees"}
    drawn(table_5_1.plot(hermite))
    wrong = [row._replace(printed=row.printed + 1) for row in hermite]
    none = [row._replace(ours=1e-6 * row.seed) for row in hermite]
    seen = [table_5_1.check(table) for table in (wrong, none)]
    assert not [name for name in seen[0] if all(found[name] for found in seen)]


def test_three_routes_lead_to_the_same_properties(properties: list[table_5_2.Row]) -> None:
    holds(table_5_2.check(properties))
    (slope,) = [row for row in table_5_2.compare(properties) if row.verdict == "corrected"]
    assert "0.948" in slope.why
    assert slope.ours == pytest.approx(1, abs=1e-12)
    drawn(table_5_2.plot(properties))


def test_every_statement_about_properties_can_fail(properties: list[table_5_2.Row]) -> None:
    shifted = [row._replace(value=row.value + (row.route != "kernel")) for row in properties]
    zero = [row._replace(value=row.value if row.property == "stable" else 0.0) for row in properties]
    seen = [table_5_2.check(table) for table in (shifted, zero)]
    assert not [name for name in seen[0] if all(found[name] for found in seen)]
