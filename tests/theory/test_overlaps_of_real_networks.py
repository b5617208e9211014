"""Predicted overlaps beside measured ones: the library's own MLP at width 512, twenty draws of the weights.

The prediction is for infinite width. A finite one moves the mean cosine by about depth/width, which for
ten layers of 512 units is below the standard error of twenty draws (about 0.6/√(512·20) = 0.006 a layer,
which adds up as the layers do); deeper or with more draws the difference would show.
"""

import pytest
import torch
from torch import Tensor

from orthoscope.models import MLP
from orthoscope.theory.kernel.kernel_map import kernel_map

pytestmark = pytest.mark.slow

WIDTH, DEPTH, SEEDS = 512, 10, 20
STARTS = (-0.5, 0.3, 0.9)
NETWORKS = [
    ("tanh", "none", "norm-activation"),
    ("relu", "none", "norm-activation"),
    ("gelu", "none", "norm-activation"),
    ("sigmoid", "none", "norm-activation"),
    ("gelu", "rms", "norm-activation"),
    ("gelu", "rms", "activation-norm"),
    ("relu", "layer", "norm-activation"),
    ("relu", "layer", "activation-norm"),
    ("gelu", "layer", "activation-norm"),
]


def inputs(generator: torch.Generator) -> Tensor:
    """Pairs of rows of mean square 1 with exactly the wanted cosines."""
    frame = torch.linalg.qr(torch.randn(WIDTH, 2, generator=generator, dtype=torch.float64)).Q.T * WIDTH**0.5
    rows = [(frame[0], c * frame[0] + (1 - c**2) ** 0.5 * frame[1]) for c in STARTS]
    return torch.stack([row for pair in rows for row in pair]).float()


def measured(activation: str, norm: str, order: str, scale: float) -> Tensor:
    """Cosines by draw of the weights, layer and pair; weights have variance 1/(scale² width), inputs scale²."""
    found = []
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        hidden = scale * inputs(generator)
        network = MLP(
            depth=DEPTH,
            width=WIDTH,
            out_features=None,
            activation=activation,
            norm=norm,
            order=order,
            init="gaussian",
            weight_gain=1 / scale,
            generator=generator,
        )
        layers = []
        with torch.no_grad():
            for layer in network.layers:
                hidden = layer(hidden)
                layers.append(torch.cosine_similarity(hidden[::2].double(), hidden[1::2].double(), dim=-1))
        found.append(torch.stack(layers))
    return torch.stack(found)


def z_scores(draws: Tensor, predicted: Tensor) -> Tensor:
    return (draws.mean(0) - predicted) / (draws.std(0) / SEEDS**0.5)


@pytest.mark.parametrize(("activation", "norm", "order"), NETWORKS)
def test_cosines_follow_the_kernel_map_layer_by_layer(activation: str, norm: str, order: str) -> None:
    kappa = kernel_map(activation, norm, order)
    # Without a norm, the weights must hold the variance of the activation's inputs at 1.
    draws = measured(activation, norm, order, kappa.scale if norm == "none" else 1.0)
    predicted = kappa.trajectory(torch.tensor(STARTS, dtype=torch.float64), DEPTH)[1:]
    assert z_scores(draws, predicted).abs().max() < 4
    unchanged = torch.tensor(STARTS, dtype=torch.float64).expand_as(predicted)
    assert z_scores(draws, unchanged).abs().max() > 10, "the test must be able to reject that nothing changes"
