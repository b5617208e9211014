"""The gap of Gaussian matrices and the rate of overlaps, against closed forms and sampling."""

import math

import mpmath
import pytest
import torch

from orthoscope.metrics import isometry_gap
from orthoscope.theory.gram.isometry import gaussian_isometry_gap, isometry_gap_floor, overlap_rate
from orthoscope.theory.kernel.kernel_map import kernel_map


@pytest.mark.parametrize(("batch", "width"), [(2, 2), (3, 5), (6, 6), (8, 64)])
def test_gaussian_matrices_have_the_predicted_gap(batch: int, width: int, generator: torch.Generator) -> None:
    gaps = isometry_gap(torch.randn(4000, batch, width, generator=generator, dtype=torch.float64))
    error = float(gaps.std()) / math.sqrt(4000)
    assert abs(float(gaps.mean()) - gaussian_isometry_gap(batch, width)) < 4 * error
    leading = (batch - 1) * (batch + 2) / (2 * batch * width)
    assert abs(float(gaps.mean()) - leading) > 10 * error, "the leading order must be told from the exact value"


@pytest.mark.parametrize("batch", [1, 2, 5, 20])
def test_the_gap_tends_to_its_leading_order(batch: int) -> None:
    leading = (batch - 1) * (batch + 2) / (2 * batch)
    assert 1e6 * gaussian_isometry_gap(batch, 10**6) == pytest.approx(leading, abs=1e-3)


@pytest.mark.parametrize(
    ("activation", "rate"),
    [
        ("relu", 0.5 / (1 - 1 / math.pi)),
        ("tanh", 0.930470),
        ("sign", 2 / math.pi),
        ("cube", 0.6),
        ("exp", 1 / (math.e - 1)),
    ],
)
def test_overlap_rates_are_those_of_known_kernels(activation: str, rate: float) -> None:
    assert overlap_rate(activation) == pytest.approx(rate, abs=1e-6)


@pytest.mark.parametrize("gain", [0.01, 10.0, 30.0, 100.0, 1e4])
def test_rates_of_steep_activations_are_those_of_their_kernel_maps(gain: float) -> None:
    """A fixed grid gave .6396 for tanh at gain 30; it is .6534."""
    kappa = kernel_map("tanh", gain=gain)
    assert overlap_rate("tanh", gain=gain) == pytest.approx(kappa.slope_at_zero, rel=1e-12)
    share = 2 * gain**2 / (1 + 2 * gain**2)
    assert overlap_rate("erf", gain=gain) == pytest.approx(share / math.asin(share), rel=1e-12)


@pytest.mark.parametrize(("batch", "width"), [(2, 3), (3, 399), (10, 401), (2, 10**12), (5, 10**15)])
def test_the_gap_keeps_its_digits_at_any_width(batch: int, width: int) -> None:
    with mpmath.workdps(60):
        log_determinant = sum(mpmath.digamma(mpmath.mpf(width - i) / 2) for i in range(batch))
        exact = mpmath.digamma(mpmath.mpf(batch * width) / 2) - mpmath.log(batch) - log_determinant / batch
    assert gaussian_isometry_gap(batch, width) == pytest.approx(float(exact), rel=1e-12)


def test_the_floor_is_higher_the_slower_overlaps_fall() -> None:
    assert overlap_rate("square") == pytest.approx(0, abs=1e-12)
    assert isometry_gap_floor(5, 100, activation="square") == pytest.approx(4 / 200)
    assert isometry_gap_floor(5, 100, activation="sign") == pytest.approx(4 / 200 / (1 - 4 / math.pi**2))
    floors = [isometry_gap_floor(5, 100, activation="tanh", gain=gain) for gain in (3.0, 1.0, 0.3)]
    assert floors == sorted(floors)


def test_mistakes_get_one_clear_sentence() -> None:
    with pytest.raises(ValueError, match="5 samples in 4 units are dependent: the isometry gap is infinite"):
        gaussian_isometry_gap(5, 4)
    with pytest.raises(ValueError, match="batch is 1, but this quantity needs at least 2 samples"):
        isometry_gap_floor(1, 10)
    with pytest.raises(ValueError, match="a linear network has no floor"):
        isometry_gap_floor(4, 10, activation="identity")
    with pytest.raises(ValueError, match="a constant activation leaves nothing to normalize"):
        overlap_rate(torch.ones_like)
