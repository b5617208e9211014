"""Lu et al. (2024), appendix, Table 3: what normalisation and skip connections together do to PII and accuracy.

The paper trains a CNN with GELU on CIFAR-100 by Adam and by SGD, with and without both, and finds a lower PII (mean
|cosine| of two filters) and a higher accuracy with both. Here CIFAR-10 stands in for CIFAR-100 (the full configuration
reads CIFAR-100 from disk), every arm has its best learning rate of as many trials, and training is short. PII is the
mean over three hidden convolutions. The paper's explanation, that normalisation brings units and so the gradients of
two vectors closer together, is wrong: see the errata of its Theorem 3.
"""

from dataclasses import dataclass, replace
from itertools import product

from orthoscope.papers.cifar100 import CIFAR100
from orthoscope.papers.drawing import Panel, figure
from orthoscope.papers.evidence import Evidence, interval, trend
from orthoscope.papers.lu2024.independence import by_seed
from orthoscope.papers.lu2024.normalised_residual import (
    BOTH,
    CONVOLUTIONAL,
    ORIGINAL,
    Row,
    Setting,
    against_rates,
    best,
    gains,
    rows_of,
)
from orthoscope.papers.lu2024.printed import cell

CLAIM = (
    "Normalisation and skip connections together lower the PII that training ends with, and raise the accuracy, "
    "with Adam as with SGD."
)
KIND = "training"
DATA = ("cifar10",)
FULL_DATA = ("cifar100",)

# PII and accuracy, each without and with both, as printed.
PRINTED = {"Adam": ((0.212, 0.154), (0.3938, 0.4943)), "SGD": ((0.194, 0.166), (0.5159, 0.5334))}


@dataclass(frozen=True, kw_only=True)
class Config(Setting):
    networks: tuple[str, ...] = (CONVOLUTIONAL,)
    optimizers: tuple[str, ...] = ("Adam", "SGD")
    arms: tuple[str, ...] = (ORIGINAL, BOTH)
    steps: int = 450  # with SGD 300 steps and three seeds did not decide
    seeds: tuple[int, ...] = tuple(range(6))


QUICK = Config(dataset="digits", samples=1200, held_out=200, test=300, steps=100, multiples=(2.0,), seeds=(0, 1, 2))
# The paper's dataset; it prints neither epochs nor batches, so these 50 epochs of 128 are a choice.
FULL = Config(dataset=CIFAR100, samples=48_000, held_out=2000, test=10_000, maps=64, steps=18_750, batch=128)


def run(config: Config) -> list[Row]:
    """Both optimizers, both arms, every rate and seed."""
    return rows_of(config)


def cells(config: Config) -> list[Config]:
    """One optimizer, arm and seed each."""
    return [
        replace(config, optimizers=(optimizer,), arms=(arm,), seeds=(seed,))
        for optimizer, arm, seed in product(config.optimizers, config.arms, config.seeds)
    ]


def pii(row: Row) -> float:
    return row.pii


def accuracy(row: Row) -> float:
    return row.accuracy


def check(rows: list[Row]) -> dict[str, bool]:
    """Differences of the two arms from the same seed, by their intervals of two standard errors."""
    lower = {name: interval(gains(rows, CONVOLUTIONAL, name, BOTH, pii)) for name in PRINTED}
    better = {name: interval(gains(rows, CONVOLUTIONAL, name, BOTH, accuracy)) for name in PRINTED}
    return {
        "with both, PII ends lower than without, with Adam and with SGD": all(
            high < 0 for _, _, high in lower.values()
        ),
        "with both, accuracy is higher than without, with Adam and with SGD": all(
            low > 0 for _, low, _ in better.values()
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Every printed cell, then the two statements of the caption for each optimizer."""
    found = []
    for optimizer, (place, arm) in product(PRINTED, enumerate((ORIGINAL, BOTH))):
        own = best(rows, CONVOLUTIONAL, optimizer, arm)
        for name, number, column in (("PII", pii, 0), ("accuracy", accuracy, 1)):
            quantity = f"{name}, {optimizer}, {arm}"
            found.append(cell(quantity, PRINTED[optimizer][column][place], by_seed(own, number), rows[0].dataset))
    for optimizer in PRINTED:
        for statement, number, sign in (("lower PII", pii, -1), ("raise accuracy", accuracy, 1)):
            differences = gains(rows, CONVOLUTIONAL, optimizer, BOTH, number)
            found.append(trend(f"{optimizer}: both together {statement} (with less without)", differences, sign))
    return found


def plot(rows: list[Row]) -> str:
    """PII and accuracy against the learning rate, with and without."""
    seeds, multiples = len({row.seed for row in rows}), sorted({row.multiple for row in rows})
    panels = []
    for title, number in (("PII, mean of three hidden convolutions", pii), ("Accuracy on test images", accuracy)):
        series = [
            against_rates([r for r in rows if (r.optimizer, r.arm) == (name, arm)], f"{name}, {arm}", number)
            for name, arm in product(PRINTED, (ORIGINAL, BOTH))
        ]
        start = [("start", by_seed(rows, lambda row: row.pii_at_start)[0])] if number is pii else []
        panels.append(
            Panel(
                f"{title}, {rows[0].dataset}",
                f"mean ± 2 s.e. of {seeds} seeds",
                "learning rate, in multiples of each optimizer's own",
                (multiples[0] / 1.5, multiples[-1] * 1.5),
                (0, 1.1 * max(high for line in series for high in line.high)),
                series,
                start,
                logarithmic_across=True,
            )
        )
    return figure(panels)
