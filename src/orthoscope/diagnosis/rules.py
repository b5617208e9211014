"""The rules, as a table: what is compared, with which limits, and the sentence for each outcome; and the risk.

Limits of the verdict, and the risk that goes with a number, are fitted to networks whose training outcome is known.
`calibration.json` is written by `make calibrate` from the trainings in results/calibration, never by hand.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from orthoscope.diagnosis import checks, inside_checks, loss_checks, training_checks
from orthoscope.diagnosis.checks import TYPICAL_DEPTH, CheckValue, NotChecked
from orthoscope.diagnosis.probability import AdditiveModel, from_data
from orthoscope.diagnosis.projections import MOST_ONE_HOT
from orthoscope.findings import Finding, Measurement, State, Symptom, Verdict
from orthoscope.probe import Recording

FILE = "calibration.json"
SCHEMA = "orthoscope.calibration/2"
DEEPEST = 301  # weight layers of the deepest network that was trained: laws are not extrapolated beyond
AT_RISK = 0.2  # the risk at which a network is no longer called healthy
SICK = 0.5  # the risk beyond which it is called sick


@dataclass(frozen=True)
class Law:
    r"""Odds that a network of $L$ weight layers does not train, as a function of one number, larger being worse.

    $$ \ln\frac{p}{1-p} = b \ln\frac{x}{x_{50} (L/50)^q} $$

    The odds are even, the limit of sickness, at $x = x_{50} (L/50)^q$; $b$ is the slope of the transition. Networks of
    fewer than `spared` layers recover from what this number shows: it does not count for them.
    """

    limit: float
    power: float
    sharpness: float
    spared: int = 0  # named as in calibration.json

    def log_odds(self, value: float, layers: int) -> float:
        """Log-odds of not training; minus infinity where the number does not count."""
        if layers < self.spared or not value > 0:
            return -math.inf
        depth = math.log(min(layers, DEEPEST) / TYPICAL_DEPTH)
        return self.sharpness * (math.log(value / self.limit) - self.power * depth)

    def limit_at(self, log_odds: float) -> float:
        """The number at which the log-odds have this value, at 50 layers."""
        return self.limit * math.exp(log_odds / self.sharpness)


@dataclass(frozen=True)
class Calibration:
    """Laws by name, the lapse rate (how often an outcome contradicts every law), and the risk after first steps."""

    laws: Mapping[str, Law]
    lapse: float
    document: Mapping[str, Any]
    after_steps: AdditiveModel = AdditiveModel(0.0, ())  # noqa: RUF009 - a frozen value

    @staticmethod
    def least_risk(verdict: Verdict) -> float:
        """The lowest risk that goes with a verdict."""
        return _BANDS[verdict][0]

    def risk(self, log_odds: float) -> float:
        r"""$\epsilon + (1 - 2\epsilon)/(1 + e^{-z})$ for log-odds $z$ and lapse rate $\epsilon$."""
        return self.lapse + (1 - 2 * self.lapse) / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))

    def at_risk(self, name: str) -> float:
        """Where a number alone makes the risk `AT_RISK`, at 50 layers."""
        share = (AT_RISK - self.lapse) / (1 - 2 * self.lapse)
        return self.laws[name].limit_at(math.log(share / (1 - share)))

    @property
    def checksum(self) -> str:
        """Checksum of the laws, which changes when they do."""
        return hashlib.sha256(repr((sorted(self.laws.items()), self.lapse)).encode()).hexdigest()[:12]

    @property
    def networks(self) -> int:
        """How many networks the limits were fitted to and tested on."""
        return int(self.document["networks"])


def read(text: str) -> Calibration:
    """A calibration from the text of its file."""
    document = json.loads(text)
    laws = {name: Law(**law) for name, law in document["laws"].items()}
    return Calibration(laws, document["lapse"], document, from_data(document["after_steps"]))


CALIBRATION = read(resources.files("orthoscope").joinpath(FILE).read_text("utf-8"))


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
        found: Sentence for a hit: {value}, {percent}, {ratio} = exp(value), {factor} = exp(|value|) and
            {layer} are filled in, and the words of the check.
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

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Beyond the range of float32. How far back a task needs its gradient is not known: all that can be said is that none
# arrives.
_LOST_OVER_TIME = 100.0

# Inside of attention, recurrent layers and mixtures of experts. These limits are set by hand, not yet by trainings.
INSIDE: tuple[Rule, ...] = (
    Rule(
        "attention weights", Symptom.ATTENTION, inside_checks.one_hot_attention, "share of heads",
        MOST_ONE_HOT, math.inf,
        "saturated attention: one key gets all the weight in {percent} of the heads; queries and keys from {layer} are "
        "too large",
        "one key gets all the weight in {percent} of the heads",
    ),
    Rule(
        "attention logits", Symptom.ATTENTION, inside_checks.largest_logit, "largest logit", 100.0, math.inf,
        "attention logits up to {value:.3g}: queries and keys from {layer} are too large",
        "attention logits are at most {value:.3g}",
    ),
    Rule(
        "attention mask", Symptom.ATTENTION, inside_checks.lonely_queries, "share of queries", 0.5, math.inf,
        "the mask of {layer} leaves {percent} of its queries a single key or none",
        "the masks leave {percent} of the queries a single key or none",
    ),
    Rule(
        "attention axis", Symptom.ATTENTION, inside_checks.wrong_axis, "attentions", 0.0, math.inf,
        "the softmax of {layer} is not over the keys: the weights with which its values are summed do not add up to 1",
        "attention weights add up to 1 over the keys",
    ),
    Rule(
        "gradient over time", Symptom.EXPLODE, inside_checks.time_growth, "e-folds from the last step to the first",
        math.log(1e4), math.log(1e8),
        "exploding gradients over time: the norm grows {factor}-fold from the last time step of {layer} to the first",
        "the gradient at the first time step is {ratio} times that at the last",
    ),
    Rule(
        "gradient decay over time", Symptom.VANISH, inside_checks.time_decay,
        "e-folds from the last step to the first", -_LOST_OVER_TIME, -math.inf,
        "vanishing gradients over time: none arrives at the first time step of {layer}; its norm there is {ratio} "
        "times that at the last",
        "the gradient at the first time step is {ratio} times that at the last", low_is_bad=True,
    ),
    Rule(
        "saturation over time", Symptom.VANISH, inside_checks.saturated_states, "share of gates and states", 0.6, 0.9,
        "saturated recurrence: {percent} of the gates and states of {layer} are at their bounds and pass no gradient",
        "{percent} of gates and states of recurrent layers are at their bounds",
    ),
    Rule(
        "expert balance", Symptom.ROUTING, inside_checks.expert_balance, "share of balanced experts", 0.1, -math.inf,
        "unbalanced experts: the router of {layer} sends nearly all tokens to the same experts (balance {percent})",
        "routers share tokens among experts (balance {percent})", low_is_bad=True,
    ),
)  # fmt: skip

# Where the limits come from: docs/method.md and docs/calibration.md. Growth is in e-folds.
RULES: tuple[Rule, ...] = (
    Rule(
        "input varies", Symptom.DEGENERATE_INPUT, checks.input_variation, "share of energy around the mean",
        1e-6, 1e-12,
        "the samples of the batch are nearly equal: {percent} of their energy is left when their mean is subtracted",
        "the samples of the batch differ", low_is_bad=True,
    ),
    Rule(
        "input rank", Symptom.DEGENERATE_INPUT, checks.input_rank, "share of directions", 0.1, 0.03,
        "low-rank batch: the effective rank of its samples is {percent} of a healthy batch's",
        "the effective rank of the batch is {percent} of a healthy batch's", low_is_bad=True,
    ),
    Rule(
        "input scale", Symptom.SCALE, loss_checks.input_scale, "e-folds beyond 0.001 to 20", 0.0, math.inf,
        "the batch is not normalized: its root mean square is {size}, expected about 1",
        "the scale of the batch is ordinary",
    ),
    Rule(
        "trainable parameters", Symptom.DISCONNECTED, training_checks.trainable_parameters, "1 if there are none",
        0.0, 0.0,
        "no parameter is trainable: every one has requires_grad=False",
        "there are trainable parameters",
    ),
    Rule(
        "gradient path", Symptom.DISCONNECTED, training_checks.gradient_path, "1 if there is none", 0.0, 0.0,
        "no trainable parameter is connected with the output: {where}",
        "trainable parameters are connected with the output",
    ),
    Rule(
        "finite outputs", Symptom.EXPLODE, checks.non_finite_outputs, "module outputs", 0.0, 0.0,
        "non-finite outputs: nan or infinity from {layer} on, in {value:.0f} module outputs",
        "every output is finite",
    ),
    Rule(
        "finite gradients", Symptom.EXPLODE, checks.non_finite_gradients, "gradients", 0.0, 0.0,
        "non-finite gradients: nan or infinity from {layer} toward the input, in {value:.0f} gradients",
        "every gradient is finite",
    ),
    Rule(
        "live layers", Symptom.COLLAPSE, training_checks.dead_trunk, "module outputs", 0.0, 0.0,
        "dead layer: the output of {layer} is exactly zero for every sample",
        "no layer is dead that all samples pass",
    ),
    Rule(
        "live branches", Symptom.VANISH, training_checks.dead_branches, "share of weight layers", 0.5, math.inf,
        "dead branches: the weight gradient is exactly zero in {percent} of the weight layers, which skips bypass; "
        "the first is {layer}",
        "the weight gradient is exactly zero in {percent} of the weight layers",
    ),
    Rule(
        "output varies", Symptom.COLLAPSE, checks.constant_outputs, "1 if constant", 0.0, 0.0,
        "constant output: from {layer} on all samples are equal",
        "the output depends on the batch",
    ),
    Rule(
        "sample angles", Symptom.COLLAPSE, checks.sample_angles, "1 - mean cosine", 3e-3, 1e-3,
        "rank collapse from {layer} on: samples point in one direction at the output (1 - mean cosine: {value:.2g})",
        "samples differ in direction at the output (1 - mean cosine: {value:.2g})", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "sample rank", Symptom.COLLAPSE, checks.sample_rank, "share of directions",
        1 / CALIBRATION.at_risk("sample rank"), 1 / _RANK.limit,
        "rank collapse from {layer} on: the effective rank at the output is {percent} of a healthy network's",
        "the effective rank at the output is {percent} of a healthy network's", low_is_bad=True,
        power=-_RANK.power, min_depth=_RANK.spared, ceiling=MAX_RANK_FRACTION,
    ),
    Rule(
        "token angles", Symptom.COLLAPSE, checks.token_angles, "1 - mean cosine", 3e-3, 1e-3,
        "rank collapse of tokens from {layer} on: all point one way (1 - mean cosine at the output: {value:.2g})",
        "tokens differ in direction at the output (1 - mean cosine: {value:.2g})", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "token rank", Symptom.COLLAPSE, checks.token_rank, "share of directions", 0.25, 0.04,
        "rank collapse of tokens from {layer} on: their effective rank is {percent} of a healthy network's",
        "the effective rank of tokens at the output is {percent} of a healthy network's", low_is_bad=True,
        min_depth_for_sick=_MIN_DEPTH_FOR_SICK,
    ),
    Rule(
        "gradient growth", Symptom.EXPLODE, checks.gradient_growth, "e-folds from output to input",
        CALIBRATION.at_risk("gradient growth"), _GROWTH.limit,
        "exploding gradients: the norm grows {factor}-fold from output to input and passes the limit at {layer}",
        "the fitted gradient norm at the input is {ratio} times that at the output",
        power=_GROWTH.power,
    ),
    Rule(
        "gradient decay", Symptom.VANISH, checks.gradient_growth, "e-folds from output to input",
        -CALIBRATION.at_risk("gradient decay"), -_DECAY.limit,
        "vanishing gradients: the norm shrinks {factor}-fold from output to input and passes the limit at {layer}",
        "the fitted gradient norm at the input is {ratio} times that at the output", low_is_bad=True,
        power=_DECAY.power,
    ),
    Rule(
        "largest gradient", Symptom.EXPLODE, checks.largest_gradient, "e-folds above the last layer",
        math.log(1e3), math.log(1e5),
        "exploding gradient at {layer}: its norm is {ratio} times that at the last layer",
        "the largest gradient norm is {ratio} times that at the last layer",
    ),
    Rule(
        "smallest gradient", Symptom.VANISH, checks.smallest_gradient, "e-folds above the last layer",
        -math.log(1e6), -math.inf,
        "vanishing gradient at {layer}: its norm is {ratio} times that at the last layer",
        "the smallest gradient norm is {ratio} times that at the last layer", low_is_bad=True,
    ),
    Rule(
        "gradient arrives", Symptom.VANISH, checks.starved_layers, "weight layers", 0.0, 0.0,
        "vanishing gradients: the gradient is exactly zero at every weight layer up to {layer}",
        "the first weight layer gets a gradient",
    ),
    Rule(
        "gradient connected", Symptom.VANISH, checks.cut_off_layers, "weight layers", 0.0, math.inf,
        "{value:.0f} weight layers, up to {layer}, are detached from the output and get no gradient",
        "no weight layer is detached from the output",
    ),
    Rule(
        "finite loss", Symptom.EXPLODE, loss_checks.finite_loss, "1 if nan or infinite", 0.0, 0.0,
        "the loss is nan or infinite",
        "the loss is finite",
    ),
    Rule(
        "initial loss", Symptom.SCALE, loss_checks.loss_above_guessing, "times the loss of guessing", 4.0, math.inf,
        "logits too large: the loss starts at {loss}, {value:.2g} times that of guessing ({guessing})",
        "the loss starts at {loss}; guessing costs {guessing}",
    ),
    Rule(
        "loss fits outputs", Symptom.LOSS, loss_checks.unsuitable_outputs, "1 if it does not", 0.0, math.inf,
        "{misuse}",
        "the loss fits the outputs",
    ),
    *INSIDE,
)  # fmt: skip


def findings_of(recording: Recording) -> tuple[Finding, ...]:
    """Apply every rule, in the order of the table."""
    return tuple(judge(rule, recording) for rule in RULES)


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
    severity = Verdict.HEALTHY
    for verdict, limit in ((Verdict.AT_RISK, risk), (Verdict.SICK, sick)):
        if seen.value < limit if rule.low_is_bad else seen.value > limit:
            severity = verdict
    limit = sick if severity is Verdict.SICK else risk
    layer = None if severity is Verdict.HEALTHY else seen.begins(risk)
    found = severity is not Verdict.HEALTHY
    return Finding(
        check=rule.check,
        symptom=rule.symptom,
        state=State.FOUND if found else State.CLEAN,
        reason=(rule.found if found else rule.clean).format(
            value=seen.value,
            percent=_percent(seen.value),
            factor=times(abs(seen.value)),
            ratio=times(seen.value),
            layer=in_words(layer),
            **seen.words,
        ),
        severity=severity,
        layer=layer,
        cause=seen.cause if found else None,
        measured=Measurement(rule.check, seen.value, rule.unit, seen.standard_error),
        threshold=limit,
    )


def _percent(share: float) -> str:
    """`12%`; a small share is not 0%."""
    return f"{share:.0%}" if share >= 0.01 or share == 0 else "less than 1%"


_NOT_APPLICABLE = frozenset(
    {checks.TOKEN_IDS, training_checks.NO_PARAMETERS, *loss_checks.NOT_APPLICABLE, *inside_checks.ABSENT}
)


def omitted_checks(findings: Sequence[Finding]) -> list[str]:
    """Return `sample rank, sample angles (reason)` of checks that were not made.

    Checks that do not apply are left out: of tokens, where there are none, of the rank of token ids, and of a loss that
    was not given.
    """
    names: dict[str, list[str]] = {}
    for finding in findings:
        applies = not finding.check.startswith("token") and finding.reason not in _NOT_APPLICABLE
        if finding.state is State.NOT_CHECKED and applies:
            names.setdefault(finding.reason, []).append(finding.check)
    return [f"{', '.join(found)} ({reason})" for reason, found in names.items()]


def times(log_ratio: float) -> str:
    """A ratio as people read it, from its logarithm: 0.37, 20,000 or, beyond a millionfold, 10¹² and 10⁻¹²."""
    if not math.isfinite(log_ratio):
        return "0" if log_ratio < 0 else str(log_ratio)
    if abs(log_ratio) < math.log(1e6):
        return f"{float(f'{math.exp(log_ratio):.2g}'):,.12g}"
    return "10" + str(round(log_ratio / math.log(10))).translate(_SUPERSCRIPTS)


def in_words(layer: str | None) -> str:
    """The name as it reads in a sentence: members of an nn.Sequential are only numbers, the root has an empty name."""
    if not layer:
        return "the whole network"
    return f"module {layer}" if layer.isdigit() else layer


# From the number of a check to one that is larger the worse.
RISK_NUMBERS: dict[str, Callable[[float], float]] = {
    "sample rank": lambda share: 1 / share if share > 0 else math.inf,
    "gradient growth": lambda growth: growth,
    "gradient decay": lambda growth: -growth,
}


# The lowest and highest risk that goes with a severity: a number and the verdict cannot disagree.
_BANDS = {
    Verdict.HEALTHY: (0.0, math.nextafter(AT_RISK, 0.0)),
    Verdict.AT_RISK: (AT_RISK, SICK),
    Verdict.SICK: (math.nextafter(SICK, 1.0), 1.0),
}


def risk(
    findings: Sequence[Finding], weight_layers: int, calibration: Calibration = CALIBRATION, known: bool = True
) -> float:
    """Risk of not training by the worst finding; nan if nothing was found and too little could be judged.

    A calibrated number has the risk of its law. Of any other check only the severity counts: a middle
    risk for a network that is at risk, and the highest possible for a sick one.

    Args:
        findings: The outcome of every check.
        weight_layers: Of the network.
        calibration: The laws.
        known: Whether enough could be judged to say that nothing is wrong.
    """
    if not known and not any(finding.state is State.FOUND for finding in findings):
        return math.nan
    risks = [_risk_of(finding, weight_layers, calibration) for finding in findings]
    return max(risks, default=calibration.risk(-math.inf))


def verdict(risk: float, sick_above: float = SICK) -> Verdict:
    """The verdict that goes with a risk: the one place where a number becomes a word; nan is UNKNOWN."""
    if math.isnan(risk):
        return Verdict.UNKNOWN
    return Verdict.SICK if risk > sick_above else Verdict.AT_RISK if risk >= AT_RISK else Verdict.HEALTHY


def _risk_of(finding: Finding, weight_layers: int, calibration: Calibration) -> float:
    least, most = _BANDS[finding.severity]
    number = finding.measured
    if finding.check in RISK_NUMBERS and finding.state is not State.NOT_CHECKED and number is not None:
        odds = calibration.laws[finding.check].log_odds(RISK_NUMBERS[finding.check](number.value), weight_layers)
        return min(max(calibration.risk(odds), least), most)
    if finding.severity is Verdict.AT_RISK:
        return (least + most) / 2
    return calibration.risk(math.inf if finding.severity is Verdict.SICK else -math.inf)
