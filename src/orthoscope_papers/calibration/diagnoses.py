"""Every trained network of the two benchmarks, diagnosed at initialization for the optimizer that trained it.

A row holds the numbers that the probability of a verdict is made of (`orthoscope.diagnosis.numbers`), and the module
that the diagnosis names as the cause. Nothing here depends on how the training ended.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.findings import State
from orthoscope_papers.calibration import trainability
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.interventions import Member
from orthoscope_papers.calibration.specimens import built, diagnosed_batch
from orthoscope_papers.calibration.tasks import cross_entropy
from orthoscope_papers.calibration.trainings import TASKS, made, samples
from orthoscope_papers.evidence import Evidence, share_of
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "Every network of the benchmarks is diagnosed without an error, and of the faults that were put into one module "
    "the first module that is named is that module, or holds it, or is held by it, in nine cases of ten."
)
KIND = "training"
DATA = ("fashion-mnist", "cifar10")
DIGITS = 4  # significant, of a number in the table
_SAMPLES = 64
GRID = "grid"  # the family of networks in calibration/grid.py, whose number is the intervention


class Row(NamedTuple):
    """A network: who it is, the module named first, and its numbers; nan where one is not known."""

    family: str
    intervention: str
    optimizer: str
    named: str
    input_varies: float
    input_rank: float
    live_layers: float
    live_branches: float
    output_varies: float
    sample_angles: float
    sample_rank: float
    token_angles: float
    token_rank: float
    gradient_growth: float
    largest_gradient: float
    smallest_gradient: float
    gradient_arrives: float
    gradient_connected: float
    initial_loss: float
    loss_fits_outputs: float
    attention_weights: float
    attention_logits: float
    attention_mask: float
    attention_axis: float
    gradient_over_time: float
    saturation_over_time: float
    expert_balance: float
    depth: float
    no_gradient: float
    decrease_by_sgd: float
    decrease_by_signs: float
    relative_gradient: float
    first_steps: float
    first_step: float
    loss_after_first_steps: float

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that are known, as `Diagnosis.numbers` has them."""
        found = {name.replace("_", " "): getattr(self, name) for name in NUMBERS}
        found["gradient decay"] = -found["gradient growth"]
        return {name: value for name, value in found.items() if not math.isnan(value)}


NUMBERS = Row._fields[4:]


@dataclass(frozen=True)
class Config:
    """Members that `calibration/trainability` trains, as it orders them, and networks of the grid, by number."""

    members: trainability.Config | None = field(default_factory=trainability.Config)
    begin: int = 0
    end: int = len(grid())


QUICK = Config(members=trainability.QUICK, begin=2, end=4)


def run(config: Config) -> list[Row]:
    """One row a network and optimizer."""
    chosen = [] if config.members is None else trainability.cells(config.members)
    rows = [_member_row(Member(one.families[0], one.interventions[0]), one.optimizers[0]) for one in chosen]
    return rows + [_grid_row(number) for number in range(config.begin, config.end) if grid()[number].task in TASKS]


def cells(config: Config) -> list[Config]:
    """One member or network of the grid each."""
    members = [] if config.members is None else trainability.cells(config.members)
    grids = [replace(config, members=None, begin=one, end=one + 1) for one in range(config.begin, config.end)]
    return [replace(config, members=one, begin=0, end=0) for one in members] + grids


def _member_row(member: Member, optimizer: str) -> Row:
    batch, loss = diagnosed_batch(member)
    return _row(
        member.family, member.intervention, optimizer, diagnose(built(member, 0), batch, loss, optimizer=optimizer)
    )


def _grid_row(number: int) -> Row:
    one = grid()[number]
    images, labels = samples(one.task)
    batch = (images[:_SAMPLES], labels[:_SAMPLES])
    found = diagnose(made(one.network, one.task, 0), batch, cross_entropy, optimizer="adamw")
    return _row(GRID, str(number), "adamw", found)


def _row(family: str, intervention: str, optimizer: str, diagnosis: Diagnosis) -> Row:
    known = diagnosis.numbers
    values = (known.get(name.replace("_", " "), math.nan) for name in NUMBERS)
    return Row(family, intervention, optimizer, first_named(diagnosis), *(_rounded(value) for value in values))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}")


def first_named(diagnosis: Diagnosis) -> str:
    """The module that the worst finding names as the cause, or else where it begins; "" if nothing was found."""
    found = sorted((f for f in diagnosis.findings if f.state is State.FOUND), key=lambda f: -f.severity.rank)
    return next((name for f in found if (name := f.cause or f.layer)), "")


def is_near(named: str, fault: str) -> bool:
    """Whether one of two modules is, holds or is held by the other."""
    return bool(named) and (f"{named}.".startswith(f"{fault}.") or f"{fault}.".startswith(f"{named}."))


def faults(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """Rows with a fault in one module, and that module."""
    members = [(row, Member(row.family, row.intervention)) for row in rows if row.family != GRID]
    return [(row, member.fault) for row, member in members if member.fault]


def check(rows: list[Row]) -> dict[str, bool]:
    return {"every network is diagnosed: it has a number at least": all(row.numbers for row in rows)}


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers."""
    pairs = faults(rows)
    named = [(row, fault) for row, fault in pairs if row.named]
    if not named:
        return []
    share = sum(is_near(row.named, fault) for row, fault in named) / len(named)
    return [share_of("faults in one module named at that module", share, len(named), f"{len(named)} networks")]


def plot(rows: list[Row]) -> list[Panel]:
    """The fall of the loss in the first steps, over the sample rank."""
    marks = [
        Series(
            optimizer,
            [-row.sample_rank for row in rows if row.optimizer == optimizer],
            [max(-1.0, min(1.5, -row.first_steps)) for row in rows if row.optimizer == optimizer],
            marks=True,
            line=False,
        )
        for optimizer in sorted({row.optimizer for row in rows})
    ]
    return [Panel(f"{len(rows)} networks", "fall of the loss in ten steps", "log10 of the share of rank", marks)]
