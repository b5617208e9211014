"""What became of the networks of the grid, as `orthoscope reproduce calibration/outcomes` found it."""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

from orthoscope.diagnosis.outcome import trained
from orthoscope.papers.calibration.tasks import CLASSES
from orthoscope.papers.results import rows_of

# A copy of results/calibration/outcomes/table.csv, so that an installed package has it; `make calibrate` renews it.
FILE = Path(__file__).parent / "outcomes.csv"
GUESSING = math.log(CLASSES)


class Training(NamedTuple):
    """A training of a member: losses at the end by learning rate, and that of the shallow reference."""

    member: int
    family: str
    task: str
    seed: int
    loss_low: float
    loss_middle: float
    loss_high: float
    reference: float

    @property
    def best(self) -> float:
        return min(self.loss_low, self.loss_middle, self.loss_high)

    @property
    def trains(self) -> bool:
        """Whether it learned at least half of what the shallow reference did."""
        return trained(self.best, self.reference, GUESSING)

    @property
    def learned(self) -> float:
        """What it learned in parts of what the reference learned: 1 if as much, 0 if nothing, cut at 0."""
        share = (GUESSING - self.best) / (GUESSING - self.reference)
        return max(0.0, share) if math.isfinite(self.best) else 0.0


@cache
def outcomes() -> dict[int, Training]:
    """The training of every member from the first seed."""
    rows = rows_of(FILE.read_text("utf-8"), Training)
    return {row.member: row for row in rows if row.seed == 0}
