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

from orthoscope.diagnosis.checks import CheckValue, fitted_slope, rank_share
from orthoscope.diagnosis.document import prediction_document
from orthoscope.diagnosis.expectations import Expected, expected_numbers
from orthoscope.diagnosis.inspection import mlp_hyperparameters
from orthoscope.diagnosis.rules import RULES, conclude
from orthoscope.diagnosis.viewed import Viewed
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

_DIGITS = 9  # of a growth that are more than rounding: none reads +0.00 and the next -0.00
_LARGEST = torch.finfo(torch.float32).max

_NO_GRADIENT = "theory has no gradient for this network"
_NO_RANK = "the rank of samples is predicted for at least 4 of them, and no more than there are units"


@dataclass(frozen=True)
class Prospect:
    """A network cut to some depth, as the rules see it: its layers, and its gradients from input to output."""

    layers: Sequence[Expected]
    log_gradients: Sequence[float]
    capacity: int  # directions that samples can have

    @cached_property
    def growth(self) -> float:
        """E-folds of the gradient from the output to the input, along the line fitted through all weight layers."""
        norms = self.log_gradients
        slope = fitted_slope(norms)
        growth = norms[0] - norms[-1] if math.isnan(slope) else slope * (len(norms) - 1)
        return round(growth, _DIGITS) + 0.0 if math.isfinite(growth) else growth

    def findings(self) -> Iterator[Finding]:
        """What every rule says that predicted numbers can speak to, in the order of the table."""
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
        norms = self.log_gradients

        def begins(limit: float) -> str:
            sign = math.copysign(1, limit)
            beyond = (k for k in range(len(norms) - 1, -1, -1) if sign * (norms[k] - norms[-1]) > abs(limit))
            return _layer(next(beyond, 0))

        return CheckValue(self.growth, begins, weight_layers=self._weight_layers)

    def _extreme(self, extreme: Callable[..., float]) -> CheckValue:
        norms = self.log_gradients
        if any(map(math.isnan, norms)):
            return CheckValue(math.nan)
        return CheckValue(extreme(norms) - norms[-1], lambda limit: _layer(norms.index(extreme(norms))))


def _layer(index: int) -> str:
    return f"layer {index + 1}"


_DEEPEST = 2000  # layers; propagating through more takes longer than anybody waits


@dataclass(frozen=True)
class Depth:
    """A network of this many hidden layers: what comes out of the last, and what the rules make of it."""

    depth: int
    expected: Expected
    overlap_deviation: float  # standard deviation of the cosine of one pair of samples
    gradient_growth: float  # e-folds from the output to the input; nan if theory has none
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        return max((finding.severity for finding in self.findings), key=lambda verdict: verdict.rank)


@dataclass(frozen=True, repr=False)
class Forecast(Viewed):
    """Predicted numbers by depth, the deepest network that should train, and what says so."""

    name: str
    samples: int
    width: int
    overlap: float
    depths: tuple[Depth, ...]
    limit: tuple[Prediction, ...]  # where the network would end if it were infinitely deep
    sources: tuple[Source, ...]
    seconds: float

    @property
    def deepest(self) -> int | None:
        """The largest depth up to which every depth asked for is healthy; None if not even the first is."""
        healthy = list(itertools.takewhile(lambda depth: depth.verdict is Verdict.HEALTHY, self.depths))
        return healthy[-1].depth if healthy else None

    def first(self, verdict: Verdict) -> Depth | None:
        """The least depth that is at least that bad."""
        return next((depth for depth in self.depths if depth.verdict.rank >= verdict.rank), None)

    @property
    def summary(self) -> str:
        """One sentence: how deep it trains, and what ends it."""
        first = self.first(Verdict.AT_RISK)
        last = self.depths[-1].depth
        unchecked = self._unchecked_in_words()
        if first is None and unchecked:
            return f"nothing found at any depth asked for, up to {last}{unchecked}"
        if first is None:
            return f"trains at every depth asked for, up to {last}"
        reason = next(finding.reason for finding in first.findings if finding.state is State.FOUND)
        sick = self.first(Verdict.SICK)
        beyond = "" if sick is None else f"; sick from depth {sick.depth}"
        deepest = "does not train" if self.deepest is None else f"trains up to depth {self.deepest}"
        return f"{deepest}: at depth {first.depth} {reason}{beyond}{unchecked}"

    @property
    def not_checked(self) -> tuple[Finding, ...]:
        """The checks that theory has no number for, with the reason: silence must not read as health."""
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
    """What theory says of `mlp(depth=1..500, activation=gelu, ...)` on Gaussian samples of that mean overlap.

    Nothing is built and nothing measured. `depth=a..b` asks for every depth from a to b, `depth=b` for all up to b.
    `progress` is told the share of the layers that are done.
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
    """As far as signals stay within the range of floats, and what happens to them then."""
    try:
        return propagate(network, inputs, depth, progress), ""
    except LostSignal as lost:
        # Lost in the head, the last layer is of no use either: every depth that is shown has its head.
        layers = lost.layers - (lost.layers == depth)
        if layers == 0:
            raise
        return _propagated(network, inputs, layers, None)[0], str(lost)


def _depths(found: Propagation, wanted: range, lost: str) -> Iterator[Depth]:
    samples, units = found.inputs.samples, found.network.hidden.units
    layers = [expected_numbers(layer.output, samples, units) for layer in found.layers]
    for depth in wanted:
        if depth > len(layers):
            yield _beyond(depth, lost)
            continue
        prospect = Prospect(layers[:depth], found.log_gradients(depth), min(samples, units))
        deviation = math.sqrt(min(1.0, found.layers[depth - 1].output.overlap_variance))
        yield Depth(depth, layers[depth - 1], deviation, prospect.growth, tuple(prospect.findings()))


def _beyond(depth: int, lost: str) -> Depth:
    """A network deeper than its signals go: no number is left, and no doubt."""
    symptom = Symptom.COLLAPSE if "vanish" in lost else Symptom.EXPLODE
    finding = Finding("finite outputs", symptom, State.FOUND, lost, Verdict.SICK)
    return Depth(depth, Expected(*[math.nan] * 6), math.nan, math.nan, (finding,))


def mlp_arguments(target: str) -> tuple[dict[str, Any], range]:
    """All arguments of `mlp(...)` as text, and the depths asked for; anything else is refused."""
    name, given = parse_call(target)
    if name in BUILTIN and name != "mlp":
        raise NoTheory(f"no prediction for {name}: theory covers mlp(...); diagnose {target!r} measures it")
    if name != "mlp":
        raise TargetError(
            f"{target!r} cannot be predicted: write mlp(activation=gelu, norm=layer, depth=1..500, width=256)"
        )
    accepted = BUILTIN[name].accepted()
    for argument in given:
        if argument not in accepted:
            raise TargetError(f"{name} has no argument {argument!r}: choose from {', '.join(accepted)}")
    arguments = accepted | given
    return arguments, _range(arguments["depth"])


def _range(given: Any) -> range:
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", str(given))
    first, last = (1, 0) if match is None else (int(match[1]) if match[2] else 1, int(match[2] or match[1]))
    if not 1 <= first <= last <= _DEEPEST:
        raise TargetError(f"depth is {given!r}: give a whole number, or a range such as 1..500, up to {_DEEPEST}")
    return range(first, last + 1)
