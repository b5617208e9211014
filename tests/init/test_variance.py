"""The variances that theory is told are those that the schemes draw."""

import pytest
import torch
from torch import nn

from orthoscope.init import SCHEMES, bias_variance, initialize_, weight_variance

SHAPES = [(60, 40), (40, 60), (50, 50)]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_a_scheme_draws_weights_of_the_variance_it_says(scheme: str, shape: tuple[int, int], gain: float) -> None:
    drawn = []
    for seed in range(20):
        layer = nn.Linear(*shape)
        initialize_(layer, scheme, gain, torch.Generator().manual_seed(seed))
        drawn.append(layer.weight.detach().double().square().mean())
    measured = torch.stack(drawn)
    expected = weight_variance(scheme, *shape, gain)
    error = measured.std() / len(drawn) ** 0.5 + 1e-6 * expected
    assert abs(measured.mean() - expected) < 4 * error
    assert abs(measured.mean() - 1.1 * expected) > 4 * error, "ten percent off would be seen"


def test_only_the_default_of_pytorch_draws_biases() -> None:
    biases = []
    for seed in range(50):
        layer = nn.Linear(30, 40)
        initialize_(layer, "torch", generator=torch.Generator().manual_seed(seed))
        biases.append(layer.bias.detach().double())
    squares = torch.cat(biases).square()
    assert abs(squares.mean() - bias_variance("torch", 30)) < 4 * squares.std() / len(squares) ** 0.5
    assert all(bias_variance(scheme, 30) == 0 for scheme in SCHEMES if scheme != "torch")


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown weight scheme 'hee': choose one of delta-orthogonal, gaussian, he"):
        weight_variance("hee", 3, 3)
