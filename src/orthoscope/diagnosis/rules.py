"""The rules, as a table: what is compared, with which limits, and the sentence for each outcome."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from orthoscope.diagnosis import checks
from orthoscope.diagnosis.calibration import CALIBRATION, DEEPEST, TYPICAL_DEPTH
from orthoscope.diagnosis.checks import CheckValue, NotChecked
from orthoscope.findings import Finding, Measurement, State, Symptom, Verdict
from orthoscope.probe import Recording


@dataclass(frozen=True)
class Rule:
    """A check: `measure` gives a number, at risk beyond `risk` and sick beyond `sick`.

    Attributes:
        check: Name of the rule.
        symptom: What it looks for.
        measure: From a recording to a number and the layer where limits are exceeded.
        unit: Of the number.
        risk: Limit of AT RISK, in a network of 50 weight layers.
        sick: Limit of SICK, in a network of 50 weight layers.
        found: Sentence for a hit; {value}, {factor} and {layer} are filled in.
        clean: Sentence for none.
        low_is_bad: Whether numbers below the limits are bad.
        power: Limits are multiplied by (layers/50)^power.
        min_depth_for_sick: Networks with fewer weight layers are at risk at most.
        min_depth: The rule does not apply to networks with fewer weight layers.
        ceiling: No limit is above it.
    """

    check: str
    symptom: Symptom
    measure: Callable[[Recording], CheckValue]
    unit: str
    risk: float
    sick: float
    found: str
    clean: str
    low_is_bad: bool = False
    power: float = 0.0
    min_depth_for_sick: int = 0
    min_depth: int = 0
    ceiling: float = math.inf

    def limits(self, layers: int) -> tuple[float, float]:
        """The limits of AT RISK and of SICK in a network of so many weight layers."""
        if layers < self.min_depth:
            return self._never, self._never
        factor = (min(layers, DEEPEST) / TYPICAL_DEPTH) ** self.power
        risk, sick = min(self.risk * factor, self.ceiling), min(self.sick * factor, self.ceiling)
        return risk, sick if layers >= self.min_depth_for_sick else self._never

    @property
    def _never(self) -> float:
        return -math.inf if self.low_is_bad else math.inf


# In a law a larger number is worse; the rank is a share, so the law is of its inverse.
_RANK, _GROWTH, _DECAY = (CALIBRATION.laws[name] for name in ("sample rank", "gradient growth", "gradient decay"))

# Networks with fewer weight layers recover from a collapse. Not a fitted number: the fit must not depend on itself.
_MIN_DEPTH_FOR_SICK = 29
# As a share of the rank of a healthy network: above it there is no collapse, however deep the network.
MAX_RANK_FRACTION = 0.99

# Where the limits come from: docs/method.md and docs/calibration.md. Growth is in e-folds.
RULES: tuple[Rule, ...] = (
    Rule(
        "input varies", Symptom.DEGENERATE_INPUT, checks.input_variation, "share of energy around the mean",
        1e-6, 1e-12,
        "the samples of the batch are all but equal: {value:.1g} of their energy is around the mean",
        "the samples of the batch differ", low_is_bad=True,
    ),
    Rule(
        "input rank", Symptom.DEGENERATE_INPUT, checks.input_rank, "share of directions", 0.1, 0.03,
        "the samples of the batch have few directions: {value:.0%} of what would be enough",
        "the samples of the batch have {value:.0%} of the directions that are enough", low_is_bad=True,
    ),
    Rule(
        "finite outputs", Symptom.EXPLODE, checks.non_finite_outputs, "module outputs", 0.0, 0.0,
        "the output of {layer} and of {value:.0f} modules in all is not finite",
        "every output is finite",
    ),
    Rule(
        "finite gradients", Symptom.EXPLODE, checks.non_finite_gradients, "gradients", 0.0, 0.0,
        "the gradient at {layer} and at {value:.0f} modules in all is not finite",
        "every gradient is finite",
    ),
    Rule(
        "live layers", Symptom.COLLAPSE, checks.dead_layers, "module outputs", 0.0, 0.0,
        "the output of {layer} is exactly zero for every sample",
        "no layer is dead",
    ),
    Rule(
        "output varies", Symptom.COLLAPSE, checks.constant_outputs, "1 if constant", 0.0, 0.0,
        "the output does not depend on the batch: from {layer} on all samples are the same",
        "the output depends on the batch",
    ),
    Rule(
        "sample angles", Symptom.COLLAPSE, checks.sample_angles, "1 - mean cosine", 3e-3, 1e-3,
        "samples collapse to one direction from {layer} on: 1 - mean cosine is {value:.2g} at the end",
        "samples point apart at the end: 1 - mean cosine is {value:.2g}", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "sample rank", Symptom.COLLAPSE, checks.sample_rank, "share of directions",
        1 / CALIBRATION.at_risk("sample rank"), 1 / _RANK.limit,
        "samples collapse from {layer} on: {value:.0%} of the directions of a healthy network are left at the end",
        "samples have {value:.0%} of the directions that are enough at the end", low_is_bad=True,
        power=-_RANK.power, min_depth=_RANK.min_depth, ceiling=MAX_RANK_FRACTION,
    ),
    Rule(
        "token angles", Symptom.COLLAPSE, checks.token_angles, "1 - mean cosine", 3e-3, 1e-3,
        "the tokens of a sequence collapse to one direction from {layer} on: 1 - mean cosine is {value:.2g} at the end",
        "tokens point apart at the end: 1 - mean cosine is {value:.2g}", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "token rank", Symptom.COLLAPSE, checks.token_rank, "share of directions", 0.25, 0.04,
        "tokens of a sequence collapse from {layer} on: {value:.0%} of the directions of a healthy network are left",
        "tokens have {value:.0%} of the directions that are enough at the end", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "gradient growth", Symptom.EXPLODE, checks.gradient_growth, "e-folds from output to input",
        CALIBRATION.at_risk("gradient growth"), _GROWTH.limit,
        "gradients grow by a factor e^{value:.1f} from the output to the input, beyond the limit from {layer} on",
        "gradients change by e^{value:.1f} from the output to the input",
        power=_GROWTH.power,
    ),
    Rule(
        "gradient decay", Symptom.VANISH, checks.gradient_growth, "e-folds from output to input",
        -CALIBRATION.at_risk("gradient decay"), -_DECAY.limit,
        "gradients shrink by a factor e^{value:.1f} from the output to the input, beyond the limit from {layer} on",
        "gradients change by e^{value:.1f} from the output to the input", low_is_bad=True,
        power=_DECAY.power,
    ),
    Rule(
        "largest gradient", Symptom.EXPLODE, checks.largest_gradient, "e-folds above the last layer",
        math.log(1e3), math.log(1e5),
        "the gradient at {layer} is e^{value:.1f} times that of the last layer",
        "no gradient is more than e^{value:.1f} times that of the last layer",
    ),
    Rule(
        "smallest gradient", Symptom.VANISH, checks.smallest_gradient, "e-folds above the last layer",
        -math.log(1e6), -math.inf,
        "the gradient at {layer} is e^{value:.1f} times that of the last layer",
        "no gradient is less than e^{value:.1f} times that of the last layer", low_is_bad=True,
    ),
    Rule(
        "gradient arrives", Symptom.VANISH, checks.starved_layers, "weight layers", 0.0, 0.0,
        "the gradient is exactly zero at every weight layer up to {layer}",
        "the first weight layer that is followed gets a gradient",
    ),
    Rule(
        "gradient connected", Symptom.VANISH, checks.cut_off_layers, "weight layers", 0.0, math.inf,
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


def conclude(rule: Rule, seen: CheckValue) -> Finding:
    """The finding that follows from a number by a rule, whether it was measured or predicted."""
    risk, sick = rule.limits(seen.weight_layers)
    severity = _severity(rule, seen)
    limit = sick if severity is Verdict.SICK else risk
    layer = None if severity is Verdict.HEALTHY else seen.begins(risk)
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
    """The name as it reads in a sentence: members of an nn.Sequential are only numbers, the root has an empty name."""
    if not layer:
        return "the whole network"
    return f"module {layer}" if layer.isdigit() else layer


def _severity(rule: Rule, seen: CheckValue) -> Verdict:
    risk, sick = rule.limits(seen.weight_layers)
    if _beyond(rule, seen.value, sick):
        return Verdict.SICK
    if _beyond(rule, seen.value, risk):
        return Verdict.AT_RISK
    return Verdict.HEALTHY


def _beyond(rule: Rule, value: float, limit: float) -> bool:
    return value < limit if rule.low_is_bad else value > limit
