"""Lu et al. (2024), appendix, Table 4: PII with normalisation, with skip connections, with both, with neither.

The paper prints PII (mean |cosine| of two weight vectors) of three hidden layers, not which network, data or optimizer
they are of. Here both a fully connected network and a convolutional one learn CIFAR-10 by Adam, each arm at its best
learning rate of as many trials, in a short training; accuracy is measured too. The paper's explanation, that
normalisation brings units and so the gradients of two vectors closer together, is wrong: see the errata of its
Theorem 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from orthoscope.papers.cifar100 import CIFAR100
from orthoscope.papers.drawing import Panel, Series, figure
from orthoscope.papers.evidence import Evidence, interval, trend
from orthoscope.papers.lu2024.independence import by_seed
from orthoscope.papers.lu2024.networks import HIDDEN
from orthoscope.papers.lu2024.normalised_residual import (
    ARMS,
    BOTH,
    CONNECTED,
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
from orthoscope.theory import random_parameter_independence

CLAIM = (
    "In a convolutional network normalisation lowers the PII that training ends with, skip connections lower it too, "
    "and so do both together, though not decidedly more than one of them; accuracy rises with normalisation. In a "
    "fully connected network, at the best learning rate, PII hardly moves, with either or without."
)
KIND = "training"
DATA = ("cifar10",)
FULL_DATA = ("cifar100",)
OPTIMIZER = "Adam"
NETWORKS = CONNECTED, CONVOLUTIONAL

# PII of the three hidden layers, as printed.
PRINTED = {
    ORIGINAL: (0.131, 0.148, 0.153),
    "normalisation": (0.100, 0.107, 0.128),
    "residual": (0.111, 0.137, 0.147),
    BOTH: (0.079, 0.090, 0.107),
}


@dataclass(frozen=True, kw_only=True)
class Config(Setting):
    networks: tuple[str, ...] = NETWORKS
    optimizers: tuple[str, ...] = (OPTIMIZER,)
    arms: tuple[str, ...] = tuple(ARMS)


QUICK = Config(dataset="digits", samples=1200, held_out=200, test=300, width=64, steps=120, multiples=(3.0,))
# The dataset of the other tables; epochs and batches are not printed, so these 50 epochs of 128 are a choice.
FULL = Config(dataset=CIFAR100, samples=48_000, held_out=2000, test=10_000, maps=64, steps=18_750, batch=128)


def run(config: Config) -> list[Row]:
    """Both networks, all four arms, every rate and seed."""
    return rows_of(config)


def cells(config: Config) -> list[Config]:
    """One network, arm and seed each."""
    return [
        replace(config, networks=(network,), optimizers=(optimizer,), arms=(arm,), seeds=(seed,))
        for network, optimizer, arm, seed in product(config.networks, config.optimizers, config.arms, config.seeds)
    ]


def pii(row: Row) -> float:
    return row.pii


def accuracy(row: Row) -> float:
    return row.accuracy


def check(rows: list[Row]) -> dict[str, bool]:
    """Differences from the original network of the same seed, by their intervals of two standard errors."""
    added = [arm for arm in ARMS if arm != ORIGINAL]
    change = {
        (network, arm): interval(gains(rows, network, OPTIMIZER, arm, pii)) for network in NETWORKS for arm in added
    }
    better = {arm: interval(gains(rows, CONVOLUTIONAL, OPTIMIZER, arm, accuracy)) for arm in added}
    dimension = next(row.dimension for row in rows if row.network == CONNECTED)
    return {
        "convolutional: normalisation alone lowers PII": change[CONVOLUTIONAL, "normalisation"][2] < 0,
        "convolutional: skip connections alone lower PII": change[CONVOLUTIONAL, "residual"][2] < 0,
        "convolutional: both together lower PII": change[CONVOLUTIONAL, BOTH][2] < 0,
        "convolutional: with normalisation, alone or with skip connections, accuracy is higher": all(
            better[arm][1] > 0 for arm in ("normalisation", BOTH)
        ),
        "fully connected: no arm moves PII from the original's by a twentieth of that of random vectors": all(
            max(-change[CONNECTED, arm][1], change[CONNECTED, arm][2]) < random_parameter_independence(dimension) / 20
            for arm in added
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Every printed cell beside the fully connected network, and the statements of the caption for both networks."""
    found = []
    for arm, layer in product(ARMS, range(1, HIDDEN + 1)):
        own = [row for row in best(rows, CONNECTED, OPTIMIZER, arm) if row.layer == layer]
        found.append(cell(f"PII, {arm}, layer {layer}", PRINTED[arm][layer - 1], by_seed(own, pii), rows[0].dataset))
    for network in NETWORKS:
        for arm in ("normalisation", "residual"):
            quantity = f"{network}: {arm} alone lowers PII (with less without)"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, arm, pii), -1))
        for arm in ("normalisation", "residual"):
            quantity = f"{network}: both lower PII more than {arm} alone"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, BOTH, pii, base=arm), -1))
        for arm in ("normalisation", "residual", BOTH):
            quantity = f"{network}: {arm} raises accuracy (with less without)"
            found.append(trend(quantity, gains(rows, network, OPTIMIZER, arm, accuracy), 1))
    return found


def plot(rows: list[Row]) -> str:
    """PII by layer at the best rate, and accuracy against the rate, for both networks."""
    panels = [_by_layer(rows, network) for network in NETWORKS]
    return figure(panels + [_accuracies(rows, network) for network in NETWORKS])


def _by_layer(rows: Sequence[Row], network: str) -> Panel:
    layers, seeds = range(1, HIDDEN + 1), len({row.seed for row in rows})
    series = []
    for arm in ARMS:
        own = best(rows, network, OPTIMIZER, arm)
        ends = [interval([row.pii for row in own if row.layer == layer]) for layer in layers]
        label = f"{arm}, learning rate {own[0].learning_rate:g}"
        series.append(Series(label, layers, *zip(*ends, strict=True)))
    dimension = next(row.dimension for row in rows if row.network == network)
    random = random_parameter_independence(dimension)
    return Panel(
        f"{network}, {rows[0].dataset}",
        f"PII after training, mean ± 2 s.e. of {seeds} seeds",
        "hidden layer",
        (0.8, HIDDEN + 0.2),
        (0, 1.2 * max(random, *(high for line in series for high in line.high))),
        series,
        [("random vectors", random)],
    )


def _accuracies(rows: Sequence[Row], network: str) -> Panel:
    multiples, seeds = sorted({row.multiple for row in rows}), len({row.seed for row in rows})
    own = [row for row in rows if row.network == network]
    return Panel(
        f"{network}, {rows[0].dataset}",
        f"accuracy on test images, mean ± 2 s.e. of {seeds} seeds",
        f"learning rate, in multiples of {OPTIMIZER}'s own",
        (multiples[0] / 1.5, multiples[-1] * 1.5),
        (0, 1),
        [against_rates([row for row in own if row.arm == arm], arm, accuracy) for arm in ARMS],
        logarithmic_across=True,
    )
