"""Tables 1 and 3 and Figure 5: the claims on a quick run, and which checks fail without the effect."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

from orthoscope_papers.daneshmand2021 import figure_5, table_1, table_3
from papers.figures import drawn

MODULES = [figure_5, table_1, table_3]
Tables = dict[ModuleType, list[Any]]


@pytest.fixture(scope="module")
def tables() -> Tables:
    return {module: module.run(module.QUICK) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_the_quick_run_shows_the_claim(module: Any, tables: Tables) -> None:
    checks = module.check(tables[module])
    assert all(checks.values()), [statement for statement, holds in checks.items() if not holds]
    drawn(module.plot(tables[module]))
    assert module.compare(tables[module])


# What is done to every row, and words of every statement that must then fail.
MUTATIONS: list[tuple[Any, Callable[[Any], Any], list[str]]] = [
    (figure_5, lambda r: r._replace(gap=0.5), ["rises from", "nine tenths", "falls to less"]),
    (figure_5, lambda r: r._replace(gap=0.8 - 0.02 * r.layer), ["rises from", "second half"]),
    (figure_5, lambda r: r._replace(gap=r.gap / 3), ["nine tenths", "sum to zero"]),
    (table_1, lambda r: r._replace(distance=0.1 * r.width**0.1), ["comes closer", "width^(-1/2)", "what theory"]),
    (table_1, lambda r: r._replace(distance=r.distance * r.width**0.25), ["width^(-1/2)", "what theory"]),
    (table_1, lambda r: r._replace(distance=1 / math.sqrt(r.width)), ["grows with depth"]),
    (table_1, lambda r: r._replace(distance=r.distance * r.depth), ["the distance does not", "what theory"]),
    (table_3, lambda r: r._replace(kernel=5), ["all of kernel 3"]),
    (table_3, lambda r: r._replace(outputs=2 * r.outputs), ["channels are", "linear layers", "4096", "it is 1024"]),
    (table_3, lambda r: r._replace(stride=2), ["only strided one"]),
]


@pytest.mark.parametrize(("module", "mutation", "fallen"), MUTATIONS)
def test_without_the_effect_the_checks_that_name_it_fail(
    module: Any, mutation: Callable[[Any], Any], fallen: list[str], tables: Tables
) -> None:
    checks = module.check([mutation(row) for row in tables[module]])
    failing = [statement for statement, holds in checks.items() if not holds]
    for words in fallen:
        assert any(words in statement for statement in failing), (words, failing)


def test_every_check_fails_somewhere(tables: Tables) -> None:
    for module in MODULES:
        seen = [module.check([change(row) for row in tables[module]]) for own, change, _ in MUTATIONS if own is module]
        for statement in module.check(tables[module]):
            assert any(not found[statement] for found in seen), statement


def test_table_1_says_that_its_exponent_is_of_a_bound_and_table_3_that_a_stride_is_missing(tables: Tables) -> None:
    bound, *_ = table_1.compare(tables[table_1])
    assert bound.printed == -0.25
    assert bound.high < -0.4
    assert table_1.compare([row._replace(distance=0.1) for row in tables[table_1]])[0].verdict == "differs"
    verdicts = [each.verdict for each in table_3.compare(tables[table_3])]
    assert verdicts == ["agrees", "agrees", "corrected"]


def test_a_convolution_of_table_1_has_the_law_of_one_with_weights() -> None:
    """Against weights drawn and convolved: mean and spread of the distance after 4 layers."""
    channels, layers, runs = 12, 4, 400
    config = table_1.Config(widths=(channels,), depths=(layers,), samples=6, positions=3, seeds=tuple(range(runs)))
    fast = table_1.convolutional(config, channels).flatten()
    source = torch.Generator().manual_seed(1)
    start = torch.eye(6, channels, dtype=torch.float64) / math.sqrt(6)
    slow = []
    for _ in range(runs):
        hidden = start.reshape(2, 3, channels).mT
        for _ in range(layers):
            weight = torch.randn(channels, channels, 3, generator=source, dtype=torch.float64)
            hidden = functional.conv1d(functional.pad(hidden, (1, 1), mode="circular"), weight)
            hidden = hidden / math.sqrt(3 * channels)
        slow.append(table_1.distance(hidden.mT.flatten(end_dim=1)))
    other = torch.stack(slow)
    error = ((fast.var() + other.var()) / runs).sqrt()
    assert abs(fast.mean() - other.mean()) < 4 * error
    assert abs(fast.std() / other.std() - 1) < 0.25


def test_samples_of_figure_5_that_sum_to_zero_have_the_least_gap_there_is() -> None:
    centered = torch.eye(8, dtype=torch.float64) - 1 / 8
    assert figure_5._gap(centered) == pytest.approx(figure_5.zero_sum_gap(8))
    assert figure_5._gap(torch.ones(8, 9)) == pytest.approx(figure_5.largest_gap(8), rel=1e-5)


def test_layer_1_of_figure_5_is_the_batch_and_both_norms_see_the_same_one(tables: Tables) -> None:
    first = {(r.network, r.norm, r.seed): r.gap for r in tables[figure_5] if r.layer == 1}
    for seed in figure_5.QUICK.seeds:
        assert len({first[network, norm, seed] for network in ("mlp", "convnet") for norm in ("batch", "none")}) == 1
    assert max(row.layer for row in tables[figure_5]) == 30


@pytest.mark.parametrize("module", [figure_5, table_3])
def test_cells_joined_are_the_whole_run(module: Any, tables: Tables) -> None:
    parts = [row for cell in module.cells(module.QUICK) for row in module.run(cell)]
    assert parts == tables[module]
