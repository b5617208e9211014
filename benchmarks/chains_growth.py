"""Cost of a simulation against width, depth and number of networks, with fitted exponents."""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from orthoscope.chains import Chain, simulate, simulate_gradients
from orthoscope.metrics import orthogonality_gap
from timing import alternating

WIDTH, DEPTH, NETWORKS, SAMPLES = 64, 200, 20, 4


@dataclass(frozen=True)
class Row:
    what: str
    varied: str
    value: int
    milliseconds: float


def table(scale: int = 1, rounds: int = 5) -> list[Row]:
    """Time five sizes of every quantity; `scale` divides the depths, for a quick trial."""
    rows = []
    few = "Gaussian, 4 samples, all gaps"
    depth = DEPTH // scale
    rows += _varied(few, "width", [64, 128, 256, 512, 1024], lambda width: _gaps(width, depth, NETWORKS), rounds)
    rows += _varied(few, "depth", [depth * 2**i for i in range(5)], lambda d: _gaps(WIDTH, d, NETWORKS), rounds)
    rows += _varied(few, "networks", [10, 40, 160, 640, 2560], lambda n: _gaps(WIDTH, depth, n), rounds)
    rows += _varied("Haar, samples as units", "width", [16, 32, 64, 128, 256], lambda w: _haar(w, depth // 10), rounds)
    rows += _varied("gradients, 32 samples", "depth", [depth * 2**i for i in range(5)], _gradients, rounds)
    return rows


def exponent(points: list[tuple[int, float]]) -> float:
    """Least-squares slope of log seconds against log size."""
    return statistics.linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points]).slope


def _varied(what: str, varied: str, values: list[int], call: Callable[[int], object], rounds: int) -> list[Row]:
    costs = alternating({str(value): (lambda value=value: call(value)) for value in values}, rounds, patience=5.0)
    return [Row(what, varied, value, 1e3 * costs[str(value)].seconds) for value in values]


def _batch(samples: int, width: int) -> torch.Tensor:
    return torch.randn(samples, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def _gaps(width: int, depth: int, networks: int) -> object:
    chain = Chain(width, norm="batch_uncentered")
    return simulate(_batch(SAMPLES, width), chain, depth, seeds=range(networks), record={"gap": orthogonality_gap})


def _haar(width: int, depth: int) -> object:
    chain = Chain(width, init="orthogonal", norm="batch_uncentered")
    return simulate(_batch(width, width), chain, max(1, depth), seeds=range(NETWORKS), record={})


def _gradients(depth: int) -> object:
    return simulate_gradients(
        _batch(32, 32), Chain(32, norm="batch_uncentered"), depth, seeds=range(NETWORKS), layers=[1]
    )
