"""The two axes of the trainability plane, and the rule by which a change is kept."""

import math
from dataclasses import dataclass

from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import State, Symptom, Verdict
from orthoscope.prescriptions.prescription import Effect

# Outputs that overflow are lost on the way forward, whatever becomes of gradients.
_FORWARD_CHECKS = ("finite outputs",)
COMFORT = math.log(10)  # e-folds of gradient growth from which on a healthy verdict is not taken for granted


@dataclass(frozen=True)
class Axis:
    """One direction of the signal: how bad the findings are, and the number that should be small."""

    severity: Verdict
    number: float  # infinite if it could not be measured

    def improves_on(self, before: "Axis") -> bool:
        """A milder verdict, or the same with a smaller number."""
        return (self.severity.rank, self.number) < (before.severity.rank, before.number)


@dataclass(frozen=True)
class Axes:
    """Forward: what becomes of samples, by the gap. Backward: what becomes of gradients, by their growth in e-folds."""

    forward: Axis
    backward: Axis
    verdict: Verdict

    @property
    def comfortable(self) -> bool:
        """Healthy, and gradients even enough that a small change does not undo it."""
        return self.verdict is Verdict.HEALTHY and self.backward.number < COMFORT

    @property
    def badness(self) -> tuple[float, ...]:
        """Smaller is better; the verdict counts first."""
        severities = self.forward.severity.rank + self.backward.severity.rank
        return float(self.verdict.rank), float(severities), self.forward.number + self.backward.number / COMFORT


def axes(diagnosis: Diagnosis) -> Axes:
    """Where a diagnosis puts the network."""
    growth = math.nan if diagnosis.gradients is None else abs(diagnosis.gradients.growth)
    return Axes(
        Axis(_severity(diagnosis, forward=True), _or_infinite(diagnosis.gap)),
        Axis(_severity(diagnosis, forward=False), _or_infinite(growth)),
        diagnosis.verdict,
    )


def effect(diagnosis: Diagnosis) -> Effect:
    """Where it was measured to be."""
    return Effect(diagnosis.gap, diagnosis.slope)


def kept(before: Axes, after: Axes) -> bool:
    """The rule: the verdict is no worse, what was sick or at risk improves, and what was healthy stays healthy.

    If both axes were sick, both must improve. An axis improves by a milder finding, or by the same with a smaller
    number: the gap forward, the growth of gradients backward.
    """
    if after.verdict.rank > before.verdict.rank:
        return False
    return all(
        new.severity is Verdict.HEALTHY if old.severity is Verdict.HEALTHY else new.improves_on(old)
        for old, new in ((before.forward, after.forward), (before.backward, after.backward))
    )


def _severity(diagnosis: Diagnosis, forward: bool) -> Verdict:
    found = [
        finding.severity
        for finding in diagnosis.findings
        if finding.state is State.FOUND and finding.symptom is not Symptom.DEGENERATE_INPUT
        if (finding.symptom is Symptom.COLLAPSE or finding.check in _FORWARD_CHECKS) is forward
    ]
    return max(found, key=lambda verdict: verdict.rank, default=Verdict.HEALTHY)


def _or_infinite(value: float) -> float:
    return value if math.isfinite(value) else math.inf
