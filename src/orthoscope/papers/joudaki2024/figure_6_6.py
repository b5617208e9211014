r"""Joudaki (2024), Figure 6.6: the middle layers of a deep network stay orthogonal while SGD trains it.

The thesis: 1000 layers of 100 units, tanh, CIFAR-10, learning rate 0.001. The bias grows with depth over width (a layer
takes $2/(d+2)$ of the symmetric part), so the default is narrower rather than shallow: 100 layers of 24 units; 100
layers of 100 show little of it (a share of .41). Batches must divide the images: one that is smaller than the width
makes the gradient explode, as in Figure 6.2, and a single step then undoes the bias. The thesis calls the bias towards
orthogonal weights implicit and leaves its mechanism open: see `trained_orthogonality`, by which far from the head
gradients are tangent to the orthogonal group. Measured is the share of the symmetric part of $\nabla W W^\top$, which
leaves the group, and the isometry gap of the weights over what the same movement in a random direction would have made.
"""

import statistics
from dataclasses import dataclass

from orthoscope.papers.drawing import figure
from orthoscope.papers.evidence import Evidence, interval
from orthoscope.papers.joudaki2024 import trained_orthogonality as trained
from orthoscope.papers.joudaki2024.figure_c_3 import SMALL
from orthoscope.papers.joudaki2024.trained_orthogonality import (
    RANDOM_SHARE,
    Row,
    cells,
    middle,
    panel,
    run,
    stay_orthogonal,
)

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "In a deep network with batch norm and shaped tanh SGD leaves the middle layers almost orthogonal, though their "
    "gradients are not small: the gradients there are more tangent to the orthogonal group than random ones."
)
KIND = "training"
DATA = ("cifar10",)
RUNNER = "joudaki2024/trained_orthogonality"


@dataclass(frozen=True)
class Config(trained.Config):
    depths: tuple[int, ...] = (100,)
    width: int = 24
    batch: int = 24
    images: int = 4800
    steps: int = 201


QUICK = Config(data="digits", depths=(80,), width=16, batch=16, images=800, steps=45, layers=13, seeds=(0,))
FULL = Config(depths=(1000,), width=100, batch=100, images=50000, steps=50000, seeds=(0,))


def check(rows: list[Row]) -> dict[str, bool]:
    """Orthogonal, moved, and why."""
    depth = max(row.depth for row in rows)
    chosen = middle(rows, depth)
    last, deepest = max(row.step for row in rows), max(row.layer for row in rows)
    head = [row for row in rows if row.step == last and row.layer == deepest]
    gradients = statistics.fmean(row.log_gradient for row in chosen)
    return {
        "weights of the middle layers have moved": min(row.moved for row in chosen) > 1e-8,
        "they stay more orthogonal than a random movement of that size would leave them: at most 0.6 of its gap": (
            stay_orthogonal(rows, depth) < 0.6
        ),
        "their gradients lean to the tangents of the orthogonal group: a symmetric share below 0.4, random is 0.5": (
            statistics.fmean(row.symmetric for row in chosen) < 0.8 * RANDOM_SHARE
        ),
        "next to the head they are not: the symmetric share there is larger": (
            statistics.fmean(row.symmetric for row in head) > statistics.fmean(row.symmetric for row in chosen)
        ),
        "gradients of the middle layers are not small: within a factor e² of those next to the head": (
            abs(gradients - statistics.fmean(row.log_gradient for row in head)) < 2
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The gap that is left, and what explains it; the thesis shows pictures."""
    depth = max(row.depth for row in rows)
    chosen = middle(rows, depth)
    seeds = sorted({row.seed for row in rows})
    gap = interval([statistics.fmean(row.gap for row in chosen if row.seed == seed) for seed in seeds])
    share = interval([statistics.fmean(row.symmetric for row in chosen if row.seed == seed) for seed in seeds])
    ratio = interval([stay_orthogonal([row for row in rows if row.seed == seed], depth) for seed in seeds])
    return [
        Evidence(
            f"isometry gap of the middle weights, depth {depth}",
            None,
            *gap,
            "agrees" if gap[2] < SMALL else "differs",
            f"after training; below {SMALL} is small",
        ),
        Evidence(
            "gap over that of a random movement of the same size",
            None,
            *ratio,
            "agrees" if ratio[2] < 1 else "differs",
            "below 1: SGD keeps to the orthogonal group" if ratio[2] < 1 else "no less than at random: see the batches",
        ),
        Evidence(
            "symmetric share of ∇W Wᵀ in the middle, random: 0.5",
            None,
            *share,
            "agrees" if share[2] < RANDOM_SHARE else "differs",
            "the mechanism that the thesis leaves open",
        ),
    ]


def plot(rows: list[Row]) -> str:
    """Gap, gradient, symmetric share over layers."""
    depth = max(row.depth for row in rows)
    return figure(
        [
            panel(rows, "gap", f"Weights, {depth} layers, tanh", "isometry gap"),
            panel(rows, "log_gradient", "Gradients", "log ‖∇W‖"),
            panel(rows, "symmetric", "Why", "symmetric share of ∇W Wᵀ"),
        ]
    )
