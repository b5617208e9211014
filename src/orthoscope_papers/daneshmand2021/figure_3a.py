"""Daneshmand, Joudaki & Bach (2021), Figure 3a (joudaki2024, Figure 2.4a): the deeper, the less orthogonal, the slower.

Shown there: for ReLU networks of 15 to 75 layers without batch norm, the gap at the start and the training loss after
30 epochs rise together. "The gap of the last layer" is there the unevenness of the singular values of the ten logits
(authors' notebook), which is recorded too; here it is the gap of the paper's equation (2), of the last hidden layer.
The text has "15, 30, 45, 60 and 75 widths", which are depths, and "networks with BN", which have none.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope_papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "In ReLU networks without batch norm, deeper networks start with samples less orthogonal, and have learned less "
    "after the same number of epochs."
)
KIND = "training"
DATA = ("cifar10",)


@dataclass(frozen=True)
class Config:
    """A quarter of the paper's width, a tenth of its images, smaller batches: 4 core-minutes in place of days."""

    dataset: str = "cifar10"
    samples: int = 5000
    layers: tuple[int, ...] = (15, 30, 45, 60, 75)
    width: int = 200
    batch: int = 100
    epochs: int = 6
    learning_rate: float = 0.01
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(dataset="digits", samples=1000, layers=(5, 20, 60), width=64, batch=50, epochs=4, seeds=(0, 1))
FULL = Config(samples=50_000, width=800, batch=500, epochs=30)


class Row(NamedTuple):
    layers: int
    width: int
    seed: int
    gap: float  # at the start, of the last hidden layer
    unevenness: float  # at the start, of the logits
    loss: float  # mean of the last epoch


def run(config: Config) -> list[Row]:
    rows = []
    for seed in config.seeds:
        for layers in config.layers:
            first, *_, last = trained(config, config.dataset, "xavier", layers, seed)
            rows.append(Row(layers, config.width, seed, first.gap, first.unevenness, last.loss))
    return rows


def cells(config: Config) -> list[Config]:
    return [replace(config, seeds=(seed,), layers=(layers,)) for seed in config.seeds for layers in config.layers]


def means(rows: list[Row], column: str) -> list[float]:
    """By depth, in ascending order."""
    depths = sorted({row.layers for row in rows})
    return [statistics.fmean(getattr(row, column) for row in rows if row.layers == depth) for depth in depths]


def rises(rows: list[Row], column: str) -> list[float]:
    """From the shallowest to the deepest network, seed by seed."""
    depths = [row.layers for row in rows]
    shallow, deep = (
        {row.seed: getattr(row, column) for row in rows if row.layers == depth} for depth in (min(depths), max(depths))
    )
    return [deep[seed] - shallow[seed] for seed in sorted(shallow)]


def check(rows: list[Row]) -> dict[str, bool]:
    gaps, losses = means(rows, "gap"), means(rows, "loss")
    return {
        "the deeper the network, the larger the gap at the start": gaps == sorted(set(gaps)),
        "also by the measure of the notebook, from the shallowest to the deepest": (
            interval(rises(rows, "unevenness"))[1] > 0
        ),
        "the deepest network has learned less than the shallowest": interval(rises(rows, "loss"))[1] > 0,
        "gap and loss rise together: their means over depth have a correlation above 0.8": (
            statistics.correlation(gaps, losses) > 0.8
        ),
        "the shallowest network learns": losses[0] < 0.95 * math.log(CLASSES),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The paper shows curves without numbers."""
    depths = sorted({row.layers for row in rows})
    gap, loss = interval(rises(rows, "gap")), interval(rises(rows, "loss"))
    correlation = statistics.correlation(means(rows, "gap"), means(rows, "loss"))
    span = f"from {depths[0]} to {depths[-1]} layers"
    smaller = f"width {rows[0].width}; loss {means(rows, 'loss')[0]:.3f} to {means(rows, 'loss')[-1]:.3f}"
    return [
        Evidence(f"rise of V at the start, {span}", None, *gap, "agrees" if gap[1] > 0 else "differs", smaller),
        Evidence(f"rise of the training loss, {span}", None, *loss, "agrees" if loss[1] > 0 else "differs", smaller),
        Evidence(
            "correlation of gap and loss over depths",
            None,
            correlation,
            correlation,
            correlation,
            "agrees" if correlation > 0.8 else "differs",
            "of the means over seeds; a correlation over five depths, no more",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    of = f"mean ± 2 s.e. of {seeds} runs"
    gaps = averaged("V of the last hidden layer", [(row.layers, row.gap) for row in rows])
    logits = averaged("unevenness of the logits", [(row.layers, row.unevenness) for row in rows])
    losses = averaged("last epoch", [(row.layers, row.loss) for row in rows])
    up = (0.9 * min(row.loss for row in rows), 1.1 * math.log(CLASSES))
    guess = [("guessing", math.log(CLASSES))]
    return [
        Panel("At the start", f"gap, {of}", "layers", [gaps, logits], y_range=(0.5, 1.2)),
        Panel(f"Trained, width {rows[0].width}", f"training loss, {of}", "layers", [losses], guess, y_range=up),
    ]
