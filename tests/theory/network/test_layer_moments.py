"""Moments of a layer against closed forms and Gauss-Hermite sums; the noise of a cosine against sampled layers."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor

from orthoscope.activations import ACTIVATIONS, Nonlinearity, nonlinearity
from orthoscope.linalg import haar
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.network._layer_moments import LayerMoments, layer_moments
from orthoscope.theory.network.hyperparameters import NoTheory

Curve = Callable[[np.ndarray], np.ndarray]
CASES = [(1.0, 0.0), (0.3, 0.6), (0.5, -0.4), (1.0, 0.95)]
ROUNDING = 1e-11


def closed_form(name: str, q: float, rho: float) -> dict[str, float]:
    root, arcsine = math.sqrt(1 - rho**2), math.asin(rho)
    forms = {
        "identity": (0.0, q, q * (1 - rho), 1.0, 1.0),
        "square": (q, 3 * q**2, 2 * q**2 * (1 - rho**2), 4 * q, 4 * q * rho),
        "cube": (0.0, 15 * q**3, q**3 * (15 - 9 * rho - 6 * rho**3), 27 * q**2, 9 * q**2 * (1 + 2 * rho**2)),
        "exp": (
            math.exp(q / 2),
            math.exp(2 * q),
            math.exp(2 * q) - math.exp(q * (1 + rho)),
            math.exp(2 * q),
            math.exp(q * (1 + rho)),
        ),
        "relu": (
            math.sqrt(q / (2 * math.pi)),
            q / 2,
            q * (0.5 - (root + (math.pi / 2 + arcsine) * rho) / (2 * math.pi)),
            0.5,
            0.25 + arcsine / (2 * math.pi),
        ),
        "abs": (
            math.sqrt(2 * q / math.pi),
            q,
            q * (1 - 2 / math.pi * (root + rho * arcsine)),
            1.0,
            2 / math.pi * arcsine,
        ),
        # The jump turns angles, so it counts in the product of slopes, but passes no gradient.
        "sign": (0.0, 1.0, 1 - 2 / math.pi * arcsine, 0.0, 2 / (math.pi * root * q)),
        "sin": (
            0.0,
            (1 - math.exp(-2 * q)) / 2,
            (1 - math.exp(-2 * q)) / 2 - math.exp(-q) * math.sinh(q * rho),
            (1 + math.exp(-2 * q)) / 2,
            math.exp(-q) * math.cosh(q * rho),
        ),
    }
    return dict(zip(("mean", "square", "spread", "slope_square", "slope_product"), forms[name], strict=True))


@pytest.mark.parametrize(("variance", "overlap"), CASES)
@pytest.mark.parametrize("name", ["identity", "square", "cube", "exp", "relu", "abs", "sign", "sin"])
def test_moments_are_their_closed_forms(name: str, variance: float, overlap: float) -> None:
    found = layer_moments(nonlinearity(name), variance, overlap)
    for field, exact in closed_form(name, variance, overlap).items():
        assert getattr(found, field) == pytest.approx(exact, rel=ROUNDING, abs=ROUNDING), field
    assert found.overlap == pytest.approx(1 - found.spread / found.square)


def hermite_sums(function: Curve, variance: float, overlap: float) -> tuple[float, float]:
    r"""$\mathbb{E}\phi(X)^2$ and $\mathbb{E}\phi(X)\phi(Y)$ for $Y = \rho X + \sqrt{1-\rho^2}\,Z$, 200 nodes each."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / math.sqrt(2 * math.pi)
    first = math.sqrt(variance) * nodes[:, None]
    second = overlap * first + math.sqrt(variance * (1 - overlap**2)) * nodes
    table = weights[:, None] * weights
    return (
        float((table * function(first) ** 2).sum()),
        float((table * function(first) * function(second)).sum()),
    )


@pytest.mark.parametrize(("variance", "overlap"), CASES[:3])
def test_smooth_activations_agree_with_gauss_and_hermite(variance: float, overlap: float) -> None:
    curve: dict[str, tuple[Curve, Curve]] = {
        "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
        "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x: 0.25 / np.cosh(x / 2) ** 2),
        "softplus": (lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x))),
    }
    for name, (function, slope) in curve.items():
        found = layer_moments(nonlinearity(name), variance, overlap)
        square, product = hermite_sums(function, variance, overlap)
        slope_square, slope_product = hermite_sums(slope, variance, overlap)
        # Poles near the real axis limit the reference, not the quadrature under test.
        reference_error = 1e-8
        assert found.square == pytest.approx(square, rel=reference_error)
        assert found.spread == pytest.approx(square - product, rel=reference_error)
        assert found.slope_square == pytest.approx(slope_square, rel=reference_error)
        assert found.slope_product == pytest.approx(slope_product, rel=reference_error)


@pytest.mark.slow
def test_large_variances_are_integrated_where_activations_bend() -> None:
    """Tanh of a deviation of 100 is almost a sign; mpmath sees the corner too."""
    found = layer_moments(nonlinearity("tanh"), 1e4, 0.6)
    corner = [-4, -0.1, 0, 0.1, 4]
    square = mpmath.quad(lambda z: mpmath.tanh(100 * z) ** 2 * mpmath.npdf(z), corner)
    slope_square = mpmath.quad(
        lambda z: mpmath.sech(100 * z) ** 4 * mpmath.npdf(z), [-0.3, -0.1, -0.02, 0, 0.02, 0.1, 0.3]
    )
    assert found.square == pytest.approx(float(square), abs=2 * float(mpmath.ncdf(-4)))
    assert found.slope_square == pytest.approx(float(slope_square), rel=1e-9)
    # Units at the corner are a share of 1/deviation.
    assert found.spread == pytest.approx(1 - 2 / math.pi * math.asin(0.6), rel=2 / 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_slope_product_is_the_derivative_of_the_overlap(name: str) -> None:
    """By central differences of the spread, whatever the kinks and jumps."""
    variance, overlap, step = 0.7, 0.4, 1e-4
    phi = nonlinearity(name)
    high, low = (layer_moments(phi, variance, overlap + sign * step) for sign in (1, -1))
    found = layer_moments(phi, variance, overlap).slope_product
    assert found == pytest.approx((low.spread - high.spread) / (2 * step * variance), rel=1e-6, abs=1e-9)


def test_centering_takes_the_mean_out() -> None:
    raw, centered = (layer_moments(nonlinearity("gelu"), 1.3, 0.5, centered=centered) for centered in (False, True))
    assert centered.mean == 0
    assert centered.square == pytest.approx(raw.square - raw.mean**2, rel=ROUNDING)
    assert centered.spread == pytest.approx(raw.spread, rel=ROUNDING)
    assert centered.slope_product == pytest.approx(raw.slope_product, rel=ROUNDING)


@pytest.mark.parametrize("overlap", [-0.5, 0.0, 0.7, 0.99])
def test_noise_of_a_linear_layer_is_that_of_a_correlation(overlap: float) -> None:
    r"""$(1-\rho^2)^2$ with Gaussian weights, as for any sample correlation; none with a rotation."""
    linear = nonlinearity("identity")
    assert layer_moments(linear, 1.0, overlap).noise == pytest.approx((1 - overlap**2) ** 2, rel=ROUNDING)
    assert layer_moments(linear, 1.0, overlap, rotation=True).noise == pytest.approx(0.0, abs=1e-14)


UNITS, DRAWS = 400, 2000


def pre_activations(overlap: float, rotation: bool, seed: int) -> tuple[Tensor, Tensor]:
    """Of two samples, `DRAWS` layers: the first two columns of a Gaussian matrix, or of an orthogonal one."""
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randn(DRAWS, UNITS, 2, generator=generator, dtype=torch.float64)
    if rotation:
        columns = torch.linalg.qr(columns).Q * math.sqrt(UNITS)
        # The law is invariant under signs, which QR fixes.
        columns = columns * torch.randn(DRAWS, 1, 2, generator=generator, dtype=torch.float64).sign()
    return columns[..., 0], overlap * columns[..., 0] + math.sqrt(1 - overlap**2) * columns[..., 1]


def cosines(phi: Nonlinearity, overlap: float, centered: bool, rotation: bool, seed: int) -> Tensor:
    first, second = (phi(values) for values in pre_activations(overlap, rotation, seed))
    if centered:
        first, second = first - first.mean(-1, keepdim=True), second - second.mean(-1, keepdim=True)
    return torch.cosine_similarity(first, second, dim=-1)


def misfit(sampled: Tensor, noise: float) -> float:
    """By how many standard errors d·Var misses the prediction; 4/d of it, the order theory leaves out, is forgiven."""
    scaled = (sampled - sampled.mean()).square() * UNITS
    standard_error = scaled.std() / math.sqrt(len(scaled))
    return float(((scaled.mean() - noise).abs() - 4 / UNITS * noise).clamp_min(0) / standard_error)


@pytest.mark.slow
@pytest.mark.parametrize("rotation", [False, True])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    ("name", "overlap"), [("relu", 0.0), ("relu", 0.8), ("tanh", 0.5), ("gelu", 0.3), ("sign", 0.4)]
)
def test_noise_is_the_variance_of_the_cosine(name: str, overlap: float, centered: bool, rotation: bool) -> None:
    phi = nonlinearity(name)
    moments = layer_moments(phi, 1.0, overlap, centered=centered, rotation=rotation)
    sampled = cosines(phi, overlap, centered, rotation, seed=len(name) + 10 * centered + 20 * rotation)
    assert misfit(sampled, moments.noise) < 4
    assert misfit(sampled, 1.4 * moments.noise) > 5, "the test must be able to reject a noise that is 40% off"
    assert float(sampled.mean()) == pytest.approx(
        moments.overlap, abs=4 * float(sampled.std()) / math.sqrt(DRAWS) + 2 / UNITS
    )


@pytest.mark.parametrize("name", ["identity", "tanh", "relu"])
def test_biases_are_noise_for_rotations_too(name: str) -> None:
    """Half of the variance from a rotation of samples with overlap 0.2, half from a bias: 0.6 together."""
    phi, overlap = nonlinearity(name), 0.2
    first, second = pre_activations(overlap, rotation=True, seed=8)
    bias = torch.randn(DRAWS, UNITS, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    first, second = (phi((values + bias) / math.sqrt(2)) for values in (first, second))
    sampled = torch.cosine_similarity(first, second, dim=-1)
    noises = [layer_moments(phi, 1.0, 0.6, rotation=True, bias_share=share).noise for share in (0.5, 0.0)]
    assert misfit(sampled, noises[0]) < 4
    assert misfit(sampled, noises[1]) > 5, "that a bias is no rotation is seen"


@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "cube", "sign", "sigmoid"])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.9])
def test_rotations_are_quieter_than_gaussian_weights(name: str, overlap: float) -> None:
    phi = nonlinearity(name)
    gaussian, rotated = (layer_moments(phi, 1.0, overlap, rotation=rotation).noise for rotation in (False, True))
    assert 0 <= rotated < gaussian


def test_a_whole_orthogonal_matrix_has_the_noise_of_two_columns() -> None:
    """The sampled frames above are what an orthogonal weight makes of two samples."""
    units, overlap, draws = 40, 0.6, 800
    generator = torch.Generator().manual_seed(5)
    samples = torch.zeros(units, 2, dtype=torch.float64)
    samples[0], samples[1, 1] = torch.tensor([1.0, overlap]), math.sqrt(1 - overlap**2)
    weights = torch.stack([haar(units, units, generator=generator, dtype=torch.float64) for _ in range(draws)])
    outputs = torch.relu(weights @ samples)
    sampled = torch.cosine_similarity(outputs[..., 0], outputs[..., 1], dim=-1)
    moments = layer_moments(nonlinearity("relu"), 1.0, overlap, rotation=True)
    scaled = (sampled - sampled.mean()).square() * units
    assert (
        abs(float(scaled.mean()) / moments.noise - 1)
        < 4 * float(scaled.std() / scaled.mean()) / math.sqrt(draws) + 4 / units
    )


@pytest.mark.parametrize("variance", [1e-250, 1e250])
def test_no_square_overflows_or_vanishes_on_the_way(variance: float) -> None:
    small, usual = (layer_moments(nonlinearity("relu"), q, 0.5) for q in (variance, 1.0))
    assert small.overlap == pytest.approx(usual.overlap, rel=ROUNDING)
    assert small.noise == pytest.approx(usual.noise, rel=ROUNDING)
    assert small.slope_product == pytest.approx(usual.slope_product, rel=ROUNDING)


@pytest.mark.parametrize(
    ("name", "variance", "reason"),
    [
        ("exp", 1e6, "signals overflow"),
        ("cube", 1e200, "signals overflow"),
        ("hardshrink", 1e-4, "signals vanish"),
        # The mean square is made by pre-activations of more than 8 standard deviations.
        ("exp", 20.0, "signals overflow, .* made by its tails"),
        ("hardshrink", 0.0031, "signals vanish, .* made by its tails"),
    ],
)
def test_what_floats_cannot_hold_is_refused_with_a_reason(name: str, variance: float, reason: str) -> None:
    with pytest.raises(NoTheory, match=reason):
        layer_moments(nonlinearity(name), variance, 0.3)


def test_one_direction_stays_one() -> None:
    moments: LayerMoments = layer_moments(nonlinearity("tanh"), 1.0, 1.0)
    assert (moments.spread, moments.noise, moments.overlap) == (0.0, 0.0, 1.0)
    assert moments.slope_product == pytest.approx(moments.slope_square)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "gain"), [("tanh", 0.01), ("tanh", 10.0), ("tanh", 30.0), ("sin", 10.0), ("elu", 100.0)]
)
def test_moments_of_steep_activations_are_those_of_the_kernel_map(name: str, gain: float) -> None:
    """Fixed panels gave an overlap of .209 for tanh at gain 30, not .199."""
    phi = nonlinearity(name, gain)
    moments, kappa = layer_moments(phi, 1.0, 0.3), kernel_map(phi)
    assert moments.overlap == pytest.approx(kappa(0.3), abs=1e-12)
    assert moments.slope_square == pytest.approx(kappa.slope_at_one * kappa.scale**2, rel=1e-10)
    assert moments.slope_product == pytest.approx(
        kappa.derivative(0.3) * kappa.scale**2, abs=1e-9 * moments.slope_square
    )


def test_noise_of_a_fast_sine_is_that_of_independent_phases() -> None:
    r"""$\mathbb{E}a^2b^2/(\mathbb{E}a^2)^2 = 1$ where the phases are independent; fixed panels gave 1.10."""
    assert layer_moments(nonlinearity("sin", 10.0), 1.0, 0.3).noise == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("gain", [30.0, 100.0])
def test_noise_of_a_steep_activation_is_sampled(gain: float, generator: torch.Generator) -> None:
    phi, draws, overlap = nonlinearity("tanh", gain), 400_000, 0.3
    x, z = torch.randn(2, draws, dtype=torch.float64, generator=generator)
    first, second = phi(x), phi(overlap * x + math.sqrt(1 - overlap**2) * z)
    moments = layer_moments(phi, 1.0, overlap)
    cosine = moments.overlap
    squares = (first * second - cosine / 2 * (first.square() + second.square())).square() / moments.square**2
    error = float(squares.std()) / math.sqrt(draws)
    assert abs(float(squares.mean()) - moments.noise) < 4 * error
    assert abs(float(squares.mean()) - (1 - 4 / math.pi**2 * math.asin(overlap) ** 2)) > 4 * error or gain > 50
