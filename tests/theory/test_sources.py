"""Every prediction says where it comes from and what it needs."""

from inspect import isroutine

import pytest

from orthoscope import theory
from orthoscope.theory.sources import BIBLIOGRAPHY, Source, source, source_of

# Public names that predict nothing. What predictions are made of, and answered with:
CLASSES_AND_DATA = {
    "BIBLIOGRAPHY",
    "GramResponse",
    "Hyperparameters",
    "Inputs",
    "JacobiansOptimum",
    "KernelMap",
    "LinearLaw",
    "LostSignal",
    "NoTheory",
    "NormalizedResidualGradients",
    "Propagation",
    "Signal",
    "Source",
}
# Functions that build an argument, read sources, or answer with several predictions, each with its own source.
FUNCTIONS = {"gaussian_inputs", "long_run", "source_of", "sources_of"}

PREDICTORS = sorted(set(theory.__all__) - CLASSES_AND_DATA - FUNCTIONS)


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_carries_its_source_and_hypotheses(name: str) -> None:
    found = source_of(getattr(theory, name))
    assert found.key in BIBLIOGRAPHY
    assert found.where
    assert found.assumes


def test_there_are_predictors_to_check() -> None:
    assert "unconstrained_jacobians_optimum" in PREDICTORS
    assert len(PREDICTORS) > 10


def test_what_is_exempt_is_what_it_is_said_to_be() -> None:
    """A prediction cannot hide among the classes and data, and no name is exempt that is not public."""
    assert set(theory.__all__) >= CLASSES_AND_DATA | FUNCTIONS
    assert not any(isroutine(getattr(theory, name)) for name in CLASSES_AND_DATA)
    assert not any(hasattr(getattr(theory, name), "source") for name in FUNCTIONS)


def test_source_is_attached_and_leaves_the_function_alone() -> None:
    def one(argument: float) -> float:
        return argument + 1

    attached = source("cho2009", "Theorem 1", assumes="nothing")(one)
    assert attached is one
    assert source_of(attached) == Source("cho2009", "Theorem 1", "nothing")
    assert str(source_of(attached)) == "cho2009, Theorem 1"


def test_a_source_outside_the_bibliography_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown source 'hearsay': add it to the bibliography"):
        source("hearsay", "somewhere", assumes="nothing")


def test_a_function_without_a_source_is_not_a_predictor() -> None:
    with pytest.raises(ValueError, match="is not a predictor: it carries no source"):
        source_of(len)
