"""The risk that a network does not train, as a number that was checked against trainings."""

import math
from collections.abc import Callable, Sequence

from orthoscope.diagnosis.calibration import CALIBRATION, Calibration
from orthoscope.findings import Finding, State, Verdict

# How the number of a check turns into one that is the larger the worse.
SIGNS: dict[str, Callable[[float], float]] = {
    "sample rank": lambda share: 1 / share if share > 0 else math.inf,
    "gradient growth": lambda growth: growth,
    "gradient decay": lambda growth: -growth,
}


def risk(findings: Sequence[Finding], weight_layers: int, calibration: Calibration = CALIBRATION) -> float:
    """By the worst sign; as high as it gets if another check calls the network sick.

    nan if a sign was not seen and the others are good.
    """
    if any(finding.check not in SIGNS and finding.severity is Verdict.SICK for finding in findings):
        return calibration.risk(math.inf)
    odds = [_log_odds(finding, weight_layers, calibration) for finding in findings if finding.check in SIGNS]
    seen = [number for number in odds if number is not None]
    worst = max(seen, default=-math.inf)
    # What was not looked at may be what ends it: only a bad sign says enough by itself.
    return calibration.risk(worst) if worst > 0 or (odds and len(seen) == len(odds)) else math.nan


def _log_odds(finding: Finding, weight_layers: int, calibration: Calibration) -> float | None:
    if finding.state is State.NOT_CHECKED or finding.measured is None:
        return None
    value = SIGNS[finding.check](finding.measured.value)
    return calibration.laws[finding.check].log_odds(value, weight_layers)
