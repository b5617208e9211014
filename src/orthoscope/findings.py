"""The vocabulary of a diagnosis: what was measured, what was predicted, what was found, how bad it is.

Every check ends in one of three states. `not checked` is a result, not an absence: it carries the
reason, so that silence never reads as health.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How likely it is that the network trains; the worst finding decides."""

    HEALTHY = "HEALTHY"
    AT_RISK = "AT RISK"
    SICK = "SICK"

    @property
    def rank(self) -> int:
        """0 for healthy, 1 for at risk, 2 for sick: verdicts compare by how bad they are."""
        return list(Verdict).index(self)


class Symptom(StrEnum):
    """What goes wrong, in the words people use for it."""

    COLLAPSE = "collapse"  # samples become indistinguishable on the way forward
    VANISH = "vanish"  # gradients shrink on the way back
    EXPLODE = "explode"  # gradients grow on the way back, or numbers overflow
    DEGENERATE_INPUT = "degenerate input"  # the batch itself carries too little to judge by


class State(StrEnum):
    """The three ways a check can end."""

    FOUND = "found"
    CLEAN = "clean"
    NOT_CHECKED = "not checked"


class Status(StrEnum):
    """What kind of representation came out of a module; only `measured` ones have metrics."""

    MEASURED = "measured"
    ZERO_BY_DESIGN = "zero by design"  # a branch whose last weight is zero at initialization
    DEAD = "dead"  # exactly zero although no weight is
    CONSTANT = "does not depend on the batch"  # position embeddings and the like
    NOT_FINITE = "not finite"


@dataclass(frozen=True)
class Measurement:
    """A number with its unit and, where it is an estimate, its standard error."""

    name: str
    value: float
    unit: str
    standard_error: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives, with its unit, the statement it comes from and what that assumes."""

    name: str
    value: float
    unit: str
    source: str
    assumes: str


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: which rule, what it saw, where, and in one sentence why."""

    check: str
    symptom: Symptom
    state: State
    reason: str
    severity: Verdict = Verdict.HEALTHY
    layer: str | None = None  # where it begins
    measured: Measurement | None = None
    threshold: float | None = None  # the limit that was crossed, or the nearest one that was not
