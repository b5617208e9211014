"""Every erratum: its printed statement fails where it says, and the corrected one holds there and elsewhere."""

import dataclasses
import math
from importlib import import_module
from itertools import groupby
from pkgutil import walk_packages

import pytest
import torch

import orthoscope_papers
from orthoscope.theory.sources import BIBLIOGRAPHY
from orthoscope_papers.errata import Erratum, Statement, all_errata

# A counterexample is no artifact of the tolerance: it fails by this many times as much,
FAR = 4.0
# and by this much of the numbers compared.
VISIBLE = 1e-6
# Random cases are a thousand, or fewer where each samples a mean, differentiates or decomposes: but never below this.
FEWEST = 30

ERRATA = all_errata()
each = pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.key)


@each
def test_printed_statement_fails_by_far_at_its_counterexample(erratum: Erratum) -> None:
    found = erratum.printed_at_case()
    assert not found.holds, f"{erratum.printed} at {erratum.case}: {found}"
    assert found.excess > FAR * found.tolerance, f"{found} within {found.tolerance:.3g}"
    assert found.excess > VISIBLE * max(abs(found.left), abs(found.right)), str(found)


@each
def test_corrected_statement_holds_at_the_counterexample(erratum: Erratum) -> None:
    found = erratum.corrected_at_case()
    assert found.holds, f"{erratum.corrected} at {erratum.case}: {found}"


@each
def test_corrected_statement_holds_at_random(erratum: Erratum) -> None:
    generator = torch.Generator().manual_seed(0)
    assert erratum.random_cases >= FEWEST
    for case in range(erratum.random_cases):
        found = erratum.corrected_at_random(generator)
        assert found.holds, f"{erratum.corrected}, case {case}: {found}, tolerance {found.tolerance:.3g}"


@each
def test_random_cases_come_from_the_generator_alone(erratum: Erratum) -> None:
    def draws(seed: int) -> list[Statement]:
        generator = torch.Generator().manual_seed(seed)
        before = generator.get_state()
        found = [erratum.corrected_at_random(generator) for _ in range(2)]
        assert not torch.equal(before, generator.get_state()), "the generator was not used"
        return found

    assert draws(1) == draws(1)


@each
def test_every_word_is_there(erratum: Erratum) -> None:
    texts = [getattr(erratum, field.name) for field in dataclasses.fields(Erratum) if field.type is str]
    assert len(texts) == 7
    assert all(text.strip() == text and text for text in texts)
    assert erratum.source in BIBLIOGRAPHY
    assert erratum.key.startswith(erratum.source + "-")
    assert erratum.printed != erratum.corrected


def test_every_erratum_of_every_module_is_listed() -> None:
    names = [module.name for module in walk_packages(orthoscope_papers.__path__, "orthoscope_papers.")]
    modules = [import_module(name) for name in names if "errata" in name.split(".")]
    written = {one.key for module in modules for found in vars(module).values() for one in errata_in(found)}
    assert written == {erratum.key for erratum in ERRATA}
    assert len(written) > 10


def errata_in(value: object) -> list[Erratum]:
    """The errata in a module's list of them, whatever its name."""
    return [one for one in value if isinstance(one, Erratum)] if isinstance(value, (list, tuple)) else []


def test_keys_are_unique_and_sources_stand_together() -> None:
    keys = [erratum.key for erratum in ERRATA]
    assert len(set(keys)) == len(keys)
    blocks = [source for source, _ in groupby(ERRATA, key=lambda erratum: erratum.source)]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize(
    ("statement", "holds", "excess"),
    [
        (Statement(1.0, "<=", 2.0), True, -1.0),
        (Statement(2.0, "<=", 1.0), False, 1.0),
        (Statement(2.0, "<=", 1.0, tolerance=1.0), True, 0.0),
        (Statement(1.0, "=", 3.0, tolerance=0.5), False, 1.5),
        (Statement(3.0, "=", 1.0, tolerance=0.5), False, 1.5),
        (Statement(1.0, "=", 1.25, tolerance=0.5), True, -0.25),
        (Statement(math.inf, "<=", 1.0), False, math.inf),
    ],
)
def test_a_statement_knows_whether_and_by_how_much_it_holds(statement: Statement, holds: bool, excess: float) -> None:
    assert statement.holds is holds
    assert statement.excess == pytest.approx(excess)


def test_nan_neither_holds_nor_fails_by_far() -> None:
    undefined = Statement(math.nan, "=", 0.0, tolerance=1.0)
    assert not undefined.holds
    assert not undefined.excess > FAR * undefined.tolerance


def test_a_statement_prints_both_sides_and_whether_it_holds() -> None:
    assert str(Statement(0.5, "<=", 0.25)) == "0.5 ≤ 0.25: fails"
    assert str(Statement(0.5, "=", 0.5)) == "0.5 = 0.5: holds"
