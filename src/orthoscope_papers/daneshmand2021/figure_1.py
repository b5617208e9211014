r"""Daneshmand, Joudaki & Bach (2021), Figure 1 (joudaki2024, Figure 2.1): the cosine of two samples over depth.

Shown there: without batch norm two orthogonal samples align, with it two nearly parallel ones become orthogonal; width
32, 20 runs, and layer 1 is the input. Here the same with more runs, against theory: the floor of the batch-norm
network, and without batch norm the exact mean of the logarithm of the sine, which falls by $\delta/2$ a layer.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.metrics.representations import mean_overlap
from orthoscope.theory.chain.batch_norm import stationary_gap
from orthoscope.theory.chain.spectrum import collapse_rate
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "Two nearly parallel samples become nearly orthogonal in a deep linear network with batch norm, two orthogonal "
    "ones ever more aligned in one without."
)
KIND = "simulation"
NORMALIZED, VANILLA = "batch norm", "vanilla"
NORMS = {NORMALIZED: "batch_uncentered", VANILLA: "none"}
# Read off the picture, to about 0.02: means of 20 runs, which scatter more than that.
READ = {NORMALIZED: {5: 0.79, 10: 0.14, 20: 0.12, 50: 0.14}, VANILLA: {5: 0.28, 10: 0.36, 20: 0.59, 50: 0.76}}
READING = 0.02
LAYERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40, 45, 50)


@dataclass(frozen=True)
class Config:
    width: int = 32
    layers: tuple[int, ...] = LAYERS  # the first is the input
    tilt: float = 1e-3  # of the second sample from the first, before batch norm
    seeds: tuple[int, ...] = tuple(range(100))


QUICK = Config(seeds=tuple(range(60)))
FULL = Config(seeds=tuple(range(20)))


class Row(NamedTuple):
    network: str
    width: int
    seed: int
    layer: int
    cosine: float  # its absolute value
    log_sine: float


def run(config: Config) -> list[Row]:
    """Both networks; the recorder counts the input as 0, the paper as 1."""
    rows = []
    for network, norm in NORMS.items():
        recording = simulate(
            inputs(network, config),
            Chain(config.width, norm=norm),
            max(config.layers) - 1,
            seeds=config.seeds,
            record={"cosine": _cosine},
            layers=[layer - 1 for layer in config.layers],
        )
        for seed, cosines in zip(config.seeds, recording.values["cosine"].tolist(), strict=True):
            for layer, cosine in zip(config.layers, cosines, strict=True):
                log_sine = (math.log1p(-cosine) + math.log1p(cosine)) / 2 if cosine < 1 else -math.inf
                rows.append(Row(network, config.width, seed, layer, cosine, log_sine))
    return rows


def inputs(network: str, config: Config) -> Float[Tensor, "samples=2 units"]:
    """Two orthogonal samples for the vanilla network; (1, 0) and (1 - tilt, tilt) for the one with batch norm."""
    pair = torch.zeros(2, config.width, dtype=torch.float64)
    pair[0, 0] = 1
    tilt = config.tilt if network == NORMALIZED else 1.0
    pair[1, 0], pair[1, 1] = 1 - tilt, tilt
    return pair


def _cosine(hidden: Float[Tensor, "*seeds samples units"]) -> Float[Tensor, "*seeds"]:
    return mean_overlap(hidden, absolute=True)


def floor(width: int) -> float:
    r"""Mean $|\cos|$ of two samples deep in the batch-norm chain: $\mathbb{E}|\cos| = \sqrt2\,\frac2\pi\,\mathbb{E}V$.

    The Gram matrix of two samples is $I/2$ and an isotropic noise in two directions, the difference of the diagonal
    and the off-diagonal; the cosine is $\sqrt2$ times the part of $V$ in the second.
    """
    return math.sqrt(2) * 2 / math.pi * stationary_gap(2, width)


def cosines(rows: list[Row], network: str, layer: int) -> list[float]:
    return [row.cosine for row in rows if (row.network, row.layer) == (network, layer)]


def check(rows: list[Row]) -> dict[str, bool]:
    width, last = rows[0].width, max(row.layer for row in rows)
    late = [layer for layer in LAYERS if layer >= 20]
    floors = [statistics.fmean(cosines(rows, NORMALIZED, layer)) for layer in late]
    means = [statistics.fmean(cosines(rows, VANILLA, layer)) for layer in (1, 5, 20, last)]
    sines = [row.log_sine for row in rows if (row.network, row.layer) == (VANILLA, last)]
    expected = -collapse_rate(width) / 2 * (last - 1)
    _, low, high = interval(sines, errors=4.0)
    return {
        "with batch norm the cosine falls from 1 to the floor of theory, within a fifth": (
            min(cosines(rows, NORMALIZED, 1)) > 0.999 and abs(statistics.fmean(floors) / floor(width) - 1) < 0.2
        ),
        "without it the cosine rises from 0, at every depth looked at": (means[0] == 0 and means == sorted(set(means))),
        "without it the sine falls as the exact theory says, within four standard errors": low < expected < high,
        "and theory can be told from no change": high < 0,
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """With the picture. The interval has the errors of both means in it, ours and that of their 20 runs."""
    evidence = []
    for network, layer, read in ((name, *point) for name, points in READ.items() for point in points.items()):
        found = cosines(rows, network, layer)
        mean = statistics.fmean(found)
        error = 2 * statistics.stdev(found) * math.sqrt(1 / len(found) + 1 / 20) + READING
        evidence.append(
            Evidence(
                f"|cosine| at layer {layer}, {network}, read off the picture",
                read,
                mean,
                mean - error,
                mean + error,
                "agrees" if abs(read - mean) <= error else "differs",
                f"the interval has the error of a mean of 20 runs and that of reading, {READING}, in it",
            )
        )
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    """The figure of the paper, with the floor; and the sine on a logarithmic axis."""
    width, seeds = rows[0].width, len({row.seed for row in rows})
    layers = sorted({row.layer for row in rows})
    curves = [
        averaged(network, ((row.layer, row.cosine) for row in rows if row.network == network)) for network in NORMS
    ]
    sines = averaged(VANILLA, ((row.layer, row.log_sine) for row in rows if row.network == VANILLA))
    theory = [-collapse_rate(width) / 2 * (layer - 1) for layer in layers]
    return [
        Panel(
            f"Two samples, width {width}",
            f"|cosine|, mean ± 2 s.e. of {seeds} runs",
            "layer (1 is the input)",
            curves,
            [("floor, theory", floor(width))],
            y_range=(0, 1),
        ),
        Panel(
            "Without batch norm",
            f"log |sine|, mean ± 2 s.e. of {seeds} runs",
            "layer (1 is the input)",
            [sines, Series("exact mean", layers, theory, theory=True)],
            y_range=(1.2 * min(theory), 0),
        ),
    ]
