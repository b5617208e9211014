"""The probability of a verdict, fitted to trained networks: limits that each add to the log-odds, found by boosting.

Every round adds the limit that lowers the loss the most, at a small rate. A limit only counts if what is beyond it
fails more often, so more of a symptom never lowers the risk. How many rounds is decided by cross-validation over
families, among those that are not held out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy
from numpy.typing import NDArray

from orthoscope.diagnosis.probability import AdditiveModel, Term

ROUNDS = (25, 50, 100, 150, 200, 300)
RATE = 0.1
_PRIOR = 2.0  # weight of the belief that a limit adds nothing
_FEWEST = 4  # samples on either side of a limit
_LIMITS = 40  # candidates for a number, evenly spaced among its values
_FOLDS = 8
_MOST = 300.0  # a number that is infinite, for the fit

Array = NDArray[numpy.float64]


@dataclass(frozen=True, eq=False)
class Sample:
    """A network that was trained.

    Attributes:
        numbers: What its diagnosis measured, larger being worse.
        optimizer: What it was trained by.
        fails: Whether it did not train.
        group: The family, which is in one fold of a cross-validation.
        weight: How much it counts.
    """

    numbers: Mapping[str, float]
    optimizer: str
    fails: bool
    group: str
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class _Limits:
    """All candidates: names, optimizers (None: all), values, and which samples are beyond each."""

    keys: list[tuple[str, str | None, float]]
    beyond: Array  # candidates x samples


def fitted(samples: Sequence[Sample], rounds: int, leave_out: frozenset[str] = frozenset()) -> AdditiveModel:
    """Fit to the samples whose numbers may all be used, but for those named `leave_out`."""
    limits = _candidates(samples, leave_out)
    fails = numpy.array([float(sample.fails) for sample in samples])
    weights = numpy.array([sample.weight for sample in samples])
    share = float((fails * weights).sum() / weights.sum())
    base = math.log((share + 1e-3) / (1 - share + 1e-3))
    odds = numpy.full(len(samples), base)
    added: dict[tuple[str, str | None, float], float] = {}
    for _ in range(rounds):
        risk = 1 / (1 + numpy.exp(-odds))
        pull, curvature = weights * (fails - risk), weights * risk * (1 - risk)
        pulls, curvatures = limits.beyond @ pull, limits.beyond @ curvature
        rest, rest_curvature = pull.sum() - pulls, curvature.sum() - curvatures
        up, down = pulls / (curvatures + _PRIOR), rest / (rest_curvature + _PRIOR)
        gain = pulls**2 / (curvatures + _PRIOR) + rest**2 / (rest_curvature + _PRIOR)
        best = int(numpy.argmax(numpy.where(up > down, gain, -1.0)))
        if not up[best] > down[best]:
            break
        base += RATE * float(down[best])
        step = RATE * float(up[best] - down[best])
        added[limits.keys[best]] = added.get(limits.keys[best], 0.0) + step
        odds = odds + RATE * float(down[best]) + step * limits.beyond[best]
    terms = (
        Term(name, limit, round(step, 4), optimizer)
        for (name, optimizer, limit), step in sorted(added.items(), key=lambda pair: (pair[0][0], str(pair[0][1])))
    )
    return AdditiveModel(round(base, 4), tuple(terms))


def _candidates(samples: Sequence[Sample], leave_out: frozenset[str]) -> _Limits:
    names = sorted({name for sample in samples for name in sample.numbers} - leave_out)
    optimizers = sorted({sample.optimizer for sample in samples})
    keys: list[tuple[str, str | None, float]] = []
    beyond = []
    for name in names:
        values = numpy.array([min(_MOST, sample.numbers.get(name, -math.inf)) for sample in samples])
        for optimizer in (None, *optimizers):
            mine = numpy.array([optimizer in (None, sample.optimizer) for sample in samples])
            known = numpy.unique(values[mine & numpy.isfinite(values)])
            middles = (known[1:] + known[:-1]) / 2
            if len(middles) > _LIMITS:
                middles = numpy.quantile(middles, numpy.linspace(0, 1, _LIMITS))
            for limit in sorted({float(f"{middle:.4g}") for middle in middles}):
                above = mine & (values > limit)
                if _FEWEST <= above.sum() <= len(samples) - _FEWEST:
                    keys.append((name, optimizer, limit))
                    beyond.append(above)
    return _Limits(keys, numpy.array(beyond, dtype=float))


def cross_validated(samples: Sequence[Sample], rounds: int, leave_out: frozenset[str] = frozenset()) -> list[float]:
    """The risk of every sample by a model that was fitted to other groups."""
    groups = {group: number % _FOLDS for number, group in enumerate(sorted({sample.group for sample in samples}))}
    found = [0.0] * len(samples)
    for fold in range(_FOLDS):
        inside = [sample for sample in samples if groups[sample.group] != fold]
        model = fitted(inside, rounds, leave_out)
        for place, sample in enumerate(samples):
            if groups[sample.group] == fold:
                found[place] = model.probability(sample.numbers, sample.optimizer)
    return found


def log_loss(samples: Sequence[Sample], risks: Sequence[float]) -> float:
    """Mean surprise in nats, by weight."""
    weights = numpy.array([sample.weight for sample in samples])
    right = numpy.array([risk if sample.fails else 1 - risk for sample, risk in zip(samples, risks, strict=True)])
    return float(-(weights * numpy.log(right.clip(1e-6))).sum() / weights.sum())


def best_rounds(samples: Sequence[Sample], leave_out: frozenset[str] = frozenset()) -> int:
    """The number of rounds whose cross-validated loss is the smallest."""

    @cache
    def loss(rounds: int) -> float:
        return log_loss(samples, cross_validated(samples, rounds, leave_out))

    return min(ROUNDS, key=loss)
