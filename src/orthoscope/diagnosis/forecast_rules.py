"""The rules of the verdict, applied to what theory expects of a network of some depth."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from orthoscope.diagnosis.evidence import Evidence, fitted_slope, rank_share
from orthoscope.diagnosis.expectations import Expected
from orthoscope.diagnosis.rules import RULES, conclude
from orthoscope.findings import Finding, State

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
        measures: dict[str, Callable[[], Evidence]] = {
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

    def _overflows(self) -> Evidence:
        broken = [index for index, layer in enumerate(self.layers) if layer.rms > _LARGEST]
        return Evidence(float(len(broken)), lambda limit: _layer(broken[0]))

    def _rank_share(self, layer: Expected) -> float:
        share = rank_share(layer.effective_rank, self.capacity)
        return math.nan if share is None else share

    def _at_the_end(self, values: list[float]) -> Evidence:
        return Evidence(
            values[-1],
            lambda limit: _layer(next(k for k, value in enumerate(values) if value < limit)),
            weight_layers=self._weight_layers,
        )

    def _gradient_growth(self) -> Evidence:
        norms = self.log_gradients

        def begins(limit: float) -> str:
            sign = math.copysign(1, limit)
            beyond = (k for k in range(len(norms) - 1, -1, -1) if sign * (norms[k] - norms[-1]) > abs(limit))
            return _layer(next(beyond, 0))

        return Evidence(self.growth, begins, weight_layers=self._weight_layers)

    def _extreme(self, extreme: Callable[..., float]) -> Evidence:
        norms = self.log_gradients
        if any(map(math.isnan, norms)):
            return Evidence(math.nan)
        return Evidence(extreme(norms) - norms[-1], lambda limit: _layer(norms.index(extreme(norms))))


def _layer(index: int) -> str:
    return f"layer {index + 1}"
