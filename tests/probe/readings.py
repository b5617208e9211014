"""Small batches and layers, and how a row of a recording is found and compared."""

import pytest
import torch
from torch import Tensor, nn

from orthoscope import metrics
from orthoscope.probe import Layer, Recording


def batch(samples: int = 12, units: int = 16) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(0))


def linear(fan_in: int = 16, out: int = 16, seed: int = 1, bias: bool = False) -> nn.Linear:
    layer = nn.Linear(fan_in, out, bias=bias)
    with torch.no_grad():
        layer.weight.normal_(0, (2 / fan_in) ** 0.5, generator=torch.Generator().manual_seed(seed))
    return layer


def row(recording: Recording, name: str, call: int = 0) -> Layer:
    return next(layer for layer in recording.layers if layer.name == name and layer.call == call)


def assert_measures(layer: Layer, output: Tensor) -> None:
    """The row says of `output` what the metrics say of it."""
    hidden = output.detach().reshape(len(output), -1)
    assert layer.gap == pytest.approx(float(metrics.orthogonality_gap(hidden)), rel=1e-6)
    assert layer.isometry_gap == pytest.approx(float(metrics.isometry_gap(hidden)), rel=1e-6)
    assert layer.effective_rank == pytest.approx(float(metrics.effective_rank(hidden)), rel=1e-5)
    assert layer.overlap == pytest.approx(float(metrics.mean_overlap(hidden)), rel=1e-6)
    assert layer.rms == pytest.approx(float(hidden.double().square().mean().sqrt()), rel=1e-6)
