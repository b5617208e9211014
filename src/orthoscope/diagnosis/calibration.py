"""Limits of the verdict, and the risk that goes with a number, fitted to networks whose training outcome is known.

`calibration.json` is written by `make calibrate` from the trainings in results/calibration, never by hand. `trained` is
the one rule for whether a network trained; confirmations use it too.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from orthoscope.findings import Finding, State, Verdict

FILE = "calibration.json"
SCHEMA = "orthoscope.calibration/1"
TYPICAL_DEPTH = 50  # weight layers that limits are quoted for
DEEPEST = 301  # weight layers of the deepest network that was trained: laws are not extrapolated beyond
AT_RISK = 0.2  # the risk at which a network is no longer called healthy


@dataclass(frozen=True)
class Law:
    r"""Odds that a network of $L$ weight layers does not train, as a function of one number, larger being worse.

    $$ \ln\frac{p}{1-p} = b \ln\frac{x}{x_{50} (L/50)^q} $$

    The odds are even, the limit of sickness, at $x = x_{50} (L/50)^q$; $b$ is the slope of the transition. Networks of
    fewer than `spared` layers recover from what this number shows: it does not count for them.
    """

    limit: float
    power: float
    sharpness: float
    spared: int = 0  # named as in calibration.json

    def log_odds(self, value: float, layers: int) -> float:
        """Log-odds of not training; minus infinity where the number does not count."""
        if layers < self.spared or not value > 0:
            return -math.inf
        depth = math.log(min(layers, DEEPEST) / TYPICAL_DEPTH)
        return self.sharpness * (math.log(value / self.limit) - self.power * depth)

    def limit_at(self, log_odds: float) -> float:
        """The number at which the log-odds have this value, at 50 layers."""
        return self.limit * math.exp(log_odds / self.sharpness)


@dataclass(frozen=True)
class Calibration:
    """Laws by name, and the lapse rate: how often an outcome contradicts every law."""

    laws: Mapping[str, Law]
    lapse: float
    document: Mapping[str, Any]

    def risk(self, log_odds: float) -> float:
        r"""$\epsilon + (1 - 2\epsilon)/(1 + e^{-z})$ for log-odds $z$ and lapse rate $\epsilon$."""
        return self.lapse + (1 - 2 * self.lapse) / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))

    def at_risk(self, name: str) -> float:
        """Where a number alone makes the risk `AT_RISK`, at 50 layers."""
        share = (AT_RISK - self.lapse) / (1 - 2 * self.lapse)
        return self.laws[name].limit_at(math.log(share / (1 - share)))

    @property
    def checksum(self) -> str:
        """Checksum of the laws, which changes when they do."""
        return hashlib.sha256(repr((sorted(self.laws.items()), self.lapse)).encode()).hexdigest()[:12]

    @property
    def networks(self) -> int:
        """How many networks the limits were fitted to and tested on."""
        return int(self.document["networks"])


def read(text: str) -> Calibration:
    """A calibration from the text of its file."""
    document = json.loads(text)
    laws = {name: Law(**law) for name, law in document["laws"].items()}
    return Calibration(laws, document["lapse"], document)


CALIBRATION = read(resources.files("orthoscope").joinpath(FILE).read_text("utf-8"))

# From the number of a check to one that is larger the worse.
RISK_NUMBERS: dict[str, Callable[[float], float]] = {
    "sample rank": lambda share: 1 / share if share > 0 else math.inf,
    "gradient growth": lambda growth: growth,
    "gradient decay": lambda growth: -growth,
}


def risk(findings: Sequence[Finding], weight_layers: int, calibration: Calibration = CALIBRATION) -> float:
    """Risk of not training by the worst number; the highest possible if another check calls the network sick.

    nan if a number was not measured and the others are good.
    """
    if any(finding.check not in RISK_NUMBERS and finding.severity is Verdict.SICK for finding in findings):
        return calibration.risk(math.inf)
    odds = [_log_odds(finding, weight_layers, calibration) for finding in findings if finding.check in RISK_NUMBERS]
    seen = [number for number in odds if number is not None]
    worst = max(seen, default=-math.inf)
    # An unmeasured number may be the bad one: only a bad number is enough by itself.
    return calibration.risk(worst) if worst > 0 or (odds and len(seen) == len(odds)) else math.nan


def _log_odds(finding: Finding, weight_layers: int, calibration: Calibration) -> float | None:
    if finding.state is State.NOT_CHECKED or finding.measured is None:
        return None
    value = RISK_NUMBERS[finding.check](finding.measured.value)
    return calibration.laws[finding.check].log_odds(value, weight_layers)


def trained(final_loss: float, reference_loss: float, guessing_loss: float) -> bool:
    r"""Whether a network learned at least half of what a shallow reference learned.

    $$ \text{final} \le \text{guessing} - \tfrac12 (\text{guessing} - \text{reference}) $$

    `guessing_loss` is that of the best constant prediction, `reference_loss` what a shallow network reaches with the
    same steps. With a loss that is not finite the answer is False; a reference that learns nothing is refused.
    """
    if not reference_loss < guessing_loss:
        raise ValueError(
            f"the reference ends at {reference_loss:.4g}, no better than guessing, {guessing_loss:.4g}: "
            "train it longer, or give data that it can learn"
        )
    return final_loss <= guessing_loss - (guessing_loss - reference_loss) / 2
