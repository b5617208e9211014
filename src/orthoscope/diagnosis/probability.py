"""The calibrated probability that a network does not train with a given optimizer.

A sum of steps, each a limit on one number: what is beyond it adds to the log-odds, never the other way round. The
limits are fitted to trained networks by `make calibrate`; `calibration.json` holds them and the error rates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Term:
    """Adds to the log-odds where a number is above a limit; a number that is not known adds nothing.

    Attributes:
        number: Name in `numbers`.
        above: The limit.
        adds: Positive.
        optimizer: The optimizer that it holds for; None for all.
    """

    number: str
    above: float
    adds: float
    optimizer: str | None = None


@dataclass(frozen=True)
class AdditiveModel:
    r"""$\ln\frac{p}{1-p} = \beta_0 + \sum_i a_i\,[x_i > t_i]$ with all $a_i > 0$.

    Attributes:
        base: $\beta_0$.
        terms: Limits $t_i$ and what they add, $a_i$.
        sick_above: The probability beyond which a network is called sick.
    """

    base: float
    terms: tuple[Term, ...]
    sick_above: float = 0.5

    def contributions(self, numbers: Mapping[str, float], optimizer: str) -> dict[str, float]:
        """What each number adds to the log-odds, the most first; only those that add something."""
        added: dict[str, float] = {}
        for term in self.terms:
            applies = term.optimizer in (None, optimizer)
            if applies and numbers.get(term.number, -math.inf) > term.above:
                added[term.number] = added.get(term.number, 0.0) + term.adds
        return dict(sorted(added.items(), key=lambda pair: -pair[1]))

    def probability(self, numbers: Mapping[str, float], optimizer: str) -> float:
        """The probability of not training."""
        odds = self.base + sum(self.contributions(numbers, optimizer).values())
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, odds))))

    def as_data(self) -> dict[str, Any]:
        """The entry of `calibration.json`."""
        return {
            "base": self.base,
            "terms": [[t.number, t.optimizer, t.above, t.adds] for t in self.terms],
            "sick_above": self.sick_above,
        }


def from_data(data: Mapping[str, Any]) -> AdditiveModel:
    """Read an entry of `calibration.json`."""
    rows: Sequence[Sequence[Any]] = data["terms"]
    return AdditiveModel(
        data["base"], tuple(Term(name, above, adds, opt) for name, opt, above, adds in rows), data["sick_above"]
    )
