"""Expectations of one Gaussian: exact for polynomials, kinks and growth, and a clear no where there is none."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from orthoscope.activations import Nonlinearity, nonlinearity
from orthoscope.theory.quadrature import gaussian_rule

ROUNDING = 4e-15


def mean_square(function: Callable[[Tensor], Tensor] | str) -> float:
    phi = nonlinearity(function)
    rule = gaussian_rule(phi)
    return float(rule.weights @ phi(rule.nodes).square())


@pytest.mark.parametrize("power", range(1, 9))
def test_moments_of_the_gaussian_are_double_factorials(power: int) -> None:
    expected = math.prod(range(1, 2 * power, 2))
    assert mean_square(lambda x: x**power) == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0, 8.0])
def test_mass_far_from_the_origin_is_found(rate: float) -> None:
    r"""$\mathbb{E}\,e^{2ax} = e^{2a^2}$ has its mass at $2a$."""
    assert mean_square(lambda x: torch.exp(rate * x)) == pytest.approx(math.exp(2 * rate**2), rel=100 * ROUNDING)


@pytest.mark.parametrize("place", [-2.0, 0.0, 1 / 3, 5.0])
def test_a_jump_is_integrated_exactly_wherever_it_is(place: float) -> None:
    expected = 0.5 * math.erfc(place / math.sqrt(2))
    assert mean_square(lambda x: (x > place).double()) == pytest.approx(expected, rel=1e-13)


def test_a_steep_function_is_refined_and_not_missed() -> None:
    r"""$\mathbb{E}\tanh(ax)^2 = 1 - (2 - \pi^2/(12a^2) + O(a^{-4}))/(a\sqrt{2\pi})$."""
    steepness = 1e4
    lost = (2 - math.pi**2 / (12 * steepness**2)) / (steepness * math.sqrt(2 * math.pi))
    assert mean_square(lambda x: torch.tanh(steepness * x)) == pytest.approx(1 - lost, abs=1e-14)


def test_a_singularity_that_is_square_integrable_is_integrated() -> None:
    r"""$\mathbb{E}|X|^{1/2} = 2^{1/4}\,\Gamma(3/4)/\sqrt\pi$."""
    expected = 2**0.25 * math.gamma(0.75) / math.sqrt(math.pi)
    assert mean_square(lambda x: x.abs() ** 0.25) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [lambda x: torch.exp(x**2), lambda x: torch.exp(x**2 / 4), lambda x: torch.exp(x.abs() ** 3), lambda x: 1 / x],
    ids=["exp(x²)", "exp(x²/4)", "exp(|x|³)", "1/x"],
)
def test_infinite_energy_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match="square-integrable"):
        gaussian_rule(nonlinearity(function))


def test_a_function_that_works_in_float32_is_refused_and_not_refined_for_ever() -> None:
    with pytest.raises(ValueError, match="float32"):
        gaussian_rule(nonlinearity(lambda x: torch.tanh(x.float()).double()))


@pytest.mark.parametrize(("gain", "place"), [(1e2, 0.0), (1e4, 0.0), (1e7, 0.0), (1e2, 1.0)])
def test_a_peak_between_all_nodes_is_found_at_0_and_at_kinks(gain: float, place: float) -> None:
    r"""$\mathbb{E}\,e^{-g^2(x-a)^2} = e^{-a^2 s}/\sqrt{1 + 2g^2}$ with $s = g^2/(1 + 2g^2)$."""

    def peak(inputs: Tensor) -> Tensor:
        return torch.exp(-(gain**2) * (inputs - place).square() / 2)

    phi = Nonlinearity("a peak", peak, (place,) if place else ())
    rule = gaussian_rule(phi)
    exact = math.exp(-(place**2) * gain**2 / (1 + 2 * gain**2)) / math.sqrt(1 + 2 * gain**2)
    assert float(rule.weights @ phi(rule.nodes).square()) == pytest.approx(exact, rel=1e-9)
