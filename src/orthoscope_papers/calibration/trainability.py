"""Which networks that people train learn, by optimizer, after something was done to them: the truth for the verdict.

Families as people write them, in small, each untouched and after up to forty interventions, are trained for 100 steps
on images, text, graphs, noise or codes at three learning rates. A member *trains* if its best loss shows at least half
of what the untouched member of its family learns with the same optimizer at the best of its rates.

Rates were chosen by looking at untouched members alone, in 100 steps from one seed: AdamW at 1e-3, 3e-3 and 1e-2 on
22 families, SGD at 0.01, 0.05 and 0.2 and Muon at 0.005, 0.02 and 0.08 on twelve of all sorts. At the middle rate all
but two learn nine tenths at least of what they learn at the best. The middle rate is run first, and the others
only if it does not reach ENOUGH of the reference; losses that were not run are nan.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from orthoscope.optim.recipes import OPTIMIZERS, SHORT_TRAINING_RATES
from orthoscope.training import Step, train
from orthoscope_papers.calibration.families import FAMILIES
from orthoscope_papers.calibration.interventions import INTERVENTIONS, UNTOUCHED, Member, batches, members
from orthoscope_papers.calibration.tasks import TASKS
from orthoscope_papers.evidence import Evidence, share_of
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "Whether a network that people train learns in 100 steps, after something was done to it, hardly depends on the "
    "seed: of the members trained from several, nine in ten end the same way each time."
)
KIND = "training"
DATA = ("fashion-mnist", "cifar10")

Optimizer = Literal["adamw", "sgd", "muon"]
RATES = SHORT_TRAINING_RATES
STEPS = 100
ENOUGH = 0.6  # of what the reference learns: then other rates cannot change the outcome
LEARNED = 0.5
DIVERGED = 1e3  # times the cost of guessing
REPEATED = 6  # every so many members are trained from a second seed
DECIMALS = 5  # of losses in the table


@dataclass(frozen=True)
class Config:
    """Members of `families` by `interventions`; untouched ones from all `seeds`, every sixth from the first two.

    `share` is how much of the sweep is run, from its beginning: of 1/3, every member by one optimizer.
    """

    share: float = 1 / 3
    families: tuple[str, ...] = tuple(FAMILIES)
    interventions: tuple[str, ...] = tuple(INTERVENTIONS)
    optimizers: tuple[Optimizer, ...] = get_args(Optimizer)
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = STEPS


# A family on the embedded digits, which need no download: some members train, some do not.
QUICK = Config(
    share=1.0,
    families=("residual mlp",),
    interventions=(UNTOUCHED, "weights x5", "detached in the middle", "softmax before the loss", "dead biases"),
    optimizers=("adamw", "sgd"),
    seeds=(0, 1),
    steps=25,
)
FULL = Config(share=1.0)  # goes on where the default setting ends


class Row(NamedTuple):
    """A member trained by an optimizer: losses at the end by learning rate, that of guessing and of the reference."""

    family: str
    intervention: str
    optimizer: str
    seed: int
    loss_low: float  # inf: diverged; nan: not run
    loss_middle: float
    loss_high: float
    guessing: float
    reference: float

    @property
    def member(self) -> Member:
        return Member(self.family, self.intervention)

    @property
    def best(self) -> float:
        run = [loss for loss in (self.loss_low, self.loss_middle, self.loss_high) if not math.isnan(loss)]
        return min(run)

    @property
    def learned(self) -> float:
        """Fall of the loss below guessing over that of the reference, at least 0."""
        share = (self.guessing - self.best) / (self.guessing - self.reference)
        return max(0.0, share) if math.isfinite(self.best) else 0.0

    @property
    def trains(self) -> bool:
        return self.learned >= LEARNED


def run(config: Config) -> list[Row]:
    """One row a member, optimizer and seed."""
    if max(len(config.families), len(config.interventions), len(config.optimizers)) > 1:
        return [row for cell in cells(config) for row in run(cell)]
    [optimizer] = config.optimizers
    return [
        _row(member, optimizer, seed, config)
        for member in _chosen(config)
        for seed in config.seeds[: _number_of_seeds(member)]
    ]


def _chosen(config: Config) -> list[Member]:
    return [one for one in members() if one.family in config.families and one.intervention in config.interventions]


def _number_of_seeds(member: Member) -> int | None:
    if member.intervention == UNTOUCHED:
        return None
    return 2 if _hash(member.name) % REPEATED == 0 else 1


def _hash(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)


def cells(config: Config) -> list[Config]:
    """One member and optimizer each, in an order whose beginnings are balanced.

    Of every family about the same share has been run at any time, with interventions in the order of a hash; every
    member is trained by one optimizer, in turn, before any is by the second.
    """
    families: dict[str, list[Member]] = defaultdict(list)
    for member in _chosen(config):
        families[member.family].append(member)
    placed = [one for number, family in enumerate(families.values()) for one in _placed(family, number, config)]
    ordered = sorted(placed, key=lambda one: (one[0], _hash(one[1].name)))
    return [
        replace(
            config, share=1.0, families=(member.family,), interventions=(member.intervention,), optimizers=(optimizer,)
        )
        for _, member, optimizer in ordered[: max(1, round(config.share * len(ordered)))]
    ]


def _placed(family: list[Member], number: int, config: Config) -> Iterator[tuple[float, Member, Optimizer]]:
    """Members of one family with every optimizer, and their places in the order."""
    count = len(config.optimizers)
    ordered = sorted(family, key=lambda member: _hash(member.name))
    for turn in range(count):
        for rank, member in enumerate(ordered):
            yield turn + (rank + 0.5) / len(ordered), member, config.optimizers[(number + rank + turn) % count]


def _row(member: Member, optimizer: Optimizer, seed: int, config: Config) -> Row:
    reference = reference_loss(member.family, optimizer, config.seeds[0], config.steps)
    guessing = member.task.guessing
    whole = member.intervention == UNTOUCHED
    if whole and seed == config.seeds[0]:
        low, middle, high = _reference_losses(member.family, optimizer, seed, config.steps)
    else:
        low, middle, high = losses(member, optimizer, seed, config.steps, math.inf if whole else reference)
    numbers = (round(number, DECIMALS) for number in (low, middle, high, guessing, reference))
    return Row(member.family, member.intervention, optimizer, seed, *numbers)


def reference_loss(family: str, optimizer: Optimizer, seed: int, steps: int) -> float:
    """Return the final loss of the untouched member at the best of its three rates."""
    return min(_reference_losses(family, optimizer, seed, steps))


@cache
def _reference_losses(family: str, optimizer: Optimizer, seed: int, steps: int) -> tuple[float, float, float]:
    return losses(Member(family, UNTOUCHED), optimizer, seed, steps, math.inf)


def losses(member: Member, optimizer: Optimizer, seed: int, steps: int, reference: float) -> tuple[float, float, float]:
    """Train at the middle rate, then at the others unless that reaches enough of `reference`; inf: run all."""
    low, middle, high = RATES[optimizer]
    first = final_loss(member, optimizer, middle, seed, steps)
    guessing = member.task.guessing
    if math.isfinite(reference) and guessing - first >= ENOUGH * (guessing - reference):
        return math.nan, first, math.nan
    return (
        final_loss(member, optimizer, low, seed, steps),
        first,
        final_loss(member, optimizer, high, seed, steps),
    )


def final_loss(member: Member, optimizer: Optimizer, rate: float, seed: int, steps: int) -> float:
    """Train a member; return the mean of the last ten losses, infinite if it diverged."""
    network, task = member.built(seed), member.task
    limit = DIVERGED * task.guessing

    def callback(step: Step) -> str | None:
        return "diverged" if step.loss > limit else None

    history = train(
        network,
        lambda: _batches(task.name, member.raw_inputs, seed, steps),
        optimizer_of(network, optimizer, rate),
        steps=steps,
        loss=task.loss,
        callback=callback,
    )
    return history.final()


@lru_cache(maxsize=12)
def _batches(task: str, raw: bool, seed: int, steps: int) -> list[tuple[tuple[Tensor, ...], Tensor]]:
    return [(batch.args, batch.target) for batch in islice(batches(TASKS[task], raw, seed), steps)]


def optimizer_of(network: nn.Module, name: Optimizer, rate: float) -> torch.optim.Optimizer:
    """Return the optimizer of all parameters that are trained."""
    return OPTIMIZERS[name](network, rate)


def repeated(rows: Sequence[Row]) -> dict[tuple[str, str, str], list[Row]]:
    """Trainings by member and optimizer, of those with several seeds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.family, row.intervention, row.optimizer].append(row)
    return {key: group for key, group in groups.items() if len(group) > 1}


def agreement(rows: Sequence[Row]) -> float:
    """Share of the repeated members whose seeds all end the same way."""
    groups = repeated(rows).values()
    return sum(len({row.trains for row in group}) == 1 for group in groups) / len(groups)


def firsts(rows: Iterable[Row]) -> list[Row]:
    """One training a member and optimizer, from the first seed."""
    return [row for row in rows if row.seed == 0]


def check(rows: list[Row]) -> dict[str, bool]:
    share = sum(row.trains for row in firsts(rows)) / len(firsts(rows))
    return {
        "every reference learns: its loss is below that of guessing": all(row.reference < row.guessing for row in rows),
        "of the members trained from several seeds nine in ten end the same way each time": agreement(rows) >= 0.9,
        "both outcomes are common: a tenth at least trains, a tenth at least does not": 0.1 <= share <= 0.9,
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers: the first is that of the claim."""
    alike, pairs = agreement(rows), len(repeated(rows))
    found = [share_of("share whose seeds end alike", alike, pairs, f"{pairs} members", "0.9 at least", alike >= 0.9)]
    for optimizer in get_args(Optimizer):
        own = [row for row in firsts(rows) if row.optimizer == optimizer]
        if own:
            share = sum(row.trains for row in own) / len(own)
            found.append(share_of(f"share that trains by {optimizer}", share, len(own), f"{len(own)} members"))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """Every member, over its intervention, a panel an optimizer."""
    names = {name: number for number, name in enumerate(INTERVENTIONS)}
    return [
        Panel(
            f"{optimizer}: {len(own)} members, {STEPS} steps",
            "learned, in parts of what the untouched member learns",
            "intervention, in the order of the table of interventions",
            [
                Series(
                    word,
                    [names[row.intervention] for row in own if row.trains is trains],
                    [min(row.learned, 1.5) for row in own if row.trains is trains],
                    marks=True,
                    line=False,
                )
                for word, trains in (("trains", True), ("does not", False))
            ],
            [("trained", LEARNED)],
            y_range=(0, 1.5),
        )
        for optimizer in get_args(Optimizer)
        if (own := [row for row in firsts(rows) if row.optimizer == optimizer])
    ]
