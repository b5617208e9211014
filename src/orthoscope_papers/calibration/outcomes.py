"""Which networks train: every member of the grid, briefly, at three learning rates, beside a shallow reference.

A quarter of them is trained from three seeds, which measures how much of an outcome is chance. The result is a table of
losses; `orthoscope_papers.calibration.verdict` compares diagnoses with it.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.records import GUESSING, Training
from orthoscope_papers.calibration.trainings import BATCH, STEPS, losses, made, reference_loss
from orthoscope_papers.evidence import Evidence, share_of
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "Whether a network of the calibration trains in 150 steps, at the best of three learning rates, hardly depends on "
    "the seed: of the networks trained from three, nine in ten end the same way each time."
)
KIND = "training"
DATA = ("fashion-mnist",)
REPEATED = 4  # every so many members are trained from all seeds
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Config:
    """Members `begin` to `end` of the grid; `seeds` for every fourth of them, the first for the others."""

    begin: int = 0
    end: int = len(grid())
    steps: int = STEPS
    seeds: tuple[int, ...] = SEEDS


# Digits alone, which need no download: one that trains, two that do not.
QUICK = Config(begin=2, end=5, steps=60, seeds=(0, 1))

Row = Training


def run(config: Config) -> list[Row]:
    """One row a training of three rates."""
    rows = []
    for number in range(config.begin, config.end):
        network, task = grid()[number].network, grid()[number].task
        reference = reference_loss(network.kind, network.width, task, config.steps)
        for seed in config.seeds if number % REPEATED == 0 else config.seeds[:1]:
            low, middle, high = losses(
                lambda seed=seed, network=network, task=task: made(network, task, seed),  # type: ignore[misc]
                task,
                BATCH[network.kind],
                config.steps,
                seed,
            )
            rows.append(Row(number, network.family, task, seed, low, middle, high, reference))
    return rows


def cells(config: Config) -> list[Config]:
    """One member each."""
    return [replace(config, begin=number, end=number + 1) for number in range(config.begin, config.end)]


def repeated(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """Trainings by member, of those with several seeds."""
    by_member = defaultdict(list)
    for row in rows:
        by_member[row.member].append(row)
    return {member: group for member, group in by_member.items() if len(group) > 1}


def agreement(rows: Sequence[Row]) -> float:
    """Share of the repeated members whose seeds all end the same way."""
    groups = repeated(rows).values()
    return sum(len({row.trains for row in group}) == 1 for group in groups) / len(groups)


def firsts(rows: Sequence[Row]) -> list[Row]:
    """One training a member, from the first seed."""
    return [row for row in rows if row.seed == SEEDS[0]]


def check(rows: list[Row]) -> dict[str, bool]:
    share = sum(row.trains for row in firsts(rows)) / len(firsts(rows))
    return {
        "every shallow reference learns: its loss is at most 0.6 of guessing": all(
            row.reference <= 0.6 * GUESSING for row in rows
        ),
        "of the networks trained from several seeds nine in ten end the same way each time": agreement(rows) >= 0.9,
        "both outcomes are common: a quarter at least trains, a quarter at least does not": 0.25 <= share <= 0.75,
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers: the second is that of the claim."""
    share, alike = sum(row.trains for row in firsts(rows)) / len(firsts(rows)), agreement(rows)
    number, pairs = len(firsts(rows)), len(repeated(rows))
    return [
        share_of("share of the networks that train", share, number, f"{number} networks"),
        share_of("share whose seeds end alike", alike, pairs, f"{pairs} networks", "0.9 at least", alike >= 0.9),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    depths = {number: member.network.depth for number, member in enumerate(grid())}
    marks = [
        Series(name, [depths[row.member] for row in chosen], [row.learned for row in chosen], marks=True, line=False)
        for name, chosen in (
            ("trains", [row for row in rows if row.trains]),
            ("does not", [row for row in rows if not row.trains]),
        )
    ]
    return [
        Panel(
            f"{len(firsts(rows))} networks, {STEPS} steps",
            "learned, in parts of what a shallow network learns",
            "layers",
            marks,
            [("trained", 0.5)],
            y_range=(0, 1.1),
            log_x=True,
        )
    ]
