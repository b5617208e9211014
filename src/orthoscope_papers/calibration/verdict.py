"""How often the verdict is right: every network of the grid diagnosed at initialization, beside its training.

Limits were fitted to every second family of each kind; the verdict is judged on the other half, which is held out.
Simpler rules have their limits fitted to the same half: the scale of the last layer (what variance tools watch), the
mean cosine of samples, the slope of gradients, and their growth with a limit on either side.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from orthoscope.diagnosis.rules import CALIBRATION
from orthoscope.findings import Verdict
from orthoscope_papers.calibration.fit import Score, score, threshold, two_limits
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.records import Signs, signs
from orthoscope_papers.calibration.trainings import TASKS
from orthoscope_papers.evidence import Evidence, share_of, wilson
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "On families of networks that nothing was fitted to, the verdict (sick: does not train) is right for nine networks "
    "in ten, and at most 8 in 100 of those that train are called sick. Rules that watch the variance, the mean cosine "
    "or the slope of gradients alone are right less often; one with two limits for the growth of gradients comes near."
)
KIND = "training"
DATA = ("fashion-mnist",)
Row = Signs
_BINS = 5  # of the reliability curve
_DRAWS = 1000  # of families, for intervals


@dataclass(frozen=True)
class Config:
    """Members `begin` to `end` of the grid, as far as they are trained on one of `tasks`."""

    begin: int = 0
    end: int = len(grid())
    tasks: tuple[str, ...] = TASKS
    laws: str = CALIBRATION.checksum  # that the verdict goes by


# Digits alone, which need no download; two families that limits were fitted to and one that they were not.
QUICK = Config(begin=48, end=84, tasks=TASKS[:1])

SIMPLER: dict[str, Callable[[Signs], float]] = {
    "variance alone": lambda row: abs(math.log(row.scale)) if row.scale > 0 else math.inf,
    "mean cosine alone": lambda row: row.overlap,
    "gradient slope alone": lambda row: abs(row.slope),
}


def run(config: Config) -> list[Row]:
    """One row a network; outcomes are those of `calibration/outcomes`."""
    chosen = range(config.begin, config.end)
    return [signs(number) for number in chosen if grid()[number].task in config.tasks]


def cells(config: Config) -> list[Config]:
    """Eight members each: a diagnosis takes a second at most."""
    starts = range(config.begin, config.end, 8)
    return [replace(config, begin=start, end=min(start + 8, config.end)) for start in starts]


def is_sick(row: Row) -> bool:
    return row.verdict == Verdict.SICK


def scores(rows: Sequence[Row]) -> dict[str, Score]:
    """On the families held out: ours, and the simpler rules with the limit that is best on the others."""
    held, open_ = [row for row in rows if row.held_out], [row for row in rows if not row.held_out]
    found = {"orthoscope": score(held, is_sick)}
    for name, value in SIMPLER.items():
        limit = threshold(open_, value)
        found[name] = score(held, lambda row, value=value, limit=limit: not value(row) <= limit)  # type: ignore[misc]
    grows, shrinks = two_limits(open_)
    found["growth of gradients, two limits"] = score(held, lambda row: not -shrinks <= row.growth <= grows)
    return found


def interval_over_families(rows: Sequence[Row], rate: Callable[[Score], float]) -> tuple[float, float]:
    """95 % interval of a rate of ours, families drawn with replacement: members of one family are no strangers."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    dice, names = random.Random(0), sorted(families)
    drawn = sorted(
        rate(score([row for name in dice.choices(names, k=len(names)) for row in families[name]], is_sick))
        for _ in range(_DRAWS)
    )
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS)]


def reliability(rows: Sequence[Row]) -> list[tuple[float, float, int]]:
    """Mean risk, share that does not train and number of networks, in bins of equal width; empty ones left out."""
    bins: list[list[Row]] = [[] for _ in range(_BINS)]
    for row in rows:
        bins[min(_BINS - 1, int(row.risk * _BINS))].append(row)
    return [
        (sum(row.risk for row in part) / len(part), 1 - sum(row.trains for row in part) / len(part), len(part))
        for part in bins
        if part
    ]


def check(rows: list[Row]) -> dict[str, bool]:
    ours, *others = scores(rows).values()
    return {
        "on families held out the verdict is right for at least 90 % of the networks": ours.accuracy >= 0.9,
        "at most 8 % of those that train are called sick": ours.false_alarms <= 0.08,
        "no simpler rule is right more often": all(ours.accuracy >= other.accuracy for other in others),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers: ours, two of them claimed, and the simpler rules' on the same networks."""
    ours = scores(rows)["orthoscope"]
    claims = {
        "accuracy, orthoscope": ("0.9 at least", ours.accuracy >= 0.9),
        "false alarms, orthoscope": ("0.08 at most", ours.false_alarms <= 0.08),
    }
    found = []
    for name, one in scores(rows).items():
        trains = round(one.networks * _share_trains(rows))
        fails = one.networks - trains
        for what, share, count in (
            ("accuracy", one.accuracy, one.networks),
            ("false alarms", one.false_alarms, trains),
            ("missed", one.missed, fails),
        ):
            if count and math.isfinite(share):
                quantity, cases = f"{what}, {name}", f"of {count} networks held out"
                found.append(share_of(quantity, share, count, cases, *claims.get(quantity, ())))
    return found


def _share_trains(rows: Sequence[Row]) -> float:
    held = [row for row in rows if row.held_out]
    return sum(row.trains for row in held) / len(held)


def plot(rows: list[Row]) -> list[Panel]:
    held = [row for row in rows if row.held_out]
    curve = reliability(held)
    ends = [wilson(share, count) for _, share, count in curve]
    plane = [
        Series(name, [row.gap for row in part], [_shown(row.slope) for row in part], marks=True, line=False)
        for name, part in (("trains", [r for r in rows if r.trains]), ("does not", [r for r in rows if not r.trains]))
    ]
    return [
        Panel(
            "Trainability plane",
            "log-gradient slope a layer",
            "orthogonality gap",
            plane,
            x_range=(0, 1),
            y_range=(-1, 1),
        ),
        Panel(
            f"Risk, {len(held)} networks held out",
            "share that does not train, 95 % interval",
            "risk",
            [
                Series(
                    "measured",
                    [risk for risk, _, _ in curve],
                    [share for _, share, _ in curve],
                    [low for low, _ in ends],
                    [high for _, high in ends],
                ),
                Series("as stated", [0, 1], [0, 1], theory=True),
            ],
            x_range=(0, 1),
            y_range=(0, 1),
        ),
    ]


def _shown(slope: float) -> float:
    return max(-1.0, min(1.0, slope))
