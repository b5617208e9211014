r"""Joudaki (2024), Figure A.1: iterative orthogonalisation beside orthogonal weights and adaptive gradient clipping.

Shown there, with the networks of Figure 4: orthogonal weights do not help against the slowdown with depth, clipping at
$\lambda = 0.1$ and 1 does, iterative orthogonalisation does more. The orthogonal weights there are Xavier's with every
singular value replaced by their mean, $\frac8{3\pi}\sqrt2$ in a wide layer: each layer then leaves
$(\frac8{3\pi})^2 = 0.72$ of the mean square, and 75 layers $10^{-11}$ of it, whatever the angles. So the same with
gain $\sqrt2$ is run too, as what is said is of orthogonality.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple


from orthoscope.papers.daneshmand2021.adaptive_clipping import AdaptiveClipping
from orthoscope.papers.daneshmand2021.averages import averaged
from orthoscope.papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope.papers.drawing import Panel, figure
from orthoscope.papers.evidence import Evidence, interval

CLAIM = (
    "Against the slowdown of deep ReLU networks, orthogonal weights do not help, adaptive gradient clipping does, and "
    "iterative orthogonalisation leaves the lowest training loss."
)
KIND = "training"
XAVIER, ITERATIVE, MEAN, ORTHOGONAL = "xavier", "iterative", "mean singular value", "orthogonal"
CLIPPED = {"clipping 0.1": 0.1, "clipping 1": 1.0}
ARMS = (XAVIER, ITERATIVE, MEAN, ORTHOGONAL, *CLIPPED)


@dataclass(frozen=True)
class Config:
    """The default of Figure 4, at its ends."""

    dataset: str = "cifar10"
    samples: int = 5000
    layers: tuple[int, ...] = (15, 75)
    arms: tuple[str, ...] = ARMS
    width: int = 200
    batch: int = 100
    epochs: int = 3
    learning_rate: float = 0.01
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(dataset="digits", samples=1000, layers=(5, 40), width=64, batch=50, epochs=3, seeds=(0, 1))
FULL = Config(samples=50_000, layers=(15, 30, 45, 60, 75), width=800, batch=500, epochs=30)


class Row(NamedTuple):
    arm: str
    layers: int
    width: int
    seed: int
    clipped: float  # share of the gradients that were shortened
    loss: float  # mean of the last epoch; infinite if training diverged


def run(config: Config) -> list[Row]:
    return [
        outcome(config, arm, layers, seed) for seed in config.seeds for layers in config.layers for arm in config.arms
    ]


def cells(config: Config) -> list[Config]:
    return [
        replace(config, seeds=(seed,), layers=(layers,), arms=(arm,))
        for seed in config.seeds
        for layers in config.layers
        for arm in config.arms
    ]


def outcome(config: Config, arm: str, layers: int, seed: int) -> Row:
    """One training; clipping starts from Xavier's weights."""
    clipping = AdaptiveClipping(CLIPPED[arm]) if arm in CLIPPED else None
    start = XAVIER if arm in CLIPPED else arm
    last = trained(config, start, layers, seed, clipping)[-1]
    return Row(arm, layers, config.width, seed, clipping.share if clipping else 0.0, last.loss)


def losses(rows: list[Row], arm: str, layers: int) -> list[float]:
    return [row.loss for row in rows if (row.arm, row.layers) == (arm, layers)]


def advantage(rows: list[Row], arm: str, layers: int) -> list[float]:
    """How much lower than from Xavier's weights without clipping the loss ends, seed by seed."""
    return [a - b for a, b in zip(losses(rows, XAVIER, layers), losses(rows, arm, layers), strict=True)]
