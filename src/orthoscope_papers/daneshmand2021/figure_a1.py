r"""Joudaki (2024), Figure A.1: iterative orthogonalization beside orthogonal weights and adaptive gradient clipping.

Shown there, with the networks of Figure 4: orthogonal weights do not help against the slowdown with depth, clipping at
$\lambda = 0.1$ and 1 does, iterative orthogonalization does more. Here all arms have the learning rate of Figure 4, at
which hardly a gradient is long enough to be clipped, so that clipping cannot do much. The orthogonal weights there are
Xavier's with every singular value replaced by their mean, $\frac8{3\pi}\sqrt2$ in a wide layer: each layer then leaves
$(\frac8{3\pi})^2 = 0.72$ of the mean square, and 75 layers $10^{-11}$ of it, whatever the angles. So the same with
gain $\sqrt2$ is run too, as what is said is of orthogonality.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import nn

from orthoscope.optim import clip_adaptively_
from orthoscope_papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope_papers.evidence import Evidence, student_interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "Of all arms, iterative orthogonalization leaves a deep ReLU network with the lowest training loss. Orthogonal "
    "weights as printed, of the mean singular value, leave it unable to learn. Adaptive clipping, printed as a help, "
    "hardly helps at the learning rate of Figure 4, where few gradients are long enough to be clipped."
)
KIND = "training"
DATA = ("cifar10",)
XAVIER, ITERATIVE, MEAN, ORTHOGONAL = "xavier", "iterative", "mean singular value", "orthogonal"
CLIPPED = {"clipping 0.1": 0.1, "clipping 1": 1.0}
SMALLEST_WEIGHT = 1e-2  # as (A.21) has it
LITTLE = 0.25  # of the gain of the best arm
ARMS = (XAVIER, ITERATIVE, MEAN, ORTHOGONAL, *CLIPPED)


@dataclass(frozen=True)
class Config:
    """The depths at the ends of Figure 4, at two fifths of its width, and three epochs: six arms take their time."""

    dataset: str = "cifar10"
    samples: int = 5000
    layers: tuple[int, ...] = (15, 75)
    arms: tuple[str, ...] = ARMS
    width: int = 200
    batch: int = 100
    epochs: int = 3
    learning_rate: float = 0.01
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(
    dataset="digits", samples=1000, layers=(5, 30), width=64, batch=50, epochs=6, learning_rate=0.005, seeds=(0, 1, 2)
)
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
    shares: list[float] = []

    def clip(model: nn.Module) -> None:
        shares.append(float(clip_adaptively_(model, CLIPPED[arm], eps=SMALLEST_WEIGHT, per="layer")))

    start = XAVIER if arm in CLIPPED else arm
    last = trained(config, config.dataset, start, layers, seed, clip if arm in CLIPPED else None)[-1]
    return Row(arm, layers, config.width, seed, statistics.fmean(shares or [0.0]), last.loss)


def losses(rows: list[Row], arm: str, layers: int) -> list[float]:
    return [row.loss for row in rows if (row.arm, row.layers) == (arm, layers)]


def advantage(rows: list[Row], arm: str, layers: int) -> list[float]:
    """How much lower than from Xavier's weights without clipping the loss ends, seed by seed."""
    return [a - b for a, b in zip(losses(rows, XAVIER, layers), losses(rows, arm, layers), strict=True)]


def clipped(rows: list[Row], arm: str, layers: int) -> float:
    """Mean share of the gradients that were shortened."""
    return statistics.fmean(row.clipped for row in rows if (row.arm, row.layers) == (arm, layers))


def check(rows: list[Row]) -> dict[str, bool]:
    """At the deepest network; differences are from the same seed, Student's intervals of 95 %."""
    deepest = max(row.layers for row in rows)
    gains = {arm: advantage(rows, arm, deepest) for arm in ARMS}
    gain = {arm: student_interval(values) for arm, values in gains.items()}
    return {
        "from iterative orthogonalization it learns more than from Xavier's weights": gain[ITERATIVE][1] > 0,
        "and most of all arms": all(
            student_interval([a - b for a, b in zip(gains[ITERATIVE], gains[arm], strict=True)])[1] > 0
            for arm in ARMS
            if arm != ITERATIVE
        ),
        "from the mean singular value it does not learn: its loss is that of guessing, within 1 %": all(
            abs(loss / math.log(CLASSES) - 1) < 0.01 for loss in losses(rows, MEAN, deepest)
        ),
        "from Xavier's weights it does, a little: the loss is below that, in the mean of the seeds": gain[MEAN][0] < 0,
        "at λ = 1 fewer than one gradient in a hundred is clipped, and little changes": (
            clipped(rows, "clipping 1", deepest) < 0.01 and abs(gain["clipping 1"][0]) < 0.2 * gain[ITERATIVE][0]
        ),
        "clipping at λ = 0.1 gains less than half of what iterative orthogonalization does": (
            gain["clipping 0.1"][0] < 0.5 * gain[ITERATIVE][0]
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The thesis shows curves without numbers, and says which arm helps."""
    deepest = max(row.layers for row in rows)
    reasons = {
        ITERATIVE: "",
        MEAN: "stated not to help",
        ORTHOGONAL: "stated not to help, of weights with the mean singular value; these have gain √2",
        **{
            name: f"stated to help; {clipped(rows, name, deepest):.1%} of the gradients are clipped at this rate"
            for name in CLIPPED
        },
    }
    most = statistics.fmean(advantage(rows, ITERATIVE, deepest))
    evidence = []
    for arm, reason in reasons.items():
        found = student_interval(advantage(rows, arm, deepest))
        # Not to help is more than not to be seen to help: what is possible is little beside what the best arm gains.
        agrees = found[2] < LITTLE * most if arm in (MEAN, ORTHOGONAL) else found[1] > 0
        ends = f"loss {statistics.fmean(losses(rows, XAVIER, deepest)):.3f}"
        ends += f" and {statistics.fmean(losses(rows, arm, deepest)):.3f}; width {rows[0].width}"
        name = f"loss from Xavier's weights minus that of {arm}, {deepest} layers"
        why = f"{reason}; {ends}" if reason else ends
        evidence.append(Evidence(name, None, *found, "agrees" if agrees else "differs", why))
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    finite = [row for row in rows if math.isfinite(row.loss)]
    up = (0.9 * min(row.loss for row in finite), 1.1 * math.log(CLASSES))
    curves = [averaged(arm, [(r.layers, r.loss) for r in finite if r.arm == arm], of=student_interval) for arm in ARMS]
    panel = Panel(
        f"Against the slowdown with depth, width {rows[0].width}",
        f"training loss, mean and 95% interval of {seeds} runs",
        "layers",
        curves,
        [("guessing", math.log(CLASSES))],
        y_range=up,
    )
    return [panel]
