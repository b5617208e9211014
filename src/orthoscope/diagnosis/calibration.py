"""What was learned from networks whose training is known: limits of the verdict, and the risk that goes with a number.

`calibration.json` is written by `make calibrate` from the trainings in results/calibration, never by hand.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

FILE = "calibration.json"
SCHEMA = "orthoscope.calibration/1"
TYPICAL_DEPTH = 50  # weight layers that limits are quoted for
DEEPEST = 301  # weight layers of the deepest network that was trained: a law is not carried beyond
AT_RISK = 0.2  # the risk at which a network is no longer called healthy


@dataclass(frozen=True)
class Law:
    r"""How one number, the larger the worse, turns into the odds that a network of $L$ weight layers does not train.

    $$ \ln\frac{p}{1-p} = b \ln\frac{x}{x_{50} (L/50)^q} $$

    So even odds, the limit of sickness, are at $x = x_{50} (L/50)^q$; $b$ says how sharp the limit is. A network of
    fewer than `spared` layers recovers from what this number shows: it counts for nothing there.
    """

    limit: float
    power: float
    sharpness: float
    spared: int = 0

    def log_odds(self, value: float, layers: int) -> float:
        """Of not training; minus infinity where the number is no sign of anything."""
        if layers < self.spared or not value > 0:
            return -math.inf
        depth = math.log(min(layers, DEEPEST) / TYPICAL_DEPTH)
        return self.sharpness * (math.log(value / self.limit) - self.power * depth)

    def limit_at(self, log_odds: float) -> float:
        """The number at which the odds are so high, at 50 layers."""
        return self.limit * math.exp(log_odds / self.sharpness)


@dataclass(frozen=True)
class Calibration:
    """Laws by name, and how often an outcome is not what any law says."""

    laws: Mapping[str, Law]
    lapse: float
    document: Mapping[str, Any]

    def risk(self, log_odds: float) -> float:
        r"""$\epsilon + (1 - 2\epsilon)/(1 + e^{-z})$: the worst sign decides, and chance has its share."""
        return self.lapse + (1 - 2 * self.lapse) / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))

    def at_risk(self, name: str) -> float:
        """Where a number alone makes the risk `AT_RISK`, at 50 layers."""
        share = (AT_RISK - self.lapse) / (1 - 2 * self.lapse)
        return self.laws[name].limit_at(math.log(share / (1 - share)))

    @property
    def checksum(self) -> str:
        """Of the laws alone: what was judged by other laws has another one."""
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
