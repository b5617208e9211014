"""Figures 3a, 3b, 4, 7 and A.1: the claims on a quick run, and which checks fail without the effect."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from orthoscope.metrics import orthogonality_gap
from orthoscope_papers.daneshmand2021 import deep_mlp, figure_3a, figure_3b, figure_4, figure_7, figure_a1
from papers.figures import drawn

MODULES = [figure_3a, figure_3b, figure_4, figure_7, figure_a1]
Tables = dict[ModuleType, list[Any]]
GUESS = math.log(10)


@pytest.fixture(scope="module")
def tables() -> Tables:
    return {module: module.run(module.QUICK) for module in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_the_quick_run_shows_the_claim(module: Any, tables: Tables) -> None:
    checks = module.check(tables[module])
    assert all(checks.values()), [statement for statement, holds in checks.items() if not holds]
    drawn(module.plot(tables[module]))
    for each in module.compare(tables[module]):
        assert each.low <= each.ours <= each.high
        assert each.verdict == "agrees" or each.why


def with_value(column: str, value: float) -> Callable[[Any], Any]:
    return lambda row: row._replace(**{column: value})


def only(column: str, name: str, value: float, of: str) -> Callable[[Any], Any]:
    """One arm gets the value in a column."""
    return lambda row: row._replace(**{column: value}) if getattr(row, of) == name else row


# What is done to every row, and words of every statement that must then fail.
MUTATIONS: list[tuple[Any, Callable[[Any], Any], list[str]]] = [
    (figure_3a, lambda r: r._replace(gap=1 - r.layers / 100), ["the deeper", "rise together"]),
    (figure_3a, lambda r: r._replace(unevenness=-float(r.layers)), ["measure of the notebook"]),
    (figure_3a, lambda r: r._replace(loss=2 - r.layers / 100), ["learned less", "rise together"]),
    (figure_3a, lambda r: r._replace(loss=GUESS + r.layers / 100), ["shallowest network learns"]),
    (figure_3b, lambda r: r._replace(loss=GUESS + r.epoch / 100), ["network learns", "go with the loss"]),
    (figure_3b, lambda r: r._replace(gap=0.5 + r.epoch / 100), ["gap of the last", "go with the loss"]),
    (figure_3b, lambda r: r._replace(unevenness=0.5 + r.epoch / 100), ["measure of the notebook", "go with the loss"]),
    (figure_4, with_value("gap", 0.9), ["at the start"]),
    (figure_4, lambda r: r._replace(loss=2.0 - r.layers / 100), ["depth slows learning", "learns more", "less than"]),
    (figure_4, only("loss", "iterative", 2.3, "start"), ["learns more from equation (6)"]),
    (figure_4, lambda r: r._replace(loss=1 + r.layers / 100), ["does not slow", "less than", "more than by as many"]),
    (figure_7, with_value("gap", 0.9), ["at the start"]),
    (figure_7, with_value("loss", GUESS), ["learns less", "learns more"]),
    (figure_7, only("loss", "xavier", 1.0, "start"), ["learns less", "learns more", "still at guessing"]),
    (figure_7, lambda r: r._replace(loss=1 + r.layers / 100), ["learns more"]),
    (figure_7, lambda r: r._replace(loss=GUESS - 1 / r.layers), ["learns more", "a smaller share"]),
    (figure_a1, only("loss", "iterative", GUESS, "arm"), ["from iterative", "most of all", "λ = 1 ", "λ = 0.1"]),
    (figure_a1, only("loss", "mean singular value", 0.01, "arm"), ["most of all", "mean singular value"]),
    (figure_a1, only("loss", "xavier", GUESS, "arm"), ["it does, a little", "λ = 1 "]),
    (figure_a1, only("clipped", "clipping 1", 0.5, "arm"), ["λ = 1 "]),
    (figure_a1, only("loss", "clipping 0.1", 0.5, "arm"), ["most of all", "λ = 0.1"]),
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


@pytest.mark.parametrize("module", MODULES)
def test_cells_are_one_training_each(module: Any) -> None:
    cells = module.cells(module.QUICK)
    assert {cell.seeds for cell in cells} == {(seed,) for seed in module.QUICK.seeds}
    assert all(isinstance(cell.layers, int) or len(cell.layers) == 1 for cell in cells)


def test_the_iterative_start_leaves_samples_more_orthogonal_and_an_unknown_one_is_refused() -> None:
    samples = deep_mlp.samples_of("digits", 200)
    gaps = {
        start: deep_mlp.last_gap(deep_mlp.network(start, 12, 32, samples, 0), samples.inputs[:20])
        for start in ("xavier", "iterative")
    }
    assert gaps["iterative"] < 0.7 * gaps["xavier"]
    with pytest.raises(ValueError, match=r"unknown start 'whitening': choose one of xavier"):
        deep_mlp.network("whitening", 12, 32, samples, 0)


def test_the_unevenness_of_logits_is_zero_for_equal_singular_values_and_largest_on_a_line() -> None:
    model = deep_mlp.network("xavier", 3, 16, deep_mlp.samples_of("digits", 50), 0)
    for logits, expected in ((torch.eye(10), 0.0), (torch.ones(10, 10), math.sqrt(2 - 2 / math.sqrt(10)))):
        model.forward = lambda _, logits=logits: logits  # type: ignore[method-assign, misc]
        assert deep_mlp.logit_unevenness(model, torch.zeros(10, 64)) == pytest.approx(expected, abs=1e-6)
    assert float(orthogonality_gap(torch.eye(10))) == pytest.approx(0, abs=1e-6)
