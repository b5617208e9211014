"""Lu et al. (2024), appendix, Table 2: PII before and after training by four optimizers, from parallel and random rows.

The paper trains a CNN on CIFAR-100. Of three layers the first begins with parallel weight vectors (PII 1), the others
with random ones (0.070 and 0.050, which are 128 and 256 components), and the optimizer that changes these numbers least
is called the most conformal. Here CIFAR-10 stands in for CIFAR-100 (the full configuration reads CIFAR-100 from disk),
learning rates, which the paper does not print, are the best of as many trials for each optimizer; training is short.
PII is the mean |cosine| of two rows. That a small change means a conformal update is not so: see the errata
lu2024-theorem-2-translation to -adam-steps, and `lu2024/optimizer_updates`, which measures angles.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch

from orthoscope.theory import random_parameter_independence
from orthoscope_papers.datasets import CIFAR100
from orthoscope_papers.evidence import Evidence, interval, trend
from orthoscope_papers.lu2024.independence import OPTIMIZERS, at_best_rate, by_seed, printed_number, trained
from orthoscope_papers.lu2024.networks import images, three_layers
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "From parallel rows SGD leaves PII highest, from random rows it raises PII least; Adam and AdamW are comparable, "
    "and RMSprop is near them from random rows. That this makes SGD the most conformal is the paper's reading: PII "
    "says nothing of angles that change both ways, and no optimizer keeps them."
)
KIND = "training"
DATA = ("cifar10",)
FULL_DATA = ("cifar100",)

# PII after training as printed, layers 1, 2 and 3.
PRINTED = {
    "SGD": (0.858, 0.121, 0.062),
    "Adam": (0.333, 0.324, 0.152),
    "AdamW": (0.352, 0.311, 0.166),
    "RMSprop": (0.384, 0.309, 0.154),
}
PRINTED_STARTS = (1.0, 0.070, 0.050)
ADAPTIVE = tuple(name for name in PRINTED if name != "SGD")


@dataclass(frozen=True)
class Config:
    dataset: str = "cifar10"  # in place of CIFAR-100
    samples: int = 8000
    held_out: int = 1000
    test: int = 1000
    maps: int = 8  # of the first convolution; the second has twice as many
    steps: int = 500
    batch: int = 32
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS)
    multiples: tuple[float, ...] = (0.3, 1.0, 3.0)  # of the optimizer's learning rate
    seeds: tuple[int, ...] = tuple(range(3))


QUICK = Config(dataset="digits", samples=1200, held_out=200, test=300, maps=8, steps=50, multiples=(1.0,), seeds=(0, 1))
# The paper's dataset; it prints neither epochs nor batches, so these 50 epochs of 128 are a choice.
FULL = Config(dataset=CIFAR100, samples=48_000, held_out=2000, test=10_000, maps=32, steps=18_750, batch=128)


class Row(NamedTuple):
    """One of the three layers of a trained network."""

    dataset: str
    optimizer: str
    multiple: float
    learning_rate: float
    seed: int
    layer: int
    dimension: int
    pii_at_start: float
    pii: float
    moved: float  # ‖W - W₀‖/‖W₀‖
    held_out: float  # accuracy by which the rate is chosen
    accuracy: float  # on test images


def run(config: Config) -> list[Row]:
    """Every optimizer from every seed at every rate; networks and batches depend on the seed alone."""
    data = images(config.dataset, config.samples, config.held_out, config.test)
    rows = []
    for optimizer, seed, multiple in product(config.optimizers, config.seeds, config.multiples):
        generator = torch.Generator().manual_seed(seed)
        network = three_layers(data.inputs.shape[1], config.maps, data.classes, generator)
        result = trained(network, data, optimizer, multiple, config.steps, config.batch, seed)
        context = (config.dataset, optimizer, multiple, multiple * OPTIMIZERS[optimizer][0], seed)
        rows += [Row(*context, *layer, result.held_out, result.accuracy) for layer in result.layers]
    return rows


def cells(config: Config) -> list[Config]:
    """One optimizer and seed each."""
    return [
        replace(config, optimizers=(name,), seeds=(seed,)) for name, seed in product(config.optimizers, config.seeds)
    ]


def after(rows: Sequence[Row], optimizer: str, layer: int) -> list[float]:
    """PII after training at the optimizer's best rate, seed by seed."""
    best = at_best_rate([row for row in rows if row.optimizer == optimizer])
    return by_seed([row for row in best if row.layer == layer], lambda row: row.pii)


def differences(rows: Sequence[Row], optimizer: str, layer: int) -> list[float]:
    """PII after training by the optimizer less that after SGD, from the same start."""
    return [a - b for a, b in zip(after(rows, optimizer, layer), after(rows, "SGD", layer), strict=True)]


def check(rows: list[Row]) -> dict[str, bool]:
    """By differences from the same start, whose interval of two standard errors must be on one side of zero."""
    random = [row for row in rows if row.layer > 1]
    return {
        "rows of the first layer begin parallel: PII is 1 to rounding": all(
            abs(row.pii_at_start - 1) < 1e-6 for row in rows if row.layer == 1
        ),
        "random rows begin with the PII of random vectors of their dimension, to 2%": all(
            abs(row.pii_at_start / random_parameter_independence(row.dimension) - 1) < 0.02 for row in random
        ),
        "from parallel rows SGD leaves a higher PII than any adaptive optimizer": all(
            interval(differences(rows, name, 1))[2] < 0 for name in ADAPTIVE
        ),
        "from random rows SGD leaves a lower PII than any adaptive optimizer, in both layers": all(
            interval(differences(rows, name, layer))[1] > 0 for name in ADAPTIVE for layer in (2, 3)
        ),
        "Adam and AdamW leave PII within a quarter of each other, in every layer": all(
            0.75 < interval(after(rows, "AdamW", layer))[0] / interval(after(rows, "Adam", layer))[0] < 1.33
            for layer in (1, 2, 3)
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Every printed cell, then the three statements of the caption."""
    dataset = rows[0].dataset
    found = [_start(rows, layer) for layer in (2, 3)]
    for name, layer in product(PRINTED, (1, 2, 3)):
        quantity = f"PII of layer {layer} after {name}"
        found.append(printed_number(quantity, PRINTED[name][layer - 1], after(rows, name, layer), dataset))
    for layer, sign, place in ((1, -1, "lower"), (2, 1, "higher"), (3, 1, "higher")):
        means = {name: interval(differences(rows, name, layer))[0] for name in ADAPTIVE}
        closest = min(means, key=lambda name: sign * means[name])
        quantity = f"layer {layer}: adaptive optimizers end {place} than SGD ({closest}, the closest, less SGD)"
        found.append(trend(quantity, differences(rows, closest, layer), sign))
    return found


def _start(rows: Sequence[Row], layer: int) -> Evidence:
    own = [row for row in rows if row.layer == layer]
    expected = random_parameter_independence(own[0].dimension)
    ours, low, high = interval(by_seed(own, lambda row: row.pii_at_start))
    # Printed to three decimals and cut off, not rounded: 0.0707 as 0.070.
    agrees = low < PRINTED_STARTS[layer - 1] + 0.001 and high >= PRINTED_STARTS[layer - 1]
    why = f"closed form for {own[0].dimension} components: {expected:.4f}"
    quantity = f"PII of random rows, layer {layer}, at the start"
    return Evidence(quantity, PRINTED_STARTS[layer - 1], ours, low, high, "agrees" if agrees else "differs", why)


def plot(rows: list[Row]) -> list[Panel]:
    """PII after training against the learning rate, one panel a layer, with the level at the start."""
    seeds = len({row.seed for row in rows})
    panels = []
    for layer in (1, 2, 3):
        own = [row for row in rows if row.layer == layer]
        level = 1.0 if layer == 1 else random_parameter_independence(own[0].dimension)
        title = f"Layer {layer}, {'parallel' if layer == 1 else 'random'} rows, {rows[0].dataset}"
        measure = f"PII after training, mean ± 2 s.e. of {seeds} seeds"
        series = [_series(own, name) for name in PRINTED]
        highest = max([level, *(row.pii for row in own)]) * 1.1
        panels.append(
            Panel(
                title,
                measure,
                "learning rate, in multiples of each optimizer's own",
                series,
                [("start", level)],
                y_range=(0, highest),
                log_x=True,
            )
        )
    return panels


def _series(rows: Sequence[Row], name: str) -> Series:
    own = [row for row in rows if row.optimizer == name]
    best = at_best_rate(own)[0].learning_rate
    return averaged(f"{name}, best at {best:g}", [(row.multiple, row.pii) for row in own])
