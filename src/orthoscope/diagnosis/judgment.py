"""The risk for a named optimizer, after its first steps were taken, and findings that agree with it.

From one pass alone a finding is a limit on one number. With the first steps the probability is known better than any
limit says: what goes beyond a limit in a network that will train is no finding, and a network that will not train has
one, if only that its loss does not fall.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orthoscope.diagnosis.checks import CheckValue
from orthoscope.diagnosis.first_steps import STEPS, FirstSteps
from orthoscope.diagnosis.rules import CALIBRATION, Calibration, verdict
from orthoscope.findings import Finding, Measurement, State, Symptom, Verdict

CHECK = "first steps"
# What no step can mend: then the risk is the highest.
_CERTAIN = ("trainable parameters", "gradient path", "finite outputs", "finite gradients", "finite loss")
# A part of the network that is dead, cut off or blind is at risk at least, also where the rest learns.
_NEVER_HEALTHY = ("live layers", "output varies", "gradient arrives", "gradient connected", "input varies")
_NAMES = {"adamw": "AdamW", "sgd": "SGD", "muon": "Muon"}


def risk_after_steps(
    findings: Sequence[Finding], numbers: Mapping[str, float], optimizer: str, calibration: Calibration = CALIBRATION
) -> float:
    """The calibrated probability that the network does not train with this optimizer.

    Args:
        findings: The outcome of every check.
        numbers: As `diagnosis.numbers` has them, with those of the first steps.
        optimizer: "adamw", "sgd" or "muon".
        calibration: Holds the fitted model.
    """
    model = calibration.after_steps
    found = [finding for finding in findings if finding.state is State.FOUND]
    if any(finding.check in _CERTAIN and finding.severity is Verdict.SICK for finding in found):
        return 1 - calibration.lapse
    probability = min(max(model.probability(numbers, optimizer), calibration.lapse), 1 - calibration.lapse)
    harmed = any(finding.check in _NEVER_HEALTHY for finding in found)
    return max(probability, calibration.least_risk(Verdict.AT_RISK)) if harmed else probability


def agreeing(findings: Sequence[Finding], risk: float, steps: FirstSteps, unit: float) -> tuple[Finding, ...]:
    """Return the findings so that none is worse than the verdict, and one is as bad; the first steps are one of them.

    Args:
        findings: The outcome of every check.
        risk: The probability of not training.
        steps: The first steps.
        unit: The loss of guessing, which a fall of the loss is compared with.
    """
    judged = verdict(risk, CALIBRATION.after_steps.sick_above)
    milder = [_at_most(finding, judged) for finding in findings]
    explained = any(finding.state is State.FOUND and finding.severity is judged for finding in milder)
    return (*milder, _of_steps(steps, unit, judged if not explained else Verdict.HEALTHY))


def _at_most(finding: Finding, judged: Verdict) -> Finding:
    if finding.state is not State.FOUND or finding.severity.rank <= judged.rank:
        return finding
    if judged is not Verdict.HEALTHY:
        return replace(finding, severity=judged)
    reason = f"{finding.reason}; networks whose loss falls in the first steps as this one's train nonetheless"
    return replace(finding, state=State.CLEAN, severity=Verdict.HEALTHY, reason=reason, layer=None, cause=None)


def _of_steps(steps: FirstSteps, unit: float, severity: Verdict) -> Finding:
    best = CheckValue(steps.fall / unit)
    name, how = _NAMES[steps.optimizer], f"{STEPS} steps at the best of {len(steps.rates)} learning rates"
    fell = f"falls by {best.value:.0%} of that of guessing" if best.value > 0 else "does not fall"
    found = severity is not Verdict.HEALTHY
    said = f"with {name} the loss {fell} in {how}"
    return Finding(
        check=CHECK,
        symptom=Symptom.SLOW,
        state=State.FOUND if found else State.CLEAN,
        reason=f"slow learning: {said}" if found else said,
        severity=severity,
        measured=Measurement(CHECK, best.value, "share of the loss of guessing"),
    )
