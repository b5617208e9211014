"""Cases, rates and bounds of the convergence theorem as functions of the landmarks of a map."""

import math

import pytest
import torch
from torch import nn

from orthoscope.theory.kernel.convergence import (
    Landmarks,
    contraction_rate,
    convergence_case,
    distance_bound,
    normalized_rate,
    slow_distance,
)
from orthoscope.theory.kernel.kernel_map import kernel_map, overlap_after
from orthoscope.theory.sources import source_of

CENTERED = Landmarks(0.0, 0.5, 1.5, 0.0, 0.5)
CONTRACTING = Landmarks(0.5, 0.2, 0.8, 1.0, 0.8)
SLOW = Landmarks(0.3, 0.5, 1.0, 1.0, 1.0)
REPELLING = Landmarks(0.4, 0.0, 1.2, 2 / 3, 0.8)


@pytest.mark.parametrize(
    ("landmarks", "case", "rate"),
    [(CENTERED, 1, 1 / 1.5), (CONTRACTING, 2, 0.8), (SLOW, 3, 1.0), (REPELLING, 4, 1 / 1.2)],
)
def test_case_and_rate(landmarks: Landmarks, case: int, rate: float) -> None:
    assert convergence_case(landmarks.at_zero, landmarks.slope_at_zero, landmarks.slope_at_one) == case
    assert contraction_rate(landmarks) == pytest.approx(rate)


def test_the_identity_has_no_case() -> None:
    assert convergence_case(0.0, 1.0, 1.0) is None


@pytest.mark.parametrize("landmarks", [CENTERED, CONTRACTING, SLOW, REPELLING])
def test_the_bound_starts_no_lower_than_the_distance_and_falls_with_depth(landmarks: Landmarks) -> None:
    overlaps = torch.linspace(-0.95, 0.95, 39, dtype=torch.float64)
    bounds = torch.stack([distance_bound(landmarks, overlaps, depth) for depth in range(30)])
    distance = (overlaps - landmarks.fixed_point).abs()
    assert (bounds[0] >= distance - 1e-15).all()
    assert (bounds.diff(dim=0)[:, distance > 1e-12] < 0).all()


def test_formulas_of_the_four_cases_by_hand() -> None:
    start = torch.tensor(0.5, dtype=torch.float64)
    potential = 1 / 1.5**3
    assert float(distance_bound(CENTERED, start, 3)) == pytest.approx(potential / (1 + potential))
    assert float(distance_bound(CONTRACTING, start, 3)) == pytest.approx(0.5 * 0.8**3)
    assert float(distance_bound(SLOW, start, 3)) == pytest.approx(0.5 / (1 + 3 * 0.3 * 0.5))
    assert float(distance_bound(SLOW, -start, 3)) == pytest.approx(1.5 / (1 + 3 * 0.2 * 1.5))
    assert float(distance_bound(REPELLING, start, 3)) == pytest.approx((1 / 6) / 0.5 / 1.2**3)


def test_normalization_changes_the_rate_as_it_changes_the_map() -> None:
    kappa = kernel_map("relu")
    post = kernel_map("relu", norm="layer", order="activation-norm")
    assert normalized_rate(kappa.at_zero, 1.0, kappa.slope_at_zero) == pytest.approx(post.rate, rel=1e-13)
    with pytest.raises(ValueError, match="not constant"):
        normalized_rate(1.0, 1.0, 0.0)


def test_asymptotes_of_relu_and_exp_are_the_known_ones() -> None:
    assert kernel_map("relu").slow_distance(100) == pytest.approx(9 * math.pi**2 / 2 / 100**2, rel=1e-9)
    assert kernel_map("exp").slow_distance(100) == pytest.approx(2 / 100, rel=1e-6)
    with pytest.raises(ValueError, match="at least 1"):
        slow_distance(1.0, 1.0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [0.9, 0.99, 0.999, 0.99999])
def test_too_few_layers_for_the_asymptotics_are_refused(slope: float) -> None:
    """A distance above 1 was returned; with enough layers the map itself comes to the asymptote."""
    kappa = kernel_map(nn.LeakyReLU(slope))
    with pytest.raises(ValueError, match="too few for the asymptotics"):
        kappa.slow_distance(1000)
    if slope == 0.9:
        depth = 100_000
        assert 1 - overlap_after(slope, depth, 0.5) == pytest.approx(kappa.slow_distance(depth), rel=0.05)


@pytest.mark.slow
def test_the_slow_bound_from_an_overlap_above_0_holds_and_is_tight() -> None:
    r"""For random $\kappa$ with $\kappa'(1) = 1$; almost equal where one layer does little."""
    generator = torch.Generator().manual_seed(0)
    # c_k² for k = 0, 2, …, 7 and c_0² = Σ (k-1) c_k², the rest is c_1²: then κ(1) = κ'(1) = 1.
    higher = torch.rand(1000, 6, dtype=torch.float64, generator=generator).pow(6)
    orders = torch.arange(2.0, 8.0, dtype=torch.float64)
    constant = higher @ (orders - 1)
    room = torch.rand(1000, dtype=torch.float64, generator=generator) / (constant + higher.sum(-1))
    higher, constant = higher * room[:, None], constant * room
    linear = 1 - constant - higher.sum(-1)
    overlap = torch.rand(1000, dtype=torch.float64, generator=generator)
    start, closest = overlap, 0.0
    for depth in range(1, 30):
        overlap = constant + linear * overlap + (higher * overlap[:, None] ** orders).sum(-1)
        for case in range(1000) if depth in (1, 5, 29) else ():
            landmarks = Landmarks(float(constant[case]), float(linear[case]), 1.0, 1.0, 1.0)
            ratio = (1 - overlap[case]) / distance_bound(landmarks, start[case], depth)
            assert ratio <= 1 + 1e-12
            closest = max(closest, float(ratio))
    assert closest > 0.99


def test_the_slow_bound_is_sharper_above_0_than_below() -> None:
    kappa = kernel_map("relu")
    above, below = kappa.at_zero, 1 - kappa.at_zero - kappa.slope_at_zero
    assert above == pytest.approx(1 / math.pi)
    assert below == pytest.approx(1 / 2 - 1 / math.pi)
    start = torch.tensor([1e-9, -1e-9], dtype=torch.float64)
    assert float(kappa.bound(start, 100)[0]) == pytest.approx(1 / (1 + 100 / math.pi))
    assert float(kappa.bound(start, 100)[1]) == pytest.approx(1 / (1 + 100 * below))


@pytest.mark.parametrize("variance", [1e-6, 1e-10, 1e-12])
def test_an_almost_linear_gelu_keeps_its_fixed_point_of_one_half(variance: float) -> None:
    r"""$x/2 + \varepsilon x^2$ has $\kappa = (\rho + \delta(1 + 2\rho^2))/(1 + 3\delta)$: $\rho^* = 1/2$."""
    kappa = kernel_map("gelu", input_variance=variance)
    assert kappa.case == 4
    assert kappa.fixed_point == pytest.approx(0.5, abs=1e-6 + 1e-15 / variance)


def test_what_cannot_be_told_from_linear_is_refused() -> None:
    with pytest.raises(ValueError, match="is 1 to rounding"):
        _ = kernel_map("gelu", input_variance=1e-15).case


def test_negative_depth_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        distance_bound(CENTERED, torch.tensor(0.5), -1)


def test_corrected_statements_say_so() -> None:
    for predictor in (contraction_rate, distance_bound, normalized_rate):
        assert "corrected" in source_of(predictor).where
