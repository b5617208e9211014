"""Hermite polynomials and the expansion of an activation in them."""

import math

import pytest
import torch
from numpy.polynomial import hermite_e

from orthoscope.activations import nonlinearity
from orthoscope.theory.kernel.hermite import hermite_coefficients, hermite_polynomials, hermite_table
from orthoscope.theory.quadrature import gaussian_rule

ROUNDING = 1e-14


def test_table_5_1_is_as_printed() -> None:
    printed = [(1,), (0, 1), (-1, 0, 1), (0, -3, 0, 1), (3, 0, -6, 0, 1)]
    assert [row for row, _ in hermite_table()] == printed
    assert [round(1 / factor**2) for _, factor in hermite_table()] == [1, 1, 2, 6, 24]


def test_the_recursion_gives_the_polynomials_of_the_table_and_of_numpy() -> None:
    points = torch.linspace(-3.0, 3.0, 13, dtype=torch.float64)
    values = hermite_polynomials(points, 12)
    for k, (row, factor) in enumerate(hermite_table(12)):
        expected = factor * sum(coefficient * points**power for power, coefficient in enumerate(row))
        torch.testing.assert_close(values[k], expected, rtol=1e-10, atol=1e-10)
        by_numpy = hermite_e.hermeval(points.numpy(), [0] * k + [1]) / math.sqrt(math.factorial(k))
        torch.testing.assert_close(values[k], torch.from_numpy(by_numpy), rtol=1e-12, atol=1e-12)


def test_polynomials_are_orthonormal_under_the_gaussian() -> None:
    rule = gaussian_rule(nonlinearity(lambda x: x**20))
    values = hermite_polynomials(rule.nodes, 20)
    torch.testing.assert_close(values * rule.weights @ values.T, torch.eye(20).double(), rtol=0, atol=1e-12)


def test_a_hermite_series_has_its_own_coefficients(generator: torch.Generator) -> None:
    coefficients = torch.randn(7, generator=generator, dtype=torch.float64)
    found = hermite_coefficients(lambda x: torch.einsum("k,k...->...", coefficients, hermite_polynomials(x, 7)), 12)
    torch.testing.assert_close(found[:7], coefficients, rtol=0, atol=10 * ROUNDING)
    assert found[7:].abs().max() < 10 * ROUNDING


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_coefficients_of_the_exponential(rate: float) -> None:
    r"""$e^{ax} = e^{a^2/2} \sum_k a^k/\sqrt{k!}\;\mathrm{he}_k(x)$."""
    expected = torch.tensor([rate**k / math.sqrt(math.factorial(k)) for k in range(40)], dtype=torch.float64)
    found = hermite_coefficients(lambda x: torch.exp(rate * x), 40) / math.exp(rate**2 / 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=ROUNDING * math.exp(rate**2 / 2))


def test_coefficients_of_the_sign_are_right_to_high_orders() -> None:
    r"""$c_{2m+1} = (-1)^m \sqrt{2/\pi}\,\sqrt{(2m)!}/(2^m m! \sqrt{2m+1})$."""
    found = hermite_coefficients("sign", 400)
    orders = torch.arange(200, dtype=torch.float64)
    logarithm = torch.lgamma(2 * orders + 1) / 2 - orders * math.log(2) - torch.lgamma(orders + 1)
    expected = math.sqrt(2 / math.pi) * logarithm.exp() / (2 * orders + 1).sqrt() * (1 - 2 * (orders % 2))
    assert (found[1::2] - expected).abs().max() < ROUNDING
    assert found[::2].abs().max() < ROUNDING


@pytest.mark.parametrize("name", ["tanh", "gelu", "elu", "exp"])
def test_energy_is_the_sum_of_squares(name: str) -> None:
    phi = nonlinearity(name)
    rule = gaussian_rule(phi)
    energy = float(rule.weights @ phi(rule.nodes).square())
    missing = energy - float(hermite_coefficients(name, 400).square().sum())
    assert 0 <= missing + ROUNDING * energy < 1e-6 * energy


@pytest.mark.parametrize("orders", [0, -1])
def test_no_orders_is_refused(orders: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        hermite_coefficients("relu", orders)
