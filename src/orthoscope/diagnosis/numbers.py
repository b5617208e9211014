"""The numbers of a diagnosis that its probability is made of, each oriented so that larger is worse."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from orthoscope.diagnosis.checks import weight_layers
from orthoscope.diagnosis.first_steps import FirstSteps
from orthoscope.findings import Finding, State
from orthoscope.probe import Recording

_SMALLEST = 1e-12  # of a share or an angle: below it all are the same


def _shrinks(share: float) -> float:
    """Powers of ten below 1."""
    return -math.log10(max(share, _SMALLEST))


def _itself(value: float) -> float:
    return value


def _minus(value: float) -> float:
    return -value


def _power(value: float) -> float:
    return math.log10(max(value, _SMALLEST))


# From what a check compares to a number that is larger the worse.
OF_CHECKS: Mapping[str, Callable[[float], float]] = {
    "input varies": _shrinks,
    "input rank": _shrinks,
    "live layers": _itself,
    "live branches": _itself,
    "output varies": _itself,
    "sample angles": _shrinks,
    "sample rank": _shrinks,
    "token angles": _shrinks,
    "token rank": _shrinks,
    "gradient growth": _itself,
    "gradient decay": _minus,
    "largest gradient": _itself,
    "smallest gradient": _minus,
    "gradient arrives": _itself,
    "gradient connected": _itself,
    "initial loss": _power,
    "loss fits outputs": _itself,
    "attention weights": _itself,
    "attention logits": _power,
    "attention mask": _itself,
    "attention axis": _itself,
    "gradient over time": _itself,
    "saturation over time": _itself,
    "expert balance": _shrinks,
}


def numbers(findings: Sequence[Finding], recording: Recording, steps: FirstSteps | None) -> dict[str, float]:
    """Return every number that is known, by name.

    Those of the checks; "depth" (powers of ten of weight layers); "no gradient" (share of the parameters); the
    first-order decrease of the loss by a step of SGD and by one of signs, per learning rate, and the gradient relative
    to the weights, as powers of ten below 1; and what the first steps did to the loss, if they were taken. Losses are
    relative to that of guessing, or to the first one where that is not known.
    """
    found = {
        finding.check: OF_CHECKS[finding.check](finding.measured.value)
        for finding in findings
        if finding.check in OF_CHECKS and finding.state is not State.NOT_CHECKED and finding.measured is not None
    }
    found["depth"] = math.log10(weight_layers(recording))
    unit = loss_unit(recording, steps)
    found |= _of_gradients(recording, unit)
    if steps is not None and steps.taken:
        found["first steps"] = -steps.fall / unit
        found["first step"] = -steps.first_fall / unit
        found["loss after first steps"] = (steps.start - steps.fall) / unit
    return {name: value for name, value in found.items() if not math.isnan(value)}


def loss_unit(recording: Recording, steps: FirstSteps | None) -> float:
    """The loss of guessing; else the first loss; else 1."""
    known = recording.initial_loss
    candidates = [None if known is None else known.guessing, None if known is None else abs(known.value)]
    if steps is not None and steps.taken:
        candidates.append(abs(steps.start))
    return next((one for one in candidates if one is not None and 0 < one < math.inf), 1.0)


def _of_gradients(recording: Recording, unit: float) -> dict[str, float]:
    table = recording.parameter_table
    size = sum(row.size for row in table.rows)
    if not size:
        return {}
    found = {"no gradient": 1 - sum(row.size for row in table.rows if row.gets_gradient) / size}
    if recording.initial_loss is not None:  # the gradient of a random direction has no scale
        for name, optimizer in (("decrease by sgd", "sgd"), ("decrease by signs", "adamw")):
            decrease = table.first_decrease(optimizer)
            if decrease is not None:
                found[name] = _shrinks(decrease / unit)
        relative = list(table.relative_gradients.values())
        if relative:
            found["relative gradient"] = _shrinks(statistics.median(relative))
    return found
