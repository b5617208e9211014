"""Lu et al. (2024), appendix, Tables 3 and 4: what normalization and skip connections do to PII and accuracy.

PII is the mean |cosine| of two weight vectors of a layer. For Table 3 the paper trains a CNN with GELU on CIFAR-100 by
Adam and by SGD, with and without both, and finds a lower PII and a higher accuracy with both. For Table 4 it prints PII
of three hidden layers with either, both or none, not which network, data or optimizer they are of: here a fully
connected network and a convolutional one learn by Adam. CIFAR-10 stands in for CIFAR-100 (the full settings read
CIFAR-100 from disk), every arm has its best learning rate of as many trials, and training is short. The paper's
explanation, that normalization brings units and so the gradients of two vectors closer together, is wrong: see the
errata of its Theorem 3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import torch

from orthoscope.theory import random_parameter_independence
from orthoscope_papers.datasets import CIFAR100
from orthoscope_papers.evidence import Evidence, interval, trend
from orthoscope_papers.experiments import Figure
from orthoscope_papers.lu2024.independence import OPTIMIZERS, at_best_rate, by_seed, printed_number, trained
from orthoscope_papers.lu2024.networks import HIDDEN, Images, Network, convolutional, fully_connected, images
from orthoscope_papers.panels import Panel, Series, averaged

KIND = "training"
DATA = ("cifar10",)
FULL_DATA = ("cifar100",)
CONVOLUTIONAL, CONNECTED = "convolutional", "fully connected"
ORIGINAL, BOTH = "original", "norm_residual"
# Is the network normalized, and has it skips.
ARMS = {
    ORIGINAL: (False, False),
    "normalization": (True, False),
    "residual": (False, True),
    BOTH: (True, True),
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """What is compared, and a training; the tables differ in both."""

    networks: tuple[str, ...]
    optimizers: tuple[str, ...]
    arms: tuple[str, ...]
    dataset: str = "cifar10"  # in place of CIFAR-100
    samples: int = 8000
    held_out: int = 1000
    test: int = 1000
    maps: int = 16
    width: int = 128
    steps: int = 300
    batch: int = 32
    multiples: tuple[float, ...] = (0.3, 1.0, 3.0)  # of the optimizer's learning rate
    seeds: tuple[int, ...] = tuple(range(3))


class Row(NamedTuple):
    """One hidden layer of a trained network."""

    dataset: str
    network: str
    optimizer: str
    arm: str
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


def cells(config: Config) -> list[Config]:
    """One network, optimizer, arm and seed each."""
    return [
        replace(config, networks=(network,), optimizers=(optimizer,), arms=(arm,), seeds=(seed,))
        for network, optimizer, arm, seed in product(config.networks, config.optimizers, config.arms, config.seeds)
    ]


def run(config: Config) -> list[Row]:
    """Every network, optimizer, arm and rate from every seed; arms begin with the same weights, see the same data."""
    data = images(config.dataset, config.samples, config.held_out, config.test)
    choices = product(config.networks, config.optimizers, config.arms, config.seeds, config.multiples)
    rows = []
    for kind, optimizer, arm, seed, multiple in choices:
        network = _network(config, data, kind, arm, torch.Generator().manual_seed(seed))
        result = trained(network, data, optimizer, multiple, config.steps, config.batch, seed)
        context = (config.dataset, kind, optimizer, arm, multiple, multiple * OPTIMIZERS[optimizer][0], seed)
        rows += [Row(*context, *layer, result.held_out, result.accuracy) for layer in result.layers]
    return rows


def _network(config: Config, data: Images, kind: str, arm: str, generator: torch.Generator) -> Network:
    shape = data.inputs.shape[1:]
    if kind == CONVOLUTIONAL:
        return convolutional(shape[0], config.maps, data.classes, *ARMS[arm], generator)
    return fully_connected(shape.numel(), config.width, data.classes, *ARMS[arm], generator)


def best(rows: Sequence[Row], network: str, optimizer: str, arm: str) -> list[Row]:
    """The rows of an arm at its best rate."""
    return at_best_rate([r for r in rows if (r.network, r.optimizer, r.arm) == (network, optimizer, arm)])


def gains(
    rows: Sequence[Row], network: str, optimizer: str, arm: str, number: Callable[[Row], float], base: str = ORIGINAL
) -> list[float]:
    """By how much an arm exceeds another in a number (mean over its layers), seed by seed, each at its best rate."""
    theirs, ours = (by_seed(best(rows, network, optimizer, own), number) for own in (base, arm))
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def against_rates(rows: Sequence[Row], name: str, number: Callable[[Row], float]) -> Series:
    """A number of one arm (mean over layers) against the learning rate, with intervals over seeds."""
    multiples = sorted({row.multiple for row in rows})
    return averaged(name, {each: by_seed([r for r in rows if r.multiple == each], number) for each in multiples})


def pii(row: Row) -> float:
    return row.pii


def accuracy(row: Row) -> float:
    return row.accuracy


# Table 3.

# PII and accuracy, each without and with both, as printed.
PRINTED_3 = {"Adam": ((0.212, 0.154), (0.3938, 0.4943)), "SGD": ((0.194, 0.166), (0.5159, 0.5334))}


def check_3(rows: list[Row]) -> dict[str, bool]:
    """Differences of the two arms from the same seed, by their intervals of two standard errors."""
    lower = {name: interval(gains(rows, CONVOLUTIONAL, name, BOTH, pii)) for name in PRINTED_3}
    better = {name: interval(gains(rows, CONVOLUTIONAL, name, BOTH, accuracy)) for name in PRINTED_3}
    return {
        "with both, PII ends lower than without, with Adam and with SGD": all(
            high < 0 for _, _, high in lower.values()
        ),
        "with both, accuracy is higher than without, with Adam and with SGD": all(
            low > 0 for _, low, _ in better.values()
        ),
    }


def compare_3(rows: list[Row]) -> list[Evidence]:
    """Every printed cell, then the two statements of the caption for each optimizer."""
    found = []
    for optimizer, (place, arm) in product(PRINTED_3, enumerate((ORIGINAL, BOTH))):
        own = best(rows, CONVOLUTIONAL, optimizer, arm)
        for name, number, column in (("PII", pii, 0), ("accuracy", accuracy, 1)):
            quantity = f"{name}, {optimizer}, {arm}"
            found.append(
                printed_number(quantity, PRINTED_3[optimizer][column][place], by_seed(own, number), rows[0].dataset)
            )
    for optimizer in PRINTED_3:
        for statement, number, sign in (("lower PII", pii, -1), ("raise accuracy", accuracy, 1)):
            differences = gains(rows, CONVOLUTIONAL, optimizer, BOTH, number)
            found.append(trend(f"{optimizer}: both together {statement} (with less without)", differences, sign))
    return found


def plot_3(rows: list[Row]) -> list[Panel]:
    """PII and accuracy against the learning rate, with and without."""
    seeds = len({row.seed for row in rows})
    panels = []
    for title, number in (("PII, mean of three hidden convolutions", pii), ("Accuracy on test images", accuracy)):
        series = [
            against_rates([r for r in rows if (r.optimizer, r.arm) == (name, arm)], f"{name}, {arm}", number)
            for name, arm in product(PRINTED_3, (ORIGINAL, BOTH))
        ]
        start = [("start", by_seed(rows, lambda row: row.pii_at_start)[0])] if number is pii else []
        panels.append(
            Panel(
                f"{title}, {rows[0].dataset}",
                f"mean ± 2 s.e. of {seeds} seeds",
                "learning rate, in multiples of each optimizer's own",
                series,
                start,
                y_range=(0, 1.1 * max(high for line in series for high in line.high)),
                log_x=True,
            )
        )
    return panels


# Table 4.

OPTIMIZER = "Adam"
NETWORKS = CONNECTED, CONVOLUTIONAL
# PII of the three hidden layers, as printed.
PRINTED_4 = {
    ORIGINAL: (0.131, 0.148, 0.153),
    "normalization": (0.100, 0.107, 0.128),
    "residual": (0.111, 0.137, 0.147),
    BOTH: (0.079, 0.090, 0.107),
}


def check_4(rows: list[Row]) -> dict[str, bool]:
    """Differences from the original network of the same seed, by their intervals of two standard errors."""
    added = [arm for arm in ARMS if arm != ORIGINAL]
    change = {
        (network, arm): interval(gains(rows, network, OPTIMIZER, arm, pii)) for network in NETWORKS for arm in added
    }
    better = {arm: interval(gains(rows, CONVOLUTIONAL, OPTIMIZER, arm, accuracy)) for arm in added}
    dimension = next(row.dimension for row in rows if row.network == CONNECTED)
    return {
        "convolutional: normalization alone lowers PII": change[CONVOLUTIONAL, "normalization"][2] < 0,
        "convolutional: skip connections alone lower PII": change[CONVOLUTIONAL, "residual"][2] < 0,
        "convolutional: both together lower PII": change[CONVOLUTIONAL, BOTH][2] < 0,
        "convolutional: with normalization, alone or with skip connections, accuracy is higher": all(
            better[arm][1] > 0 for arm in ("normalization", BOTH)
        ),
        "fully connected: no arm moves PII from the original's by a twentieth of that of random vectors": all(
            max(-change[CONNECTED, arm][1], change[CONNECTED, arm][2]) < random_parameter_independence(dimension) / 20
            for arm in added
        ),
    }


def compare_4(rows: list[Row]) -> list[Evidence]:
    """Every printed cell beside the fully connected network, and the statements of the caption for both networks."""
    found = []
    for arm, layer in product(ARMS, range(1, HIDDEN + 1)):
        own = [row for row in best(rows, CONNECTED, OPTIMIZER, arm) if row.layer == layer]
        found.append(
            printed_number(f"PII, {arm}, layer {layer}", PRINTED_4[arm][layer - 1], by_seed(own, pii), rows[0].dataset)
        )
    for network in NETWORKS:
        for arm in ("normalization", "residual"):
            quantity = f"{network}: {arm} alone lowers PII (with less without)"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, arm, pii), -1))
        for arm in ("normalization", "residual"):
            quantity = f"{network}: both lower PII more than {arm} alone"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, BOTH, pii, base=arm), -1))
        for arm in ("normalization", "residual", BOTH):
            quantity = f"{network}: {arm} raises accuracy (with less without)"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, arm, accuracy), 1))
    return found


def plot_4(rows: list[Row]) -> list[Panel]:
    """PII by layer at the best rate, and accuracy against the rate, for both networks."""
    panels = [_by_layer(rows, network) for network in NETWORKS]
    return panels + [_accuracies(rows, network) for network in NETWORKS]


def _by_layer(rows: Sequence[Row], network: str) -> Panel:
    seeds = len({row.seed for row in rows})
    series = []
    for arm in ARMS:
        own = best(rows, network, OPTIMIZER, arm)
        label = f"{arm}, learning rate {own[0].learning_rate:g}"
        series.append(averaged(label, [(row.layer, row.pii) for row in own]))
    dimension = next(row.dimension for row in rows if row.network == network)
    random = random_parameter_independence(dimension)
    return Panel(
        f"{network}, {rows[0].dataset}",
        f"PII after training, mean ± 2 s.e. of {seeds} seeds",
        "hidden layer",
        series,
        [("random vectors", random)],
        y_range=(0, 1.2 * max(random, *(high for line in series for high in line.high))),
    )


def _accuracies(rows: Sequence[Row], network: str) -> Panel:
    seeds = len({row.seed for row in rows})
    own = [row for row in rows if row.network == network]
    return Panel(
        f"{network}, {rows[0].dataset}",
        f"accuracy on test images, mean ± 2 s.e. of {seeds} seeds",
        f"learning rate, in multiples of {OPTIMIZER}'s own",
        [against_rates([row for row in own if row.arm == arm], arm, accuracy) for arm in ARMS],
        y_range=(0, 1),
        log_x=True,
    )


# Six seeds and 450 steps: with SGD three seeds and 300 steps did not decide.
COMPARED_3 = Config(
    networks=(CONVOLUTIONAL,), optimizers=("Adam", "SGD"), arms=(ORIGINAL, BOTH), steps=450, seeds=tuple(range(6))
)
COMPARED_4 = Config(networks=NETWORKS, optimizers=(OPTIMIZER,), arms=tuple(ARMS))
DIGITS: dict[str, Any] = {"dataset": "digits", "samples": 1200, "held_out": 200, "test": 300}
# The paper's dataset; it prints neither epochs nor batches, so these 50 epochs of 128 are a choice.
LARGE: dict[str, Any] = {
    "dataset": CIFAR100,
    "samples": 48_000,
    "held_out": 2000,
    "test": 10_000,
    "maps": 64,
    "steps": 18_750,
    "batch": 128,
}

table_3 = Figure(
    claim="Normalization and skip connections together lower the PII that training ends with, and raise the accuracy, "
    "with Adam as with SGD.",
    default=COMPARED_3,
    quick=replace(COMPARED_3, steps=100, multiples=(2.0,), seeds=(0, 1, 2), **DIGITS),
    full=replace(COMPARED_3, **LARGE),
    check=check_3,
    compare=compare_3,
    plot=plot_3,
)
table_4 = Figure(
    claim="In a convolutional network normalization lowers the PII that training ends with, skip connections lower it "
    "too, and so do both together, though not decidedly more than one of them; accuracy rises with normalization. "
    "In a fully connected network, at the best learning rate, PII hardly moves, with either or without.",
    default=COMPARED_4,
    quick=replace(COMPARED_4, width=64, steps=120, multiples=(3.0,), **DIGITS),
    full=replace(COMPARED_4, **LARGE),
    check=check_4,
    compare=compare_4,
    plot=plot_4,
)
