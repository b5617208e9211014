"""The optimum of the unconstrained Jacobians model, against brute force in one and two dimensions."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize

from orthoscope.theory.residual.alignment import JacobiansOptimum, unconstrained_jacobians_optimum

CASES = [
    (depth, decay, norm)
    for depth in (1, 2, 5, 20, 100)
    for decay in (1e-4, 0.02, 0.1, 0.5, 3.0)
    for norm in (0.03, 1.0)
]


def objective(depth: int, decay: float, norm: float, s: np.ndarray, head: np.ndarray) -> np.ndarray:
    logit = norm * head * np.exp(np.minimum(depth * np.log1p(s), 600))
    return np.asarray(np.logaddexp(0, -logit) + decay / 2 * (depth * s**2 + head**2))


def at(optimum: JacobiansOptimum) -> tuple[float, float]:
    return optimum.singular_value, optimum.head_norm


def test_optimum_has_the_published_digits() -> None:
    found = unconstrained_jacobians_optimum(5, 0.02)
    assert f"{found.singular_value:.5f} {found.head_norm:.5f} {found.objective:.6f}" == "0.48210 0.84530 0.021133"


@pytest.mark.parametrize(("depth", "decay", "norm"), CASES)
def test_nothing_on_a_grid_is_better(depth: int, decay: float, norm: float) -> None:
    found = unconstrained_jacobians_optimum(depth, decay, input_norm=norm)
    ratio = np.exp(np.linspace(-8, 8, 401))
    s, head = np.meshgrid(found.singular_value * ratio, found.head_norm * ratio)
    values = objective(depth, decay, norm, s, head)
    assert found.objective <= values.min() * (1 + 1e-14)
    assert float(objective(depth, decay, norm, *map(np.asarray, at(found)))) == pytest.approx(
        found.objective, rel=1e-13
    )


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "decay", "norm"), CASES)
def test_minimizing_both_numbers_from_many_starts_finds_it(depth: int, decay: float, norm: float) -> None:
    found = unconstrained_jacobians_optimum(depth, decay, input_norm=norm)

    def logarithmic(point: np.ndarray) -> float:
        return float(objective(depth, decay, norm, np.exp(point[:1]), np.exp(point[1:]))[0])

    starts = [np.log([factor * value for value in at(found)]) for factor in (0.03, 0.3, 1.0, 3.0)]
    results = [
        minimize(logarithmic, start, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 0}) for start in starts
    ]
    best = min(results, key=lambda result: float(result.fun))
    assert best.fun == pytest.approx(found.objective, rel=1e-10)
    assert np.exp(best.x) == pytest.approx(at(found), rel=1e-4)  # the objective is flat: √ε of it


@pytest.mark.parametrize(("depth", "decay", "norm"), CASES)
def test_it_is_stationary_to_rounding(depth: int, decay: float, norm: float) -> None:
    found = unconstrained_jacobians_optimum(depth, decay, input_norm=norm)
    s, head = at(found)
    pull = norm / (1 + math.exp(found.logit)) * (1 + s) ** (depth - 1)
    assert head * pull == pytest.approx(decay * s, rel=1e-11)
    assert (1 + s) * pull == pytest.approx(decay * head, rel=1e-11)
    assert head**2 == pytest.approx(s * (1 + s), rel=1e-14)


@pytest.mark.parametrize(("depth", "decay", "norm"), CASES)
def test_singular_value_is_right_to_twelve_digits(depth: int, decay: float, norm: float) -> None:
    """The two stationarity equations, solved with 40 digits."""
    found = unconstrained_jacobians_optimum(depth, decay, input_norm=norm)
    with mpmath.workdps(40):

        def equations(s: mpmath.mpf, head: mpmath.mpf) -> list[mpmath.mpf]:
            pull = norm / (1 + mpmath.exp(norm * head * (1 + s) ** depth)) * (1 + s) ** (depth - 1)
            return [head * pull / (decay * s) - 1, (1 + s) * pull / (decay * head) - 1]

        exact = mpmath.findroot(equations, at(found))
    assert at(found) == pytest.approx([float(value) for value in exact], rel=1e-12)


@pytest.mark.slow
def test_it_is_the_best_stationary_point_at_any_depth_decay_and_scale() -> None:
    """Against the objective along the curve ‖w‖² = s(1+s), at 300 random settings, many with two minima."""
    generator = np.random.default_rng(0)
    log_s = np.linspace(-40, 8, 4001)
    s = np.exp(log_s)
    competing = 0
    for _ in range(300):
        depth = int(np.exp(generator.uniform(0, math.log(3000))))
        decay, norm = (float(value) for value in np.exp(generator.uniform(-12, 4, size=2)))
        curve = objective(depth, decay, norm, s, np.sqrt(s * (1 + s)))
        assert unconstrained_jacobians_optimum(depth, decay, input_norm=norm).objective <= curve.min() * (1 + 1e-13)
        competing += int((np.diff(np.sign(np.diff(curve))) > 0).sum() > 1)
    assert competing > 30


@pytest.mark.slow
def test_two_minima_compete_and_the_singular_value_jumps() -> None:
    log_decays = np.linspace(math.log(0.15), math.log(0.9), 101)
    found = [unconstrained_jacobians_optimum(20, math.exp(value), input_norm=0.03) for value in log_decays]
    factors = [one.singular_value / other.singular_value for one, other in pairwise(found)]
    assert all(factor > 1 for factor in factors), "less decay, larger Jacobians"
    assert sorted(factors)[-1] > 50
    assert sorted(factors)[-2] < 1.3, "one jump, and smooth elsewhere"
    # By the envelope theorem the best objective rises with log decay at the rate of its penalty, at most log 2.
    rise = np.diff([one.objective for one in found]) / np.diff(log_decays)
    assert rise.min() > 0
    assert rise.max() < math.log(2)


def test_large_decay_leaves_little_but_never_nothing() -> None:
    for decay in (1e2, 1e4, 1e8):
        found = unconstrained_jacobians_optimum(5, decay, input_norm=2.0)
        assert found.singular_value == pytest.approx(4 / (4 * decay**2), rel=20 / decay)
        assert 0 < found.loss < math.log(2)


def test_extreme_settings_stay_finite() -> None:
    for depth, decay, norm in [(10_000, 1e-12, 1e-6), (10_000, 1e6, 1e6), (1, 1e-300, 1.0), (3, 1e-12, 1e12)]:
        found = unconstrained_jacobians_optimum(depth, decay, input_norm=norm)
        assert math.isfinite(found.objective)
        assert found.singular_value > 0
        assert found.objective == pytest.approx(
            found.loss + decay / 2 * (depth * found.singular_value**2 + found.head_norm**2)
        )


@pytest.mark.parametrize(
    ("depth", "decay", "norm", "sentence"),
    [
        (0, 0.1, 1.0, "depth must be at least 1 block, got 0"),
        (3, 0.0, 1.0, "must be positive and finite, got 0.0 and 1.0"),
        (3, 0.1, math.nan, "must be positive and finite, got 0.1 and nan"),
        (3, math.inf, 1.0, "must be positive and finite, got inf and 1.0"),
    ],
)
def test_bad_input_gets_one_sentence(depth: int, decay: float, norm: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        unconstrained_jacobians_optimum(depth, decay, input_norm=norm)
