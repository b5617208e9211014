"""The result of a fix: a network, what it was, what was done to it, and the code that does it again."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import nn

from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.document import environment
from orthoscope.diagnosis.viewed import Viewed
from orthoscope.prescriptions.comparison import Comparison, compare
from orthoscope.prescriptions.confirmation import Confirmation
from orthoscope.prescriptions.prescription import Prescription
from orthoscope.prescriptions.snippet import snippet

SCHEMA = "orthoscope.fix/1"


class Outcome(StrEnum):
    """How a fix ended."""

    FIXED = "fixed"  # healthy now
    IMPROVED = "improved"  # better by the rule, but not healthy
    HEALTHY = "healthy before"
    TRAINED = "trained weights left alone"
    NOTHING_HELPED = "nothing helped"


@dataclass(frozen=True, repr=False)
class Fix(Viewed):
    """`model` is a copy with `steps` applied in order; `plan` is all that was thought of and what became of it."""

    model: nn.Module
    before: Diagnosis
    after: Diagnosis
    steps: tuple[Prescription, ...]
    plan: tuple[Prescription, ...]
    outcome: Outcome
    sentence: str
    confirmations: tuple[Confirmation, Confirmation] | None = None  # of the network before and after
    code: str = ""  # where more is known of how the network is built

    @property
    def snippet(self) -> str:
        """Code to paste: it makes the same changes, to the last bit, on a network built in the same way."""
        return self.code or snippet(self.steps)

    @property
    def comparison(self) -> Comparison:
        return compare(self.before, self.after)

    def document(self) -> dict[str, Any]:
        """Everything as plain data, in the versioned schema; weights are not part of it."""
        return {
            "schema": SCHEMA,
            "name": self.before.name,
            "outcome": str(self.outcome),
            "sentence": self.sentence,
            "verdict": {"before": str(self.before.verdict), "after": str(self.after.verdict)},
            "steps": [step.document() for step in self.steps],
            "plan": [step.document() for step in self.plan],
            "snippet": self.snippet,
            "comparison": self.comparison.document(),
            "confirmation": None
            if self.confirmations is None
            else {when: one.document() for when, one in zip(("before", "after"), self.confirmations, strict=True)},
            "environment": environment(),
        }
