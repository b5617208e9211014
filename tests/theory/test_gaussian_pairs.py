"""Quadrature over two Gaussians against closed forms, with and without kinks, up to overlaps of almost 1."""

import math

import mpmath
import pytest
import torch
from torch import Tensor

from orthoscope.activations import ACTIVATIONS, nonlinearity
from orthoscope.theory.quadrature import bends, gaussian_pairs

OVERLAPS = [-1.0, -0.3, 0.0, 0.4, 0.999, 1.0]
VARIANCES = [1e-3, 1.0, 400.0]
ROUNDING = 1e-12


def product_moment(name: str, variance: float, overlap: float) -> float:
    r"""$\mathbb{E}\phi(X)\phi(Y)$ by quadrature."""
    phi = nonlinearity(name)
    pairs = gaussian_pairs(phi, variance, overlap)
    return pairs.mean(phi(pairs.first) * phi(pairs.second))


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_moments_of_polynomials_are_those_of_isserlis(variance: float, overlap: float) -> None:
    pairs = gaussian_pairs(nonlinearity("identity"), variance, overlap)
    x, y = pairs.first / math.sqrt(variance), pairs.second / math.sqrt(variance)
    expected = {
        (0, 0): 1.0,
        (1, 0): 0.0,
        (2, 0): 1.0,
        (1, 1): overlap,
        (3, 1): 3 * overlap,
        (2, 2): 1 + 2 * overlap**2,
        (4, 4): 9 + 72 * overlap**2 + 24 * overlap**4,
        (5, 3): 45 * overlap + 60 * overlap**3,
    }
    for (first, second), moment in expected.items():
        assert pairs.mean(x**first * y**second) == pytest.approx(moment, rel=ROUNDING, abs=ROUNDING)


def arc_cosine(variance: float, overlap: float) -> float:
    angle = math.acos(overlap)
    return variance * (math.sin(angle) + (math.pi - angle) * overlap) / (2 * math.pi)


CLOSED_FORMS = {
    "relu": arc_cosine,
    "sign": lambda variance, overlap: 2 / math.pi * math.asin(overlap),
    "step": lambda variance, overlap: (math.pi / 2 + math.asin(overlap)) / (2 * math.pi),
    "abs": lambda variance, overlap: (
        variance * 2 / math.pi * (math.sqrt(1 - overlap**2) + overlap * math.asin(overlap))
    ),
}


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_kinks_and_jumps_cost_no_digits(name: str, variance: float, overlap: float) -> None:
    exact = CLOSED_FORMS[name](variance, overlap)
    scale = CLOSED_FORMS[name](variance, 1.0)
    assert product_moment(name, variance, overlap) == pytest.approx(exact, abs=ROUNDING * scale)


def test_without_the_kinks_digits_are_lost() -> None:
    """So the test above can fail."""
    phi = nonlinearity("relu")
    pairs = gaussian_pairs(nonlinearity("identity"), 1.0, 0.4)
    assert abs(pairs.mean(phi(pairs.first) * phi(pairs.second)) - arc_cosine(1.0, 0.4)) > 1e-6


@pytest.mark.parametrize("overlap", [-0.5, 0.3, 0.99])
@pytest.mark.parametrize("variance", [0.2, 1.0, 30.0, 1e4])
def test_error_function_follows_the_kernel_of_williams(variance: float, overlap: float) -> None:
    r"""$\mathbb{E}\operatorname{erf}X\operatorname{erf}Y = \tfrac2\pi\arcsin\tfrac{2q\rho}{1+2q}$, also near a jump."""
    exact = 2 / math.pi * math.asin(2 * variance * overlap / (1 + 2 * variance))
    assert product_moment("erf", variance, overlap) == pytest.approx(exact, abs=ROUNDING)


def test_activations_that_are_linear_between_kinks_are_known() -> None:
    straight = {name for name in ACTIVATIONS if not bends(nonlinearity(name))}
    pieces = {"abs", "hard_sigmoid", "hardshrink", "hardtanh", "identity", "leaky_relu", "linear", "relu", "relu6"}
    assert straight == pieces | {"sign", "softshrink", "step"}


def half_squared_difference_of_relu(gap: float) -> float:
    r"""$\tfrac12\mathbb{E}(\phi(X)-\phi(Y))^2$ at overlap $1 - \text{gap}$, in 60 digits."""
    with mpmath.workdps(60):
        overlap = 1 - mpmath.mpf(gap)
        angle = mpmath.acos(overlap)
        return float(mpmath.mpf(1) / 2 - (mpmath.sin(angle) + (mpmath.pi - angle) * overlap) / (2 * mpmath.pi))


@pytest.mark.parametrize("exponent", [4, 8, 12, 16, 20, 24, 28, 32, 36, 40])
def test_differences_keep_their_digits_near_overlap_one(exponent: int) -> None:
    r"""A half squared difference of size $t$ has relative error $10^{-16}/\sqrt t$, not $10^{-16}/t$."""
    gap = 2.0**-exponent  # 1 - gap is a float
    phi = nonlinearity("relu")
    pairs = gaussian_pairs(phi, 1.0, 1 - gap)
    first, second = phi(pairs.first), phi(pairs.second)
    exact = half_squared_difference_of_relu(gap)
    assert pairs.mean((first - second).square()) / 2 == pytest.approx(exact, rel=1e-14 + 1e-15 / math.sqrt(gap))
    if exponent >= 28:  # the usual way has lost them
        usual = pairs.mean(first.square()) - pairs.mean(first * second)
        assert abs(usual / exact - 1) > 100 * 1e-15 / math.sqrt(gap)


@pytest.mark.slow
def test_smooth_differences_follow_their_series() -> None:
    r"""The half square is $t\,\mathbb{E}\phi'^2 - \tfrac12 t^2\,\mathbb{E}\phi''^2 + \dots$ at $\rho = 1 - t$."""

    def expectation(function: str, power: int) -> float:
        slopes = {
            "first": lambda x: 1 / mpmath.cosh(x) ** 2,
            "second": lambda x: -2 * mpmath.tanh(x) / mpmath.cosh(x) ** 2,
        }
        return float(mpmath.quad(lambda x: slopes[function](x) ** power * mpmath.npdf(x), [-12, -3, 0, 3, 12]))

    gap = 2.0**-20
    series = gap * expectation("first", 2) - gap**2 / 2 * expectation("second", 2)
    pairs = gaussian_pairs(nonlinearity("tanh"), 1.0, 1 - gap)
    found: Tensor = (torch.tanh(pairs.first) - torch.tanh(pairs.second)).square()
    assert pairs.mean(found) / 2 == pytest.approx(series, rel=10 * gap**2 + ROUNDING)
    assert abs(gap * expectation("first", 2) / series - 1) > 1e-7, "the second order is seen"


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [-0.6, 0.3, 0.999])
@pytest.mark.parametrize("gain", [0.01, 10.0, 30.0, 100.0, 1e4])
def test_a_steep_error_function_follows_the_same_kernel(gain: float, overlap: float) -> None:
    phi = nonlinearity("erf", gain)
    pairs = gaussian_pairs(phi, 1.0, overlap)
    share = 2 * gain**2 / (1 + 2 * gain**2)
    found = gain**2 * pairs.mean(phi(pairs.first) * phi(pairs.second))
    assert found == pytest.approx(2 / math.pi * math.asin(share * overlap), rel=1e-11)
    slopes = pairs.mean(phi.derivative(pairs.first) * phi.derivative(pairs.second))
    exact = 2 / math.pi * share / math.sqrt(1 - (share * overlap) ** 2) / gain**2
    assert slopes == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("gain", [10.0, 30.0])
def test_fast_oscillations_are_integrated_too(gain: float) -> None:
    r"""$\mathbb{E}\sin^2(aX)\sin^2(aY)$ from $\sin^2 = (1 - \cos)/2$."""
    phi = nonlinearity("sin", gain)
    pairs = gaussian_pairs(phi, 1.0, 0.999)
    found = gain**4 * pairs.mean((phi(pairs.first) * phi(pairs.second)).square())
    square = 4 * gain**2
    exact = (1 - 2 * math.exp(-square / 2) + (math.exp(-square * 0.001) + math.exp(-square * 1.999)) / 2) / 4
    assert found == pytest.approx(exact, rel=1e-9)


def test_what_oscillates_too_fast_is_refused() -> None:
    with pytest.raises(ValueError, match="too steep, or oscillates too fast"):
        gaussian_pairs(nonlinearity("sin", 300.0), 1.0, 0.3)
