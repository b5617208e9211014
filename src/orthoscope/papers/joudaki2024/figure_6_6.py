r"""Joudaki (2024), Figure 6.6: the middle layers of a deep network stay orthogonal while SGD trains it.

The thesis: 1000 layers, tanh, CIFAR-10, learning rate 0.001; the default here is a tenth of the depth. It calls the
bias towards orthogonal weights implicit and leaves its mechanism open: see `trained_orthogonality`, by which far from
the head gradients are tangent to the orthogonal group. Measured is the share of the symmetric part of
$\nabla W W^\top$, which leaves the group, and the isometry gap of the weights over what the same movement in a random
direction would have made.
"""

import statistics
from dataclasses import dataclass

from orthoscope.papers.drawing import figure
from orthoscope.papers.evidence import Evidence, interval
from orthoscope.papers.joudaki2024.trained_orthogonality import (
    RANDOM_SHARE,
    Row,
    Setting,
    cells,
    middle,
    panel,
    run,
    stay_orthogonal,
)

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "In a deep network with batch norm and shaped tanh SGD leaves the middle layers almost orthogonal, though their "
    "gradients are not small: the gradients there are tangent to the orthogonal group."
)
KIND = "training"


@dataclass(frozen=True)
class Config(Setting):
    pass


QUICK = Config(
    data="digits", depths=(40,), width=24, batch=24, images=800, learning_rate=0.01, steps=45, layers=13, seeds=(0,)
)
FULL = Config(depths=(1000,), images=50000, steps=50000, seeds=(0,))


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
        "their gradients are mostly tangent to the orthogonal group: a symmetric share below 0.3, random is 0.5": (
            statistics.fmean(row.symmetric for row in chosen) < 0.6 * RANDOM_SHARE
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
        Evidence(f"isometry gap of the middle weights, depth {depth}", None, *gap, "agrees", "small after training"),
        Evidence(
            "gap over that of a random movement of the same size", None, *ratio, "agrees" if ratio[2] < 1 else "differs"
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
