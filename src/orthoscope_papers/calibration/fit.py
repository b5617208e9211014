"""Limits and odds of the verdict by maximum likelihood, thresholds of simpler rules, and error rates of any rule."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy
from scipy.optimize import differential_evolution

from orthoscope.diagnosis.checks import TYPICAL_DEPTH
from orthoscope.diagnosis.rules import Calibration, Law
from orthoscope_papers.calibration.records import Signs

# Share of outcomes that are chance: of the members with three seeds, 1.7 % of trainings go against the others.
LAPSE = 0.02
# Search ranges: logarithm of the limit at 50 layers, logarithm of the sharpness, power of the depth.
_LIMITS = {"sample rank": (0.7, 6.0), "gradient growth": (0.7, 3.0), "gradient decay": (0.7, 4.0)}
# A prior: few networks lie near the limits of gradients, and the likelihood alone would make these ever sharper.
_SHARPNESS = (-1.0, 1.8)
_POWERS = {"sample rank": (-2.0, 0.0), "gradient growth": (-1.0, 0.0), "gradient decay": (-1.0, 0.0)}
_SPARED = (0.0, 30.0)
_SEED = 0


class Score(NamedTuple):
    """Error rates of a rule that calls networks sick, and the number of networks they were counted on."""

    accuracy: float
    false_alarms: float  # of the networks that train, the share called sick
    missed: float  # of those that do not, the share not called sick
    precision: float  # of the networks called sick, the share that does not train
    networks: int


def score(rows: Sequence[Signs], sick: Callable[[Signs], bool]) -> Score:
    """Return the error rates of a rule on `rows`; nan where no network is of the kind."""
    called, trains = numpy.array([sick(row) for row in rows]), numpy.array([bool(row.trains) for row in rows])
    with numpy.errstate(invalid="ignore"):
        return Score(
            float((called != trains).mean()),
            float((called & trains).sum() / numpy.float64(trains.sum())),
            float((~called & ~trains).sum() / numpy.float64((~trains).sum())),
            float((called & ~trains).sum() / numpy.float64(called.sum())),
            len(rows),
        )


def fitted(rows: Sequence[Signs]) -> Calibration:
    """Return the maximum-likelihood laws of the outcomes of `rows`, without members that another check judges."""
    used = [row for row in rows if not row.otherwise_sick]
    values = numpy.array([worse(row) for row in used])
    layers = numpy.log(numpy.array([row.weight_layers for row in used]) / TYPICAL_DEPTH)
    fails = numpy.array([not row.trains for row in used])

    def surprise(numbers: numpy.ndarray) -> float:
        risk = LAPSE + (1 - 2 * LAPSE) / (1 + numpy.exp(-_log_odds(numbers, values, layers).clip(-50, 50)))
        return float(-numpy.log(numpy.where(fails, risk, 1 - risk)).mean())

    bounds = [pair for name in _LIMITS for pair in (_LIMITS[name], _POWERS[name], _SHARPNESS)] + [_SPARED]
    found = differential_evolution(surprise, bounds, rng=_SEED, maxiter=400, tol=1e-8, polish=False)
    return Calibration(_laws(found.x, sorted({row.weight_layers for row in used})), LAPSE, {"networks": len(rows)})


def _laws(numbers: numpy.ndarray, depths: Sequence[int]) -> dict[str, Law]:
    # Every limit between two depths of the data fits alike: take the one just below the upper.
    spared = {"sample rank": next(depth for depth in depths if depth >= numbers[-1]) - 1}
    return {
        name: Law(
            round(math.exp(numbers[3 * k]), 3),
            round(float(numbers[3 * k + 1]), 3),
            round(math.exp(numbers[3 * k + 2]), 3),
            spared.get(name, 0),
        )
        for k, name in enumerate(_LIMITS)
    }


def _log_odds(numbers: numpy.ndarray, values: numpy.ndarray, layers: numpy.ndarray) -> numpy.ndarray:
    """Return `diagnosis.rules.Law` for all members at once, the largest log-odds of each."""
    limit, power, sharpness = numbers[:-1].reshape(-1, 3).T
    odds = numpy.exp(sharpness) * (values - limit - power * layers[:, None])
    spared = layers < math.log(max(1, math.ceil(numbers[-1])) / TYPICAL_DEPTH) - 1e-9
    odds[spared, 0] = -numpy.inf
    return odds.max(axis=1)


def worse(row: Signs) -> tuple[float, float, float]:
    """Return logarithms of the three measurements, each larger for worse networks, as `diagnosis.risk` has them."""
    rank = math.nan if math.isnan(row.sample_rank) else 1 / max(row.sample_rank, 1e-12)
    return _log(rank), _log(row.growth), _log(-row.growth)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def threshold(rows: Sequence[Signs], value: Callable[[Signs], float]) -> float:
    """Return the limit on `value` that misclassifies fewest of `rows`; nan counts as above it."""
    numbers = [_beyond(value(row)) for row in rows]
    known = sorted({number for number in numbers if math.isfinite(number)})
    middles = [-math.inf, *((a + b) / 2 for a, b in pairwise(known)), math.inf]
    wrong = [sum((n > m) == bool(row.trains) for n, row in zip(numbers, rows, strict=True)) for m in middles]
    return middles[int(numpy.argmin(wrong))]


def two_limits(rows: Sequence[Signs]) -> tuple[float, float]:
    """Return the limits on growth and on decay, in e-folds, that misclassify fewest of `rows`."""
    grows = [row for row in rows if row.growth > 0]
    shrinks = [row for row in rows if not row.growth > 0]
    return threshold(grows, lambda row: row.growth), threshold(shrinks, lambda row: -row.growth)


def _beyond(value: float) -> float:
    return math.inf if math.isnan(value) else value
