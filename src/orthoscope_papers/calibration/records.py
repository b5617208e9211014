"""The two records of every network of the grid: how it trained, and what its diagnosis measured before that.

`Training` is a row of `orthoscope reproduce calibration/outcomes`. `Signs`, of `calibration/verdict`, holds what the
limits of the verdict are fitted to, and what simpler tools measure.
"""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.rules import RISK_NUMBERS
from orthoscope.findings import Verdict
from orthoscope.prescriptions.confirmation import trained
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.trainings import CLASSES, made, samples
from orthoscope_papers.results import rows_of

# A copy of results/calibration/outcomes/table.csv, so that an installed package has it; `make calibrate` renews it.
FILE = Path(__file__).parent / "outcomes.csv"
GUESSING = math.log(CLASSES)
DIAGNOSED = 64  # samples of the batch that is diagnosed


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
        """True if it learned at least half of what the shallow reference did."""
        return trained(self.best, self.reference, GUESSING)

    @property
    def learned(self) -> float:
        """Fall of the loss below guessing over that of the reference, at least 0."""
        share = (GUESSING - self.best) / (GUESSING - self.reference)
        return max(0.0, share) if math.isfinite(self.best) else 0.0


@cache
def outcomes() -> dict[int, Training]:
    """Return the training of every member from the first seed."""
    rows = rows_of(FILE.read_text("utf-8"), Training)
    return {row.member: row for row in rows if row.seed == 0}


class Signs(NamedTuple):
    """One network: what was measured at initialization, and whether it trained. nan: not measured."""

    member: int
    family: str
    held_out: int  # 1 if nothing is fitted to its family
    weight_layers: int
    sample_rank: float  # share of directions at the end
    growth: float  # of gradients, e-folds toward the input
    otherwise_sick: int  # 1 if a check that is not fitted calls it sick
    gap: float
    slope: float
    overlap: float  # mean cosine at the end
    scale: float  # root mean square at the end over that of the input
    verdict: str
    risk: float
    learned: float  # in parts of what a shallow network learns
    trains: int


def signs(member: int, seed: int = 0) -> Signs:
    """Build a network of the grid, diagnose it, and look up its training."""
    one, training = grid()[member], outcomes()[member]
    diagnosis = diagnose(made(one.network, one.task, seed), samples(one.task)[0][:DIAGNOSED])
    found = {finding.check: finding for finding in diagnosis.findings}
    values = {check: math.nan if f.measured is None else f.measured.value for check, f in found.items()}
    return Signs(
        member,
        one.network.family,
        int(one.held_out),
        diagnosis.weight_layers,
        values["sample rank"],
        values["gradient growth"],
        int(any(f.severity is Verdict.SICK for check, f in found.items() if check not in RISK_NUMBERS)),
        diagnosis.gap,
        diagnosis.slope,
        1 - values["sample angles"],
        _scale(diagnosis),
        str(diagnosis.verdict),
        diagnosis.risk,
        training.learned,
        int(training.trains),
    )


def _scale(diagnosis: Diagnosis) -> float:
    """RMS of the last finite hidden layer over that of the input, which variance tools watch."""
    hidden = [layer.rms for layer in diagnosis.layers if math.isfinite(layer.rms)]
    return hidden[-2] / diagnosis.recording.input.rms if len(hidden) > 1 else math.nan
