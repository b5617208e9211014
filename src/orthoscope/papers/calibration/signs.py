"""What a diagnosis sees of a member of the grid, as numbers: what limits are fitted to, and what others watch."""

import math
from typing import NamedTuple

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.risk import SIGNS
from orthoscope.findings import Verdict
from orthoscope.papers.calibration.grid import grid
from orthoscope.papers.calibration.known import outcomes
from orthoscope.papers.calibration.tasks import samples
from orthoscope.papers.calibration.trainings import made

SAMPLES = 64


class Signs(NamedTuple):
    """One network: what was measured at the start beside what became of it. nan: not measured."""

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
    """Build it, show it a batch, and look up its training."""
    one, known = grid()[member], outcomes()[member]
    diagnosis = diagnose(made(one.network, one.task, seed), samples(one.task)[0][:SAMPLES])
    found = {finding.check: finding for finding in diagnosis.findings}
    values = {check: math.nan if f.measured is None else f.measured.value for check, f in found.items()}
    return Signs(
        member,
        one.network.family,
        int(one.held_out),
        diagnosis.weight_layers,
        values["sample rank"],
        values["gradient growth"],
        int(any(f.severity is Verdict.SICK for check, f in found.items() if check not in SIGNS)),
        diagnosis.gap,
        diagnosis.slope,
        1 - values["sample angles"],
        _scale(diagnosis),
        str(diagnosis.verdict),
        diagnosis.risk,
        known.learned,
        int(known.trains),
    )


def _scale(diagnosis: Diagnosis) -> float:
    """Of the last hidden layer that is finite; what a variance tool looks at."""
    hidden = [layer.rms for layer in diagnosis.layers if math.isfinite(layer.rms)]
    return hidden[-2] / diagnosis.recording.input.rms if len(hidden) > 1 else math.nan
