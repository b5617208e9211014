"""Cases, rates and bounds of the convergence theorem as functions of the landmarks of a map."""

import math

import pytest
import torch

from orthoscope.theory.kernel.convergence import (
    Landmarks,
    contraction_rate,
    convergence_case,
    distance_bound,
    normalised_rate,
    slow_distance,
)
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.sources import source_of

CENTRED = Landmarks(0.0, 0.5, 1.5, 0.0, 0.5)
CONTRACTING = Landmarks(0.5, 0.2, 0.8, 1.0, 0.8)
SLOW = Landmarks(0.3, 0.5, 1.0, 1.0, 1.0)
REPELLING = Landmarks(0.4, 0.0, 1.2, 2 / 3, 0.8)


@pytest.mark.parametrize(
    ("landmarks", "case", "rate"),
    [(CENTRED, 1, 1 / 1.5), (CONTRACTING, 2, 0.8), (SLOW, 3, 1.0), (REPELLING, 4, 1 / 1.2)],
)
def test_case_and_rate(landmarks: Landmarks, case: int, rate: float) -> None:
    assert convergence_case(landmarks.at_zero, landmarks.slope_at_zero, landmarks.slope_at_one) == case
    assert contraction_rate(landmarks) == pytest.approx(rate)


def test_the_identity_has_no_case() -> None:
    assert convergence_case(0.0, 1.0, 1.0) is None


@pytest.mark.parametrize("landmarks", [CENTRED, CONTRACTING, SLOW, REPELLING])
def test_the_bound_starts_no_lower_than_the_distance_and_falls_with_depth(landmarks: Landmarks) -> None:
    overlaps = torch.linspace(-0.95, 0.95, 39, dtype=torch.float64)
    bounds = torch.stack([distance_bound(landmarks, overlaps, depth) for depth in range(30)])
    distance = (overlaps - landmarks.fixed_point).abs()
    assert (bounds[0] >= distance - 1e-15).all()
    assert (bounds.diff(dim=0)[:, distance > 1e-12] < 0).all()


def test_formulas_of_the_four_cases_by_hand() -> None:
    start = torch.tensor(0.5, dtype=torch.float64)
    potential = 1 / 1.5**3
    assert float(distance_bound(CENTRED, start, 3)) == pytest.approx(potential / (1 + potential))
    assert float(distance_bound(CONTRACTING, start, 3)) == pytest.approx(0.5 * 0.8**3)
    assert float(distance_bound(SLOW, start, 3)) == pytest.approx(0.5 / (1 + 3 * 0.2 * 0.5))
    assert float(distance_bound(REPELLING, start, 3)) == pytest.approx((1 / 6) / 0.5 / 1.2**3)


def test_normalisation_changes_the_rate_as_it_changes_the_map() -> None:
    kappa = kernel_map("relu")
    post = kernel_map("relu", norm="layer", order="activation-norm")
    assert normalised_rate(kappa.at_zero, 1.0, kappa.slope_at_zero) == pytest.approx(post.rate, rel=1e-13)
    with pytest.raises(ValueError, match="not constant"):
        normalised_rate(1.0, 1.0, 0.0)


def test_asymptotes_of_relu_and_exp_are_the_known_ones() -> None:
    assert kernel_map("relu").slow_distance(100) == pytest.approx(9 * math.pi**2 / 2 / 100**2, rel=1e-9)
    assert kernel_map("exp").slow_distance(100) == pytest.approx(2 / 100, rel=1e-6)
    with pytest.raises(ValueError, match="at least 1"):
        slow_distance(1.0, 1.0, 0)


def test_negative_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        distance_bound(CENTRED, torch.tensor(0.5), -1)


def test_corrected_statements_say_so() -> None:
    for predictor in (contraction_rate, distance_bound, normalised_rate):
        assert "corrected" in source_of(predictor).where
