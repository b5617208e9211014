"""The rules, as a table: what is compared, with which limits, and how the outcome reads."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from orthoscope.diagnosis import evidence as ev
from orthoscope.diagnosis.evidence import Evidence, NotChecked
from orthoscope.findings import Finding, Measurement, State, Symptom, Verdict
from orthoscope.probe import Recording


@dataclass(frozen=True)
class Rule:
    """A check: `measure` gives a number, at risk beyond `risk` and sick beyond `sick`, on the side `sick` lies on."""

    check: str
    symptom: Symptom
    measure: Callable[[Recording], Evidence]
    unit: str
    risk: float
    sick: float
    found: str  # sentence for a hit; {value} and {layer} are filled in
    clean: str
    low_is_bad: bool = False


# Where the limits come from: docs/method.md. Growth is in e-folds: ln 100 and ln 1000.
RULES: tuple[Rule, ...] = (
    Rule(
        "input varies", Symptom.DEGENERATE_INPUT, ev.input_variation, "share of energy around the mean", 1e-6, 1e-12,
        "the samples of the batch are all but equal: {value:.1g} of their energy is around the mean",
        "the samples of the batch differ", low_is_bad=True,
    ),
    Rule(
        "input rank", Symptom.DEGENERATE_INPUT, ev.input_rank, "share of directions", 0.1, 0.03,
        "the samples of the batch have few directions: {value:.0%} of what would be enough",
        "the samples of the batch have {value:.0%} of the directions that are enough", low_is_bad=True,
    ),
    Rule(
        "finite outputs", Symptom.EXPLODE, ev.non_finite_outputs, "module outputs", 0.0, 0.0,
        "the output of {layer} and of {value:.0f} modules in all is not finite",
        "every output is finite",
    ),
    Rule(
        "finite gradients", Symptom.EXPLODE, ev.non_finite_gradients, "gradients", 0.0, 0.0,
        "the gradient at {layer} and at {value:.0f} modules in all is not finite",
        "every gradient is finite",
    ),
    Rule(
        "live layers", Symptom.COLLAPSE, ev.dead_layers, "module outputs", 0.0, 0.0,
        "the output of {layer} is exactly zero for every sample",
        "no layer is dead",
    ),
    Rule(
        "output varies", Symptom.COLLAPSE, ev.constant_outputs, "1 if constant", 0.0, 0.0,
        "the output does not depend on the batch: from {layer} on all samples are the same",
        "the output depends on the batch",
    ),
    Rule(
        "sample angles", Symptom.COLLAPSE, ev.sample_angles, "1 - mean cosine", 3e-3, 1e-3,
        "samples collapse to one direction from {layer} on: 1 - mean cosine is {value:.2g} at the end",
        "samples point apart at the end: 1 - mean cosine is {value:.2g}", low_is_bad=True,
    ),
    Rule(
        "sample rank", Symptom.COLLAPSE, ev.sample_rank, "share of directions", 0.25, 0.04,
        "samples collapse from {layer} on: {value:.0%} of the directions of a healthy network are left at the end",
        "samples have {value:.0%} of the directions that are enough at the end", low_is_bad=True,
    ),
    Rule(
        "token angles", Symptom.COLLAPSE, ev.token_angles, "1 - mean cosine", 3e-3, 1e-3,
        "the tokens of a sequence collapse to one direction from {layer} on: 1 - mean cosine is {value:.2g} at the end",
        "tokens point apart at the end: 1 - mean cosine is {value:.2g}", low_is_bad=True,
    ),
    Rule(
        "token rank", Symptom.COLLAPSE, ev.token_rank, "share of directions", 0.25, 0.04,
        "tokens of a sequence collapse from {layer} on: {value:.0%} of the directions of a healthy network are left",
        "tokens have {value:.0%} of the directions that are enough at the end", low_is_bad=True,
    ),
    Rule(
        "gradient growth", Symptom.EXPLODE, ev.gradient_growth, "e-folds from output to input",
        math.log(100), math.log(1000),
        "gradients grow by a factor e^{value:.1f} from the output to the input, a hundredfold at {layer}",
        "gradients change by e^{value:.1f} from the output to the input",
    ),
    Rule(
        "gradient decay", Symptom.VANISH, ev.gradient_growth, "e-folds from output to input",
        -math.log(100), -math.log(1000),
        "gradients shrink by a factor e^{value:.1f} from the output to the input, a hundredfold at {layer}",
        "gradients change by e^{value:.1f} from the output to the input", low_is_bad=True,
    ),
    Rule(
        "largest gradient", Symptom.EXPLODE, ev.largest_gradient, "e-folds above the last layer",
        math.log(1e3), math.log(1e5),
        "the gradient at {layer} is e^{value:.1f} times that of the last layer",
        "no gradient is more than e^{value:.1f} times that of the last layer",
    ),
    Rule(
        "smallest gradient", Symptom.VANISH, ev.smallest_gradient, "e-folds above the last layer",
        -math.log(1e6), -math.inf,
        "the gradient at {layer} is e^{value:.1f} times that of the last layer",
        "no gradient is less than e^{value:.1f} times that of the last layer", low_is_bad=True,
    ),
    Rule(
        "gradient arrives", Symptom.VANISH, ev.starved_layers, "weight layers", 0.0, 0.0,
        "the gradient is exactly zero at every weight layer up to {layer}",
        "the first weight layer that is followed gets a gradient",
    ),
    Rule(
        "gradient connected", Symptom.VANISH, ev.cut_off_layers, "weight layers", 0.0, math.inf,
        "{value:.0f} weight layers, up to {layer}, are cut off from the output and get no gradient",
        "no weight layer is cut off from the output",
    ),
)  # fmt: skip


def judge(rule: Rule, recording: Recording) -> Finding:
    """Apply one rule: found, clean, or not checked with the reason."""
    try:
        seen = rule.measure(recording)
    except NotChecked as reason:
        return Finding(rule.check, rule.symptom, State.NOT_CHECKED, str(reason))
    return conclude(rule, seen)


def conclude(rule: Rule, seen: Evidence) -> Finding:
    """What follows from a number by a rule, whether it was measured or predicted."""
    severity = _severity(rule, seen)
    limit = rule.sick if severity is Verdict.SICK else rule.risk
    layer = None if severity is Verdict.HEALTHY else seen.begins(rule.risk)
    found = severity is not Verdict.HEALTHY
    return Finding(
        check=rule.check,
        symptom=rule.symptom,
        state=State.FOUND if found else State.CLEAN,
        reason=(rule.found if found else rule.clean).format(value=seen.value, layer=_in_words(layer)),
        severity=severity,
        layer=layer,
        measured=Measurement(rule.check, seen.value, rule.unit, seen.standard_error),
        threshold=limit,
    )


def _in_words(layer: str | None) -> str:
    """The name as it reads in a sentence: members of an nn.Sequential are only numbers, the root is nothing."""
    if not layer:
        return "the whole network"
    return f"module {layer}" if layer.isdigit() else layer


def _severity(rule: Rule, seen: Evidence) -> Verdict:
    significant = abs(seen.value) > seen.margin or math.isinf(seen.value) or seen.margin == 0
    if significant and _beyond(rule, seen.value, rule.sick):
        return Verdict.SICK
    if significant and _beyond(rule, seen.value, rule.risk):
        return Verdict.AT_RISK
    return Verdict.HEALTHY


def _beyond(rule: Rule, value: float, limit: float) -> bool:
    return value < limit if rule.low_is_bad else value > limit
