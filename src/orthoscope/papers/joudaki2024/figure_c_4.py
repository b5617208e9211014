"""Joudaki (2024), Figure C.4: gradient norms of all layers during training, for several depths and activations.

The same trainings as Figure C.3. The thesis: depths 100, 500 and 1000, tanh and sin, CIFAR-10; the default here is 20
and 80 layers. What is trained and what is measured: `trained_orthogonality`.
"""

import math
import statistics
from dataclasses import dataclass

from orthoscope.papers.drawing import figure
from orthoscope.papers.evidence import Evidence, Verdict, interval
from orthoscope.papers.joudaki2024 import trained_orthogonality as trained
from orthoscope.papers.joudaki2024.trained_orthogonality import Row, by_layer, cells, panel, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = "During training gradients neither vanish nor explode, at any layer of any depth, with tanh and with sin."
KIND = "training"
DATA = ("cifar10",)
RUNNER = "joudaki2024/trained_orthogonality"
FACTOR = 30.0  # between the largest and the smallest gradient of a network: e per 24 layers in the deepest


@dataclass(frozen=True)
class Config(trained.Config):
    depths: tuple[int, ...] = (20, 80)
    activations: tuple[str, ...] = ("tanh", "sin")
    steps: int = 240


QUICK = Config(
    data="digits", depths=(10, 40), width=24, batch=24, images=800, learning_rate=0.01, steps=30, layers=13, seeds=(0,)
)
FULL = Config(depths=(100, 500, 1000), images=50000, steps=50000, seeds=(0,))


def spreads(rows: list[Row], activation: str, depth: int) -> list[float]:
    """Largest minus smallest log-gradient over layers, for each step and seed."""
    own = [row for row in rows if (row.activation, row.depth) == (activation, depth)]
    runs = sorted({(row.step, row.seed) for row in own})
    columns = [[row.log_gradient for row in own if (row.step, row.seed) == key] for key in runs]
    return [max(column) - min(column) for column in columns]


def check(rows: list[Row]) -> dict[str, bool]:
    """Gradients of one size over layers, and not zero."""
    depths, names = sorted({row.depth for row in rows}), sorted({row.activation for row in rows})
    last = max(row.step for row in rows)
    return {
        f"at every step the largest gradient of a layer is at most {FACTOR:g} times the smallest": all(
            max(spreads(rows, name, depth)) < math.log(FACTOR) for name in names for depth in depths
        ),
        "after training no layer has a gradient below 1e-4": all(
            row.log_gradient > math.log(1e-4) for row in rows if row.step == last
        ),
        "the weights are updated: the median layer has moved by more than 1e-4 of its norm": (
            statistics.median(row.moved for row in rows if row.step == last) > 1e-8
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Growth of the log-gradient per layer toward the input; the thesis shows pictures."""
    found = []
    last = max(row.step for row in rows)
    for name in sorted({row.activation for row in rows}):
        for depth in sorted({row.depth for row in rows}):
            slopes = []
            for seed in sorted({row.seed for row in rows}):
                own = [r for r in rows if (r.activation, r.depth, r.seed) == (name, depth, seed)]
                layers = by_layer(own, "log_gradient", last)
                slopes.append(-statistics.linear_regression(list(layers), [v[0] for v in layers.values()]).slope)
            mean = interval(slopes)
            verdict: Verdict = "agrees" if abs(mean[0]) * depth < math.log(FACTOR) else "differs"
            found.append(Evidence(f"growth of log ‖∇W‖ per layer, {name}, depth {depth}", None, *mean, verdict))
    return found


def plot(rows: list[Row]) -> str:
    """A panel a depth and activation."""
    return figure(
        [
            panel(
                [r for r in rows if (r.activation, r.depth) == (name, depth)],
                "log_gradient",
                f"{name}, {depth} layers",
                "log ‖∇W‖",
            )
            for name in sorted({row.activation for row in rows})
            for depth in sorted({row.depth for row in rows})
        ]
    )
