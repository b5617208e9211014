"""Theorem 1, Corollary 3 and Lemma A.8: bounds beside what they bound, and that a broken one is noticed."""

from types import ModuleType
from typing import Any

import pytest
import torch

from orthoscope.theory import gap_trajectory
from orthoscope.theory.chain.spectrum import spectral_orthogonality_gap
from orthoscope_papers.daneshmand2021 import corollary_3, lemma_a8, theorem_1
from orthoscope_papers.daneshmand2021.spread_inputs import ENORMOUS, infinitely_wide, spread_input, spread_values
from papers.figures import drawn

MODULES = [theorem_1, corollary_3, lemma_a8]
Tables = dict[ModuleType, list[Any]]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return {module: module.run(module.QUICK) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_the_quick_run_shows_the_claim(module: ModuleType, tables: Tables) -> None:
    checks = module.check(tables[module])
    assert all(checks.values()), [statement for statement, holds in checks.items() if not holds]
    drawn(module.plot(tables[module]))


def test_energies_of_two_sizes_sum_to_one() -> None:
    values = spread_values(6, 0.5)
    assert values.square().tolist() == pytest.approx([0.25] * 3 + [1 / 12] * 3)
    assert torch.allclose(torch.linalg.svdvals(spread_input(6, 9, 0.5)), values)


def test_the_infinitely_wide_network_is_the_trajectory_of_theory() -> None:
    layers, spectra = zip(*infinitely_wide(spread_values(8, 0.7), 30, 7), strict=True)
    assert layers == (1, 8, 15, 22, 29, 30)
    expected = gap_trajectory(spread_values(8, 0.7), 29)
    assert spectral_orthogonality_gap(torch.stack(spectra)).tolist() == pytest.approx(
        [float(expected[layer - 1]) for layer in layers]
    )


def test_theorem_1_is_corrected_at_infinite_width_only(tables: Tables) -> None:
    verdicts = {"infinite" in each.quantity: each.verdict for each in theorem_1.compare(tables[theorem_1])}
    assert verdicts == {True: "corrected", False: "agrees"}


def test_theorem_1_notices_a_gap_that_does_not_fall_and_one_that_obeys_the_printed_bound(tables: Tables) -> None:
    rows = tables[theorem_1]
    first = {(row.width, row.seed): row.gap for row in rows if row.layer == 1}
    _, sharp, _, _, deep = theorem_1.check([r._replace(gap=first[r.width, r.seed]) for r in rows]).values()
    assert (sharp, deep) == (False, False)
    large = theorem_1.check([row._replace(gap=100 * row.gap) for row in rows])
    assert not large["the corrected bound holds at every layer of every network"]
    smaller = [row._replace(gap=row.gap**4) if row.width == ENORMOUS else row for row in rows]
    assert not theorem_1.check(smaller)["the printed bound fails at infinite width"]


def test_corollary_3_corrects_the_radius_and_the_exponent_and_keeps_the_law_of_the_distance(tables: Tables) -> None:
    radius, distance, infinite = corollary_3.compare(tables[corollary_3])
    assert (radius.verdict, distance.verdict, infinite.verdict) == ("corrected", "agrees", "corrected")
    assert radius.ours == pytest.approx(-0.25)
    assert infinite.printed is not None
    assert infinite.ours > infinite.printed


def test_corollary_3_notices_a_distance_that_does_not_fall_with_depth_or_width(tables: Tables) -> None:
    rows = tables[corollary_3]
    first = {(row.width, row.seed): row.distance for row in rows if row.layer == 1}
    still = corollary_3.check([row._replace(distance=first[row.width, row.seed]) for row in rows])
    assert not still["the distance itself falls as width^(-1/2), within 0.04"]
    assert not still["in the widest network it is that of theory, within a tenth"]
    large = corollary_3.check([row._replace(distance=100 * row.distance) for row in rows])
    assert not large["the corrected bound holds at every layer of every network"]
    small = corollary_3.check([row._replace(distance=row.distance / 1e4) for row in rows])
    assert not small["the printed one fails at infinite width"]


def test_lemma_a8_tells_the_rate_from_twice_and_from_half_of_it(tables: Tables) -> None:
    rows = tables[lemma_a8]
    assert {each.verdict for each in lemma_a8.compare(rows)} == {"corrected"}
    for factor in (0.5, 2.0):
        other = [row._replace(log_distance=factor * row.log_distance) for row in rows]
        assert list(lemma_a8.check(other).values())[:2] == [False, False]


def test_lemma_a8_notices_a_network_with_batch_norm_that_collapses(tables: Tables) -> None:
    rows = tables[lemma_a8]
    fallen = [row._replace(log_distance=-20.0) if row.network == lemma_a8.NORMALIZED else row for row in rows]
    assert list(lemma_a8.check(fallen).values()) == [True, True, False]


def test_the_distance_of_lemma_a8_is_that_of_the_product_where_floating_point_holds_it() -> None:
    """A few layers, the weights' law against really multiplied matrices: mean log-distance of the gap."""
    batch, width, depth, runs = 3, 5, 8, 400
    config = lemma_a8.Config((width,), batch, layers_a_unit=2, points=5, seeds=tuple(range(runs)))
    rows = lemma_a8.run(config)
    fast = torch.tensor([r.log_distance for r in rows if (r.network, r.layer) == (lemma_a8.VANILLA, depth)])
    source = torch.Generator().manual_seed(0)
    hidden = torch.eye(width, batch, dtype=torch.float64).expand(runs, width, batch)
    for _ in range(depth):
        hidden = torch.randn(runs, width, width, generator=source, dtype=torch.float64) @ hidden
    slow = ((1 - 1 / batch) ** 0.5 - spectral_orthogonality_gap(torch.linalg.svdvals(hidden))).log()
    error = float((fast.var() / runs + slow.var() / runs) ** 0.5)
    assert abs(float(fast.mean() - slow.mean())) < 4 * error
