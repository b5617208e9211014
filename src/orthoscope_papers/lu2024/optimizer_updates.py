"""Lu et al. (2024), Theorem 2 and Table 2 of the appendix: which optimizer keeps the angles between weight vectors.

The paper calls an optimizer conformal that keeps angles, argues that one does so the more, the more alike it moves two
vectors, and prints PII (mean |cosine| of two rows) before and after training for SGD, Adam, AdamW and RMSprop. Here one
network learns the digits by five optimizers at several learning rates. At steps spread evenly in log time the hidden
weights are compared with those at the start, and with those one step before.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from orthoscope.data import load
from orthoscope.metrics.updates import (
    angle_change,
    conformality_defect,
    relative_size,
    semi_orthogonality_defect,
    translation_defect,
)
from orthoscope.metrics.weights import parameter_independence
from orthoscope.models import MLP
from orthoscope.optim import Muon, muon_parameter_groups
from orthoscope.training import Step, minibatches, train
from orthoscope_papers.evidence import Evidence
from orthoscope_papers.evidence import interval as two_errors
from orthoscope_papers.lu2024.low_rank_update import interval, three_errors
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "No optimizer is conformal: a step turns the angle of two rows by 0.9 (SGD) to 1.15 (AdamW) of what a random step "
    "of its length does. As printed, training by Adam or AdamW raises PII more than by SGD (by 0.008 and 0.010 against "
    "0.002, from 0.07), mostly because it goes further. Moving rows alike is not what keeps angles: Muon moves them "
    "the least alike, goes four times as far as SGD, turns angles the least per distance, and raises PII by 0.0025."
)
KIND = "training"

PIXELS = 64
# The learning rates tried are multiples of these.
OPTIMIZERS: Mapping[str, tuple[float, Callable[[nn.Module, float], Optimizer]]] = {
    "SGD": (0.3, lambda model, rate: SGD(model.parameters(), rate)),
    "SGD, momentum 0.9": (0.03, lambda model, rate: SGD(model.parameters(), rate, momentum=0.9)),
    "Adam": (3e-3, lambda model, rate: Adam(model.parameters(), rate)),
    "AdamW": (3e-3, lambda model, rate: AdamW(model.parameters(), rate, weight_decay=0.1)),
    "Muon": (0.01, lambda model, rate: _muon(model, rate)),
}


def _muon(model: nn.Module, rate: float) -> Optimizer:
    """The head and biases follow its AdamW at one rate. The method by name: "auto" may mean another one elsewhere."""
    return Muon(muon_parameter_groups(model), lr=rate, method="polar_express", adamw_lr=1e-3)


@dataclass(frozen=True)
class Config:
    width: int = 128
    depth: int = 3
    multiples: tuple[float, ...] = (0.3, 1.0, 3.0)  # of the optimizer's learning rate
    measured: tuple[int, ...] = (1, 3, 10, 30, 100, 300)  # steps; the last ends training
    batch: int = 64
    num_seeds: int = 6


QUICK = Config(width=96, depth=2, multiples=(1.0,), measured=(1, 10, 100), num_seeds=3)


class Row(NamedTuple):
    """A hidden weight after a step: against its start, and against the step before."""

    optimizer: str
    multiple: float
    learning_rate: float
    seed: int
    width: int
    step: int
    layer: int
    loss: float  # of the batch of this step
    accuracy: float  # on unseen digits
    pii: float
    pii_at_start: float
    moved: float  # ‖W - W₀‖/‖W₀‖
    turned: float  # mean change of the angle of two rows since the start, radians
    update: float  # ‖ΔW‖/‖W‖ of this step
    update_turned: float  # the same angle by this step alone
    defect: float  # radians of it per relative size
    unlike: float  # distance of the moves of two rows, in units of their length: 0 is a translation
    uneven: float  # share of the update beside the nearest multiple of an orthogonal matrix


def run(config: Config) -> list[Row]:
    """Every optimizer at every learning rate from every seed."""
    choices = product(config.multiples, OPTIMIZERS, range(config.num_seeds))
    return [row for multiple, name, seed in choices for row in trajectory(config, name, multiple, seed)]


def cells(config: Config) -> list[Config]:
    """One multiple of the learning rates each."""
    return [replace(config, multiples=(multiple,)) for multiple in config.multiples]


def trajectory(config: Config, name: str, multiple: float, seed: int) -> list[Row]:
    """One training; all optimizers begin with the same weights and see the same batches."""
    model = MLP(
        depth=config.depth,
        width=config.width,
        in_features=PIXELS,
        bias=True,
        generator=torch.Generator().manual_seed(seed),
    )
    standard, make = OPTIMIZERS[name]
    rows: list[Row] = []
    start = previous = hidden_weights(model)
    test = load("digits", "test")

    def measure(step: Step) -> None:
        nonlocal previous
        now = hidden_weights(model)
        if step.number in config.measured:
            accuracy = _accuracy(model, test.inputs.flatten(1), test.labels)
            for layer, (first, before, after) in enumerate(zip(start, previous, now, strict=True)):
                context = (name, multiple, multiple * standard, seed, config.width, step.number, layer)
                rows.append(Row(*context, step.loss, accuracy, *_numbers(first, before, after)))
        previous = now

    data = load("digits", "train")
    batches = minibatches(data.inputs.flatten(1), data.labels, config.batch, torch.Generator().manual_seed(seed))
    train(model, batches, make(model, multiple * standard), steps=config.measured[-1], callback=measure)
    return rows


def hidden_weights(model: MLP) -> list[Tensor]:
    """Copies of the square ones: neither the first, which reads pixels, nor the head."""
    return [block.linear.weight.detach().clone() for block in list(model.layers)[1:]]  # type: ignore[union-attr, operator]


def _numbers(start: Tensor, before: Tensor, after: Tensor) -> list[float]:
    update = after - before
    return [
        float(value)
        for value in (
            parameter_independence(after),
            parameter_independence(start),
            relative_size(after - start, start),
            angle_change(start, after),
            relative_size(update, before),
            angle_change(before, after),
            conformality_defect(before, after),
            translation_defect(update),
            semi_orthogonality_defect(update),
        )
    ]


@torch.no_grad()
def _accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    return float((model(inputs).argmax(-1) == labels).double().mean())


def best_multiple(rows: Sequence[Row], optimizer: str) -> float:
    """That of the learning rate which ends with the lowest loss, mean of seeds."""
    last = max(row.step for row in rows)
    ends: dict[float, list[float]] = {}
    for row in rows:
        if (row.optimizer, row.step) == (optimizer, last):
            ends.setdefault(row.multiple, []).append(row.loss)
    return min(ends, key=lambda multiple: statistics.mean(ends[multiple]))


def by_seed(
    rows: Sequence[Row], optimizer: str, number: Callable[[Row], float], step: int | None = None
) -> list[float]:
    """A number at the optimizer's best learning rate, seed by seed, mean over layers, at a step or over all of them."""
    multiple = best_multiple(rows, optimizer)
    chosen = [r for r in rows if (r.optimizer, r.multiple) == (optimizer, multiple) and step in (None, r.step)]
    return [statistics.mean(number(r) for r in chosen if r.seed == seed) for seed in sorted({r.seed for r in chosen})]


def random_defect(width: int) -> float:
    """Radians per relative size by which a small random step turns two orthogonal rows (`conformality_defect`)."""
    return 2 / math.sqrt(math.pi * width)


def rise(row: Row) -> float:
    """Of PII since the start."""
    return row.pii - row.pii_at_start


def check(rows: list[Row]) -> dict[str, bool]:
    """What was found, at the learning rate that suits each optimizer best; intervals are of three standard errors."""
    first, last = min(row.step for row in rows), max(row.step for row in rows)
    random = random_defect(rows[0].width)
    defects = {name: interval(by_seed(rows, name, lambda row: row.defect)) for name in OPTIMIZERS}
    begins = {name: interval(by_seed(rows, name, lambda row: row.defect, first)) for name in OPTIMIZERS}
    unlike = {name: interval(by_seed(rows, name, lambda row: row.unlike)) for name in OPTIMIZERS}
    rises = {name: interval(by_seed(rows, name, rise, last)) for name in OPTIMIZERS}
    moved = {name: interval(by_seed(rows, name, lambda row: row.moved, last)) for name in OPTIMIZERS}
    paths = {name: interval(by_seed(rows, name, lambda row: row.turned / row.moved, last)) for name in OPTIMIZERS}
    return {
        "no optimizer is conformal: a step turns angles by 0.7 to 1.4 of what a random step of its length does": all(
            0.7 * random < low and high < 1.4 * random for low, high in defects.values()
        ),
        "a first step of SGD turns them less than one of Adam of the same length": (
            begins["SGD"][1] < begins["Adam"][0]
        ),
        "but moving rows alike is not what keeps angles: Muon moves them less alike than Adam, and turns them less": (
            unlike["Muon"][0] > unlike["Adam"][1] and defects["Muon"][1] < defects["Adam"][0]
        ),
        "as printed, training by Adam raises PII more than by SGD": rises["SGD"][1] < rises["Adam"][0],
        "and AdamW about as much as Adam, within a factor of two": (
            0.5 * sum(rises["Adam"]) < sum(rises["AdamW"]) < 2 * sum(rises["Adam"])
        ),
        "Adam goes further than SGD; what it turns angles per distance is at most 1.5 times as much": (
            moved["SGD"][1] < moved["Adam"][0] and paths["Adam"][1] < 1.5 * paths["SGD"][0]
        ),
        "Muon goes furthest of all, and turns angles the least per distance": all(
            moved["Muon"][0] > moved[name][1] and paths["Muon"][1] < paths[name][0]
            for name in OPTIMIZERS
            if name != "Muon"
        ),
        "so that it raises PII less than Adam": rises["Muon"][1] < rises["Adam"][0],
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Table 2 ranks SGD before Adam, as seen; Theorem 2 says that moving rows alike is why, which is not seen.

    The numbers of the table are those of another network: `lu2024/table_2` has them.
    """
    last = max(row.step for row in rows)
    pairs = zip(by_seed(rows, "Adam", rise, last), by_seed(rows, "SGD", rise, last), strict=True)
    more = two_errors([adam - sgd for adam, sgd in pairs])
    turned = {name: by_seed(rows, name, lambda row: row.defect) for name in ("Muon", "Adam")}
    less = two_errors([muon - adam for muon, adam in zip(turned["Muon"], turned["Adam"], strict=True)])
    return [
        Evidence(
            "rise of PII by Adam minus that by SGD, each at its best learning rate",
            None,
            *more,
            "agrees" if more[1] > 0 else "differs",
            "" if more[1] > 0 else "the interval has zero in it",
        ),
        Evidence(
            "radians that a step of Muon turns angles by per relative length, minus those of Adam",
            None,
            *less,
            "corrected" if less[2] < 0 else "agrees",
            "Muon moves rows less alike than Adam, and turns them less: lu2024-theorem-2-translation",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    """PII, angles since the start, and angles per step in units of a random step's, against the step."""
    seeds, random = len({row.seed for row in rows}), random_defect(rows[0].width)
    of_seeds = f"mean ± 3 s.e. of {seeds} seeds"
    numbers: list[tuple[str, str, Callable[[Row], float], list[tuple[str, float]]]] = [
        ("Mean |cosine| of two rows", f"rise of PII, {of_seeds}", rise, [("start", 0.0)]),
        ("Angles since the start", f"radians, {of_seeds}", lambda row: row.turned, []),
        (
            "Angles by one step",
            f"per length, random step = 1, {of_seeds}",
            lambda r: r.defect / random,
            [("random", 1.0)],
        ),
    ]
    return [_panel(rows, *panel) for panel in numbers]


def _panel(
    rows: Sequence[Row], title: str, measure: str, number: Callable[[Row], float], references: list[tuple[str, float]]
) -> Panel:
    series = []
    for name in OPTIMIZERS:
        values = {step: by_seed(rows, name, number, step) for step in sorted({row.step for row in rows})}
        rate = next(r.learning_rate for r in rows if (r.optimizer, r.multiple) == (name, best_multiple(rows, name)))
        series.append(averaged(f"{name}, learning rate {rate:g}", values, of=three_errors))
    return Panel(title, measure, "step", series, references, log_x=True)
