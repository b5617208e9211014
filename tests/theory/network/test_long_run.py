"""What is said of infinite depth: fixed points and growth, never the state of a transient."""

import math

import pytest

from orthoscope.activations import nonlinearity
from orthoscope.findings import Prediction
from orthoscope.theory import Hyperparameters, LinearLaw, gaussian_inputs, long_run, propagate, sources_of
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.sources import source_of


def limits(activation: str, depth: int, samples: int = 8, bias: float = 0.0, **rest: object) -> dict[str, Prediction]:
    law = LinearLaw(128, 1.0, bias)
    hyper = Hyperparameters(nonlinearity(activation), law, **rest)  # type: ignore[arg-type]
    found = long_run(propagate(hyper, gaussian_inputs(samples, 128, 0.5), depth))
    return {prediction.name: prediction for prediction in found}


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_a_transient_is_not_passed_off_as_a_fixed_point(depth: int) -> None:
    """Tanh without centering ends orthogonal, however few layers there are."""
    found = limits("tanh", depth, samples=5, norm="batch-uncentered")
    assert found["overlap"].value == pytest.approx(0.0, abs=1e-9)
    growth = gradient_growth(5, centered=False, activation="tanh")
    assert found["gradient growth"].value == pytest.approx(growth)


def test_centered_batch_norm_ends_at_its_gram_fixed_point_with_or_without_bias() -> None:
    fixed = gram_fixed_point("relu", 8)
    for bias in (0.0, 0.5):
        found = limits("relu", 3, bias=bias, norm="batch")
        assert found["overlap"].value == pytest.approx(float(fixed[0, 1] / fixed[0, 0]))
        assert found["gradient growth"].value == pytest.approx(gradient_growth(8, activation="relu"))


def test_biases_move_the_fixed_point_of_what_does_not_center() -> None:
    assert limits("identity", 3, bias=0.5, norm="batch-uncentered") == {}


@pytest.mark.parametrize("norm", ["none", "layer", "batch", "batch-uncentered"])
def test_skip_connections_have_no_limit(norm: str) -> None:
    assert limits("identity", 4, norm=norm, residual_scale=1.0) == {}


def test_one_layer_tells_no_growth() -> None:
    """What a gradient gains on the way to the inputs depends on how many there are."""
    assert "gradient growth" not in limits("tanh", 1)
    assert math.isfinite(limits("tanh", 2)["gradient growth"].value)


@pytest.mark.parametrize("norm", ["none", "batch", "batch-uncentered"])
def test_rates_of_centered_batch_norm_are_cited(norm: str) -> None:
    hyper = Hyperparameters(nonlinearity("relu"), LinearLaw(128), norm=norm)
    assert (source_of(gram_response) in sources_of(hyper)) is (norm == "batch")
