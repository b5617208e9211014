"""The response of the Gram matrix at its fixed point, against the derivative of a sampled map and closed forms."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.finite_width import (
    finite_width_gram_error,
    gram_response,
    linear_gram_error,
    one_layer_noise,
)

EXACT = 1e-12


@pytest.mark.parametrize("batch", [4, 5, 10, 64])
def test_linear_deviations_return_at_the_known_rate(batch: int) -> None:
    response = gram_response("identity", batch)
    assert response.sample_rate == pytest.approx((batch - 1) / (batch + 1), abs=EXACT)
    assert response.pair_rate == pytest.approx((batch - 1) / (batch + 1), abs=EXACT)
    assert one_layer_noise(nonlinearity("identity"), batch) == pytest.approx(batch**2 * (1 - 1 / (batch - 1)))


@pytest.mark.parametrize("batch", [4, 10, 30])
def test_linear_error_is_the_closed_form_without_sampling_noise(batch: int, generator: torch.Generator) -> None:
    found = finite_width_gram_error("identity", batch, 500, generator=generator)
    assert found.value == pytest.approx(linear_gram_error(batch, 500), rel=1e-10)
    assert found.standard_error < 1e-10


def mean_field_difference(activation: str, deviation: Tensor, step: float) -> Tensor:
    """(F(G* + tδ) - F(G* - tδ))/2t from the same 400000 draws, so that sampling noise cancels to first order."""
    fixed_point = gram_fixed_point(activation, len(deviation))
    normal = torch.randn(400_000, len(deviation), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    images = []
    for sign in (1, -1):
        eigenvalues, basis = torch.linalg.eigh(fixed_point + sign * step * deviation)
        # The symmetric root: it changes little when the matrix does.
        hidden = normal @ (basis * eigenvalues.clamp_min(0).sqrt()) @ basis.mT
        hidden = hidden - hidden.mean(-1, keepdim=True)
        outputs = nonlinearity(activation)(hidden / hidden.square().mean(-1, keepdim=True).sqrt())
        images.append(outputs.mT @ outputs / len(outputs))
    return (images[0] - images[1]) / (2 * step)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "tanh", "exp"])
def test_rates_are_those_of_a_differentiated_layer(activation: str) -> None:
    batch = 6
    response = gram_response(activation, batch)
    projection = torch.eye(batch, dtype=torch.float64) - 1 / batch
    weights = torch.tensor([1.0, 1, 1, -1, -1, -1], dtype=torch.float64)
    uneven = projection @ weights.diag() @ projection
    image = mean_field_difference(activation, uneven, 0.01)
    returned = float((image * uneven).sum() / uneven.square().sum())
    assert returned == pytest.approx(response.sample_rate, abs=0.01)
    assert float(image.square().sum() / weights.square().sum()) == pytest.approx(response.sample_norm, rel=0.02)
    pairs = torch.zeros(batch, batch, dtype=torch.float64)
    for first, second, sign in ((0, 1, 1), (1, 2, -1), (2, 3, 1), (3, 0, -1)):
        pairs[first, second] = pairs[second, first] = sign
    image = mean_field_difference(activation, pairs, 0.01)
    assert float((image * pairs).sum() / pairs.square().sum()) == pytest.approx(response.pair_rate, abs=0.01)
    assert abs(response.pair_rate - response.sample_rate) > 0.1, "the two rates must be told apart"


def test_some_activations_leave_the_fixed_point() -> None:
    assert gram_response("relu", 50).stable
    assert gram_response("exp", 4).stable
    assert not gram_response("exp", 10).stable
    assert not gram_response("gelu", 50).stable


@pytest.mark.slow
def test_error_falls_with_the_square_root_of_width_and_names_its_own(generator: torch.Generator) -> None:
    state = generator.get_state()
    narrow = finite_width_gram_error("tanh", 6, 100, generator=generator)
    generator.set_state(state)
    wide = finite_width_gram_error("tanh", 6, 400, generator=generator)
    assert narrow.value == pytest.approx(2 * wide.value)
    assert 0 < wide.standard_error < 0.01 * wide.value
    again = [finite_width_gram_error("tanh", 6, 100, generator=generator, draws=2000) for _ in range(40)]
    spread = torch.tensor([estimate.value for estimate in again]).std()
    assert float(spread) == pytest.approx(again[0].standard_error, rel=4 / math.sqrt(2 * 40))


def test_mistakes_get_one_clear_sentence(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match="batch is 3, but this quantity needs at least 4 samples"):
        finite_width_gram_error("relu", 3, 100, generator=generator)
    with pytest.raises(ValueError, match="width is 0, but must be at least 1"):
        finite_width_gram_error("relu", 4, 0, generator=generator)
    with pytest.raises(ValueError, match="activation exp: deviations from the fixed point grow with depth"):
        finite_width_gram_error("exp", 10, 100, generator=generator)
    with pytest.raises(ValueError, match="batch is 2"):
        linear_gram_error(2, 100)
