"""Daneshmand, Joudaki & Bach (2021), Figure 3b (joudaki2024, Figure 2.4b): training makes samples more orthogonal.

Shown there: the gap of the output of a ReLU network of 20 layers falls epoch by epoch, with the training loss. As in
Figure 3a "the gap" is there the unevenness of the logits' singular values (authors' notebook, which has width 1000 and
50 epochs, where the text has 800); here it stands beside the gap of equation (2) of the last hidden layer.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope_papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = "As SGD lowers the training loss of a ReLU network of 20 layers, it lowers the orthogonality gap."
KIND = "training"
DATA = ("cifar10",)


@dataclass(frozen=True)
class Config:
    """A quarter of the paper's width, a tenth of its images, smaller batches."""

    dataset: str = "cifar10"
    samples: int = 5000
    layers: int = 20
    width: int = 200
    batch: int = 100
    epochs: int = 20
    learning_rate: float = 0.01
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(dataset="digits", samples=1000, width=64, batch=50, epochs=12, seeds=(0, 1, 2))
FULL = Config(samples=50_000, width=1000, batch=500, epochs=50)


class Row(NamedTuple):
    layers: int
    width: int
    seed: int
    epoch: int  # 0 is the start
    loss: float  # mean over the epoch
    gap: float  # of the last hidden layer
    unevenness: float  # of the logits


def run(config: Config) -> list[Row]:
    return [
        Row(config.layers, config.width, seed, *epoch)
        for seed in config.seeds
        for epoch in trained(config, config.dataset, "xavier", config.layers, seed)
    ]


def cells(config: Config) -> list[Config]:
    return [replace(config, seeds=(seed,)) for seed in config.seeds]


def falls(rows: list[Row], column: str) -> list[float]:
    """From the start to the last epoch, seed by seed."""
    last = max(row.epoch for row in rows)
    start, end = ({row.seed: getattr(row, column) for row in rows if row.epoch == epoch} for epoch in (0, last))
    return [start[seed] - end[seed] for seed in sorted(start)]


def correlation(rows: list[Row], column: str) -> float:
    """Of the loss with a measure of orthogonality, over the epochs after the first, means over seeds."""
    epochs = sorted({row.epoch for row in rows} - {0})
    values, losses = (
        [statistics.fmean(getattr(row, name) for row in rows if row.epoch == epoch) for epoch in epochs]
        for name in (column, "loss")
    )
    return statistics.correlation(values, losses)


def check(rows: list[Row]) -> dict[str, bool]:
    return {
        "the network learns: the training loss falls by a tenth of guessing's": (
            interval(falls(rows, "loss"))[1] > 0.1 * math.log(CLASSES)
        ),
        "the gap of the last hidden layer falls": interval(falls(rows, "gap"))[1] > 0,
        "the measure of the notebook falls": interval(falls(rows, "unevenness"))[1] > 0,
        "epoch by epoch both go with the loss: correlations above 0.8": all(
            correlation(rows, column) > 0.8 for column in ("gap", "unevenness")
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The paper shows curves without numbers."""
    names = {"gap": "fall of V of the last hidden layer", "unevenness": "fall of the unevenness of the logits"}
    evidence = []
    for column, name in names.items():
        start = statistics.fmean(getattr(row, column) for row in rows if row.epoch == 0)
        found = interval(falls(rows, column))
        why = f"from {start:.3f}; correlation with the loss over epochs {correlation(rows, column):.2f}"
        evidence.append(Evidence(f"{name} by training", None, *found, "agrees" if found[1] > 0 else "differs", why))
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    of = f"mean ± 2 s.e. of {seeds} runs"
    gaps = averaged("V of the last hidden layer", [(row.epoch, row.gap) for row in rows])
    logits = averaged("unevenness of the logits", [(row.epoch, row.unevenness) for row in rows])
    losses = averaged("mean over the epoch", [(row.epoch, row.loss) for row in rows if row.epoch])
    up = (0.9 * min(row.loss for row in rows), 1.1 * math.log(CLASSES))
    guess = [("guessing", math.log(CLASSES))]
    layers = f"{rows[0].layers} layers of {rows[0].width}"
    return [
        Panel(f"Orthogonality, {layers}", f"gap, {of}", "epoch", [gaps, logits], y_range=(0, 1.2)),
        Panel("Learning", f"training loss, {of}", "epoch", [losses], guess, y_range=up),
    ]
