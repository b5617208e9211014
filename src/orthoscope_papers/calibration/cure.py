"""How often a fix works: held-out networks that are sick and do not train, fixed and trained with the same budget."""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope.diagnosis.rules import CALIBRATION
from orthoscope.findings import Verdict
from orthoscope.prescriptions import fix
from orthoscope.prescriptions.confirmation import trained
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.records import GUESSING, outcomes
from orthoscope_papers.calibration.trainings import BATCH, INIT_SAMPLES, STEPS, TASKS, losses, made, samples
from orthoscope_papers.evidence import Evidence, share_of
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "Of the networks held out that are called sick and do not train, at least 85 % train after `orthoscope fix`, with "
    "the same steps and learning rates."
)
KIND = "training"
DATA = ("fashion-mnist",)


@dataclass(frozen=True)
class Config:
    """Members `begin` to `end` of the grid, as far as they are trained on one of `tasks`."""

    begin: int = 0
    end: int = len(grid())
    tasks: tuple[str, ...] = TASKS
    steps: int = STEPS
    laws: str = CALIBRATION.checksum  # that the verdict goes by


# Digits alone, which need no download: networks of 20 and 80 layers.
QUICK = Config(begin=75, end=81, tasks=TASKS[:1])


class Row(NamedTuple):
    """One sick network: what was applied to it, and how it trains then."""

    member: int
    family: str
    depth: int
    by: str  # prescriptions in order, joined by " + "; empty if nothing helped
    verdict: str  # after the fix
    risk: float
    before: float  # learned without the fix, in parts of what a shallow network learns
    after: float
    trains: int


def run(config: Config) -> list[Row]:
    """A row for every member that is held out, does not train, and is called sick."""
    rows = []
    for number in range(config.begin, config.end):
        one = grid()[number]
        if one.held_out and one.task in config.tasks and not outcomes()[number].trains:
            rows += _cured(number, config.steps)
    return rows


def cells(config: Config) -> list[Config]:
    """One member each."""
    return [replace(config, begin=number, end=number + 1) for number in range(config.begin, config.end)]


def _cured(number: int, steps: int) -> list[Row]:
    one, training = grid()[number], outcomes()[number]
    network, task = one.network, one.task
    fixed = fix(made(network, task, 0), samples(task)[0][:INIT_SAMPLES], trained=False)
    if fixed.before.verdict is not Verdict.SICK:
        return []
    ends = losses(lambda: copy.deepcopy(fixed.model), task, BATCH[network.kind], steps, 0)
    after = training._replace(loss_low=ends[0], loss_middle=ends[1], loss_high=ends[2])
    return [
        Row(
            number,
            network.family,
            network.depth,
            " + ".join(step.name for step in fixed.steps),
            str(fixed.after.verdict),
            fixed.after.risk,
            training.learned,
            after.learned,
            int(trained(after.best, after.reference, GUESSING)),
        )
    ]


def cured(rows: Sequence[Row]) -> float:
    """Share that trains after the fix."""
    return sum(row.trains for row in rows) / len(rows)


def by_prescription(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """How many were given what, and how many of these train; the commonest first."""
    given = Counter(row.by or "nothing helped" for row in rows)
    works = Counter(row.by or "nothing helped" for row in rows if row.trains)
    return {name: (count, works[name]) for name, count in given.most_common()}


def check(rows: list[Row]) -> dict[str, bool]:
    return {"at least 85 % of the sick networks train after the fix": cured(rows) >= 0.85}


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers: the first is that of the claim."""
    share = cured(rows)
    number, limit = len(rows), 0.85
    whole = share_of(
        "share that trains after the fix", share, number, f"of {number}", f"{limit} at least", share >= limit
    )
    parts = by_prescription(rows).items()
    return [whole, *(share_of(f"of those fixed by {name}", works / n, n, f"of {n}") for name, (n, works) in parts)]


def plot(rows: list[Row]) -> list[Panel]:
    series = [
        Series(name, [row.depth for row in rows], [getattr(row, name) for row in rows], marks=True, line=False)
        for name in ("before", "after")
    ]
    measure = "learned, in parts of what a shallow network learns"
    title = f"{len(rows)} sick networks, before and after"
    return [Panel(title, measure, "layers", series, [("trained", 0.5)], y_range=(0, 1.1), log_x=True)]
