"""Joudaki (2024), Figure C.3: isometry gap of weight matrices during training, for several depths and activations.

The thesis: depths 100, 500 and 1000, tanh and sin, CIFAR-10; the default here is 20 and 80 layers. What is trained and
what is measured: `trained_orthogonality`.
"""

import statistics
from dataclasses import dataclass

from orthoscope.papers.drawing import figure
from orthoscope.papers.evidence import Evidence, Verdict, interval
from orthoscope.papers.joudaki2024 import trained_orthogonality as trained
from orthoscope.papers.joudaki2024.trained_orthogonality import Row, cells, middle, panel, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "During training the weights of the middle layers stay close to orthogonal, the more so the deeper the network, "
    "with tanh and with sin. Mostly because they move little: of the gap that a random movement of that size leaves, "
    "theirs is nearly all in a shallow network, and less in a deep one."
)
KIND = "training"
DATA = ("cifar10",)
RUNNER = "joudaki2024/trained_orthogonality"
SMALL = 0.05  # a gap: singular values within about a sixth of one another


@dataclass(frozen=True)
class Config(trained.Config):
    depths: tuple[int, ...] = (20, 80)
    activations: tuple[str, ...] = ("tanh", "sin")
    steps: int = 240


QUICK = Config(
    data="digits", depths=(10, 40), width=24, batch=24, images=800, learning_rate=0.01, steps=30, layers=13, seeds=(0,)
)
FULL = Config(depths=(100, 500, 1000), images=50000, steps=50000, seeds=(0,))


def gap(rows: list[Row], activation: str, depth: int) -> float:
    """Mean gap of the middle layers after training."""
    return statistics.fmean(row.gap for row in middle([r for r in rows if r.activation == activation], depth))


def _share(rows: list[Row], depth: int) -> float:
    """Gap over that of a random movement, the mean of all activations."""
    names = sorted({row.activation for row in rows})
    return statistics.fmean(trained.stay_orthogonal([r for r in rows if r.activation == name], depth) for name in names)


def check(rows: list[Row]) -> dict[str, bool]:
    """Small gaps, smaller in deeper networks."""
    depths, names = sorted({row.depth for row in rows}), sorted({row.activation for row in rows})
    return {
        "the gap of the middle layers is not zero: the weights have left the orthogonal group": all(
            gap(rows, name, depth) > 1e-10 for name in names for depth in depths
        ),
        "it is smaller in the deepest network than in the shallowest, with every activation": all(
            gap(rows, name, depths[-1]) < gap(rows, name, depths[0]) for name in names
        ),
        "of what a random movement of the same size leaves, the deepest network has at most 0.95, and less than the "
        "shallowest": _share(rows, depths[-1]) < min(0.95, _share(rows, depths[0])),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The gap in the middle; the thesis shows pictures."""
    found = []
    for name in sorted({row.activation for row in rows}):
        for depth in sorted({row.depth for row in rows}):
            chosen = middle([row for row in rows if row.activation == name], depth)
            seeds = sorted({row.seed for row in chosen})
            mean = interval([statistics.fmean(row.gap for row in chosen if row.seed == seed) for seed in seeds])
            verdict: Verdict = "agrees" if mean[0] < SMALL else "differs"
            part = trained.stay_orthogonal([row for row in rows if row.activation == name], depth)
            why = f"below {SMALL} is small; {part:.2f} of what a random movement of the same size leaves"
            found.append(Evidence(f"isometry gap of middle weights, {name}, depth {depth}", None, *mean, verdict, why))
    return found


def plot(rows: list[Row]) -> str:
    """A panel a depth and activation."""
    return figure(
        [
            panel(
                [r for r in rows if (r.activation, r.depth) == (name, depth)], "gap", f"{name}, {depth} layers", "gap"
            )
            for name in sorted({row.activation for row in rows})
            for depth in sorted({row.depth for row in rows})
        ]
    )
