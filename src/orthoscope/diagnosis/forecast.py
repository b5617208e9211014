"""Predictions for a network that is not built: what theory expects at every depth, judged by the same rules."""

import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from orthoscope.diagnosis.checks import CheckValue, extreme_of, fitted_slope, growth_along, rank_share
from orthoscope.diagnosis.document import Viewed, prediction_document
from orthoscope.diagnosis.expectations import Expected, expected_numbers
from orthoscope.diagnosis.inspection import mlp_hyperparameters
from orthoscope.diagnosis.rules import RULES, conclude
from orthoscope.findings import Finding, Prediction, State, Symptom, Verdict
from orthoscope.models import TargetError
from orthoscope.models.targets import BUILTIN, parse_call
from orthoscope.report.document import PredictionDocument
from orthoscope.theory import (
    Hyperparameters,
    Inputs,
    LostSignal,
    NoTheory,
    Propagation,
    Source,
    gaussian_inputs,
    long_run,
    propagate,
    sources_of,
)

_DIGITS = 9  # significant digits of a growth: rounding errors would show as +0.00 and -0.00
_LARGEST = torch.finfo(torch.float32).max

_NO_GRADIENT = "theory has no gradient for this network"
_NO_RANK = "the rank of samples is predicted for at least 4 of them, and no more than there are units"


@dataclass(frozen=True)
class Prospect:
    """A network cut to some depth, as the rules take it: its layers, and its gradients from input to output."""

    layers: Sequence[Expected]
    log_gradients: Sequence[float]
    capacity: int  # directions that samples can have

    @cached_property
    def growth(self) -> float:
        """Growth of the log-gradient from the output to the input, along the line fitted through all weight layers."""
        norms = self.log_gradients
        slope = fitted_slope(norms)
        growth = norms[0] - norms[-1] if math.isnan(slope) else slope * (len(norms) - 1)
        return round(growth, _DIGITS) + 0.0 if math.isfinite(growth) else growth

    def findings(self) -> Iterator[Finding]:
        """The outcome of every rule that applies to predicted numbers, in the order of the table."""
        measures: dict[str, Callable[[], CheckValue]] = {
            "finite outputs": self._overflows,
            "sample angles": lambda: self._at_the_end([1 - layer.overlap for layer in self.layers]),
            "sample rank": lambda: self._at_the_end([self._rank_share(layer) for layer in self.layers]),
            "gradient growth": self._gradient_growth,
            "gradient decay": self._gradient_growth,
            "largest gradient": lambda: self._extreme(max),
            "smallest gradient": lambda: self._extreme(min),
        }
        for rule in RULES:
            if rule.check not in measures:
                continue
            seen = measures[rule.check]()
            if math.isnan(seen.value):
                reason = _NO_GRADIENT if "gradient" in rule.check else _NO_RANK
                yield Finding(rule.check, rule.symptom, State.NOT_CHECKED, reason)
            else:
                yield conclude(rule, seen)

    @property
    def _weight_layers(self) -> int:
        return max(1, len(self.log_gradients))

    @property
    def _names(self) -> list[str]:
        return [_layer(index) for index in range(len(self.log_gradients))]

    def _overflows(self) -> CheckValue:
        broken = [index for index, layer in enumerate(self.layers) if layer.rms > _LARGEST]
        return CheckValue(float(len(broken)), lambda limit: _layer(broken[0]))

    def _rank_share(self, layer: Expected) -> float:
        share = rank_share(layer.effective_rank, self.capacity)
        return math.nan if share is None else share

    def _at_the_end(self, values: list[float]) -> CheckValue:
        return CheckValue(
            values[-1],
            lambda limit: _layer(next(k for k, value in enumerate(values) if value < limit)),
            weight_layers=self._weight_layers,
        )

    def _gradient_growth(self) -> CheckValue:
        return growth_along(self._names, self.log_gradients, self.growth, None, self._weight_layers)

    def _extreme(self, extreme: Callable[..., float]) -> CheckValue:
        norms = self.log_gradients
        return CheckValue(math.nan) if any(map(math.isnan, norms)) else extreme_of(self._names, norms, extreme)


def _layer(index: int) -> str:
    return f"layer {index + 1}"


_DEEPEST = 2000  # layers; propagating through more takes minutes


@dataclass(frozen=True)
class Depth:
    """The prediction for a network of so many hidden layers, and the findings of the rules."""

    depth: int
    expected: Expected
    overlap_deviation: float  # standard deviation of the cosine of one pair of samples
    gradient_growth: float  # e-folds from the output to the input; nan if theory has none
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The severity of the worst finding."""
        return max((finding.severity for finding in self.findings), key=lambda verdict: verdict.rank)


@dataclass(frozen=True, repr=False)
class Forecast(Viewed):
    """Predictions by depth for a network that is not built, made by `predict`.

    Attributes:
        name: The network, as it was asked for.
        samples: Number of samples.
        width: Units of a hidden layer.
        overlap: Mean cosine of the samples.
        depths: The prediction at each depth.
        limit: Limits as depth goes to infinity.
        sources: The theorems behind the numbers.
        seconds: Duration.
    """

    name: str
    samples: int
    width: int
    overlap: float
    depths: tuple[Depth, ...]
    limit: tuple[Prediction, ...]
    sources: tuple[Source, ...]
    seconds: float

    @property
    def deepest(self) -> int | None:
        """The largest depth up to which every depth is healthy; None if the first is not."""
        healthy = list(itertools.takewhile(lambda depth: depth.verdict is Verdict.HEALTHY, self.depths))
        return healthy[-1].depth if healthy else None

    def first(self, verdict: Verdict) -> Depth | None:
        """The least depth whose verdict is at least that bad; None if there is none."""
        return next((depth for depth in self.depths if depth.verdict.rank >= verdict.rank), None)

    @property
    def summary(self) -> str:
        """One sentence: how deep it trains, and what ends it."""
        first = self.first(Verdict.AT_RISK)
        last = self.depths[-1].depth
        unchecked = self._unchecked_in_words()
        if first is None and unchecked:
            return f"no check fails at any depth up to {last}{unchecked}"
        if first is None:
            return f"trains at every depth up to {last}"
        reason = next(finding.reason for finding in first.findings if finding.state is State.FOUND)
        sick = self.first(Verdict.SICK)
        beyond = "" if sick is None else f"; sick from depth {sick.depth}"
        deepest = "healthy at no depth" if self.deepest is None else f"trains up to depth {self.deepest}"
        return f"{deepest}; at depth {first.depth}, {reason}{beyond}{unchecked}"

    @property
    def not_checked(self) -> tuple[Finding, ...]:
        """The checks that theory has no number for, with the reason."""
        return tuple(f for f in self.depths[-1].findings if f.state is State.NOT_CHECKED)

    def _unchecked_in_words(self) -> str:
        reasons = dict.fromkeys(finding.reason for finding in self.not_checked)
        checks = ", ".join(finding.check for finding in self.not_checked)
        return f" (not checked: {checks}; {'; '.join(reasons)})" if checks else ""

    def as_document(self, details: bool = True) -> PredictionDocument:
        """Return the document."""
        return prediction_document(self)


def predict(
    target: str, *, samples: int = 64, overlap: float = 0.0, progress: Callable[[float], None] | None = None
) -> Forecast:
    """Predict from theory at which depths `mlp(depth=1..500, activation=gelu, ...)` trains; nothing is built.

    Args:
        target: `mlp(...)` with the arguments of `models.MLP`; `depth=a..b` asks for every depth from a to b, `depth=b`
            for all up to b.
        samples: Number of Gaussian samples.
        overlap: Their mean cosine.
        progress: Called with the share of the layers that are done.

    Returns:
        The predictions by depth.

    Raises:
        TargetError: If the text is not `mlp(...)` or has wrong arguments.
        NoTheory: If theory does not cover the network.

    Example:
        >>> orthoscope.predict("mlp(depth=100, activation=tanh, init=orthogonal)").deepest
        100
    """
    start = time.perf_counter()
    arguments, depths = mlp_arguments(target)
    network = mlp_hyperparameters(arguments)
    features = arguments["width"] if arguments["in_features"] is None else arguments["in_features"]
    inputs = gaussian_inputs(samples, features, overlap)
    done = None if progress is None else lambda layers: progress(layers / depths[-1])
    found, lost = _propagated(network, inputs, depths[-1], done)
    return Forecast(
        name=target,
        samples=samples,
        width=network.hidden.units,
        overlap=overlap,
        depths=tuple(_depths(found, depths, lost)),
        limit=long_run(found),
        sources=sources_of(network),
        seconds=time.perf_counter() - start,
    )


def _propagated(
    network: Hyperparameters, inputs: Inputs, depth: int, progress: Callable[[int], None] | None
) -> tuple[Propagation, str]:
    """Propagate as far as signals stay within the range of floats, and return the reason why it ended."""
    try:
        return propagate(network, inputs, depth, progress), ""
    except LostSignal as lost:
        # If the signal is lost in the head, the last layer is dropped too: every depth shown has a head.
        layers = lost.layers - (lost.layers == depth)
        if layers == 0:
            raise
        return _propagated(network, inputs, layers, None)[0], str(lost)


def _depths(found: Propagation, wanted: range, lost: str) -> Iterator[Depth]:
    samples, units = found.inputs.samples, found.network.hidden.units
    layers = [expected_numbers(layer.output, samples, units) for layer in found.layers]
    for depth in wanted:
        if depth > len(layers):
            # Deeper than its signals reach: sick, without numbers.
            symptom = Symptom.COLLAPSE if "vanish" in lost else Symptom.EXPLODE
            finding = Finding("finite outputs", symptom, State.FOUND, lost, Verdict.SICK)
            yield Depth(depth, Expected(*[math.nan] * 6), math.nan, math.nan, (finding,))
            continue
        prospect = Prospect(layers[:depth], found.log_gradients(depth), min(samples, units))
        deviation = math.sqrt(min(1.0, found.layers[depth - 1].output.overlap_variance))
        yield Depth(depth, layers[depth - 1], deviation, prospect.growth, tuple(prospect.findings()))


def mlp_arguments(target: str) -> tuple[dict[str, Any], range]:
    """All arguments of `mlp(...)` as text, and the depths asked for; anything else is refused."""
    name, given = parse_call(target)
    if name in BUILTIN and name != "mlp":
        raise NoTheory(f"no prediction for {name}: theory covers mlp(...); diagnose {target!r} measures it")
    if name != "mlp":
        raise TargetError(
            f"{target!r} cannot be predicted: write mlp(activation=gelu, norm=layer, depth=1..500, width=256)"
        )
    arguments = BUILTIN[name].arguments(name, given)
    return arguments, _range(arguments["depth"])


def _range(given: Any) -> range:
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(given))
    first, last = (1, 0) if match is None else (int(match[1]) if match[2] else 1, int(match[2] or match[1]))
    if not 1 <= first <= last <= _DEEPEST:
        raise TargetError(f"depth is {given!r}: give a whole number, or a range such as 1..500, up to {_DEEPEST}")
    return range(first, last + 1)
