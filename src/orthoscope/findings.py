"""The outcome of a diagnosis: measured numbers, predicted numbers, findings, and the verdict.

Every check ends in one of three states: found, clean, or not checked. The last carries its reason, so that a check
that could not run is never read as a healthy result.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How likely it is that the network trains; the risk decides, and where too little was checked, nothing is said."""

    rank: int  # 0 healthy, 1 unknown, 2 at risk, 3 sick, so that verdicts can be compared

    def __new__(cls, word: str, rank: int = 0) -> "Verdict":
        """Make a member: the word is its value."""
        member = str.__new__(cls, word)
        member._value_, member.rank = word, rank
        return member

    HEALTHY = "HEALTHY", 0
    UNKNOWN = "UNKNOWN", 1  # nothing was found, and samples or gradients could not be judged
    AT_RISK = "AT RISK", 2
    SICK = "SICK", 3


class Symptom(StrEnum):
    """What goes wrong."""

    COLLAPSE = "collapse"  # samples become equal in the forward pass
    VANISH = "vanish"  # gradients shrink from output to input
    EXPLODE = "explode"  # gradients grow from output to input, or numbers overflow
    DEGENERATE_INPUT = "degenerate input"  # the samples of the batch are equal or of low rank
    ATTENTION = "attention"  # one key gets all the weight, or the weights are of the wrong keys
    ROUTING = "routing"  # experts get no tokens
    DISCONNECTED = "disconnected"  # no parameter is trainable, or none is connected with the loss
    SCALE = "scale"  # inputs or logits are far too large or too small
    LOSS = "loss"  # the loss does not fit the outputs
    SLOW = "slow"  # the loss hardly falls in the first steps

    @property
    def words(self) -> str:
        """Its name in the words of the field."""
        return _SYMPTOM_WORDS[self]


_SYMPTOM_WORDS = {
    Symptom.COLLAPSE: "rank collapse",
    Symptom.VANISH: "vanishing gradients",
    Symptom.EXPLODE: "exploding gradients",
    Symptom.DEGENERATE_INPUT: "degenerate input",
    Symptom.ATTENTION: "broken attention",
    Symptom.ROUTING: "unbalanced experts",
    Symptom.DISCONNECTED: "no gradient path",
    Symptom.SCALE: "unsuitable scale",
    Symptom.LOSS: "unsuitable loss",
    Symptom.SLOW: "slow learning",
}


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
    """A measured number.

    Attributes:
        name: The check that measured it.
        value: The number.
        unit: Its unit.
        standard_error: Standard error, where the number is an estimate.
    """

    name: str
    value: float
    unit: str
    standard_error: float | None = None


@dataclass(frozen=True)
class Prediction:
    """A number that theory gives.

    Attributes:
        name: The quantity.
        value: The number.
        unit: Its unit.
        source: The theorem or equation it comes from.
        assumes: The hypotheses of that statement.
    """

    name: str
    value: float
    unit: str
    source: str
    assumes: str

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name} {self.value:.3g}{unit}, by {self.source}, assuming {self.assumes}"

    __repr__ = __str__


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: Name of the rule.
        symptom: What the rule looks for.
        state: Found, clean, or not checked.
        reason: One sentence; for a check that could not run, why.
        severity: How bad it is.
        layer: Where it begins; None if nothing was found.
        cause: The module to change, or "input"; None if no single one explains it.
        measured: The number that was compared.
        threshold: The limit that was crossed, or the nearest one that was not.
    """

    check: str
    symptom: Symptom
    state: State
    reason: str
    severity: Verdict = Verdict.HEALTHY
    layer: str | None = None
    cause: str | None = None
    measured: Measurement | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        state = str(self.severity) if self.state is State.FOUND else str(self.state)
        return f"{state}  {self.check}: {self.reason}"

    __repr__ = __str__
