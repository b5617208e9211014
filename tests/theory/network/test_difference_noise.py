"""The cosine of two differences of samples, over the units of one layer: closed forms, limits and sampled layers."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.network._layer_moments import difference_noise

UNITS, DRAWS = 400, 2000
ROUNDING = 1e-12


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.9, 1 - 1e-9])
@pytest.mark.parametrize("variance", [0.1, 1.0, 50.0])
def test_linear_layers_have_noise_one_and_rotations_none(variance: float, overlap: float) -> None:
    assert difference_noise(nonlinearity("identity"), variance, overlap) == pytest.approx(1.0, rel=ROUNDING)
    assert difference_noise(nonlinearity("identity"), variance, overlap, rotation=True) == pytest.approx(
        0.0, abs=ROUNDING
    )


def test_differences_of_orthogonal_samples_are_as_noisy_as_linear_ones() -> None:
    """Without anything shared, the conditional variance is the same number everywhere."""
    assert difference_noise(nonlinearity("gelu"), 1.0, 0.0) == pytest.approx(1.0, rel=ROUNDING)


@pytest.mark.parametrize(("rotation", "limit"), [(False, 2.0), (True, 1.0)])
def test_relu_near_overlap_one_lives_in_half_of_its_units(rotation: bool, limit: float) -> None:
    r"""Half of the units pass the difference on, so $\mathbb{E}w^2/(\mathbb{E}w)^2 \to 2$; a rotation takes 1 away."""
    errors = [
        abs(difference_noise(nonlinearity("relu"), 1.0, 1 - gap, rotation=rotation) - limit)
        for gap in (1e-2, 1e-4, 1e-6, 1e-8)
    ]
    # The units at the kink are a share of √gap.
    for error, gap in zip(errors, (1e-2, 1e-4, 1e-6, 1e-8), strict=True):
        assert error < 2 * math.sqrt(gap)
    assert errors[0] > 1e-3, "the limit is not the formula"


def test_sine_has_a_closed_form() -> None:
    r"""$\operatorname{Var}(\sin(m + \sqrt s\,\xi)) = a + b\cos 2m$, with $s = q(1-\rho)$, $m$ of variance $q\rho$."""
    q, rho = 1.7, 0.6
    own, shared = q * (1 - rho), q * rho
    # E sin² = ½(1 − e^{−2s} cos 2m) and (E sin)² = ½ e^{−s}(1 − cos 2m).
    a, b = (1 - math.exp(-own)) / 2, (math.exp(-own) - math.exp(-2 * own)) / 2
    cosine, cosine_square = math.exp(-2 * shared), (1 + math.exp(-8 * shared)) / 2
    exact = (a**2 + 2 * a * b * cosine + b**2 * cosine_square) / (a + b * cosine) ** 2
    assert difference_noise(nonlinearity("sin"), q, rho) == pytest.approx(exact, rel=ROUNDING)


def cosines_of_differences(name: str, overlap: float, rotation: bool, seed: int) -> Tensor:
    """Of x₁ − x₂ and x₃ − x₄ after layers of four samples with equal overlaps."""
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randn(DRAWS, UNITS, 4, generator=generator, dtype=torch.float64)
    if rotation:
        columns = torch.linalg.qr(columns).Q * math.sqrt(UNITS)
        columns = columns * torch.randn(DRAWS, 1, 4, generator=generator, dtype=torch.float64).sign()
    overlaps = torch.full((4, 4), overlap, dtype=torch.float64).fill_diagonal_(1.0)
    outputs = nonlinearity(name)(columns @ torch.linalg.cholesky(overlaps).mT)
    return torch.cosine_similarity(outputs[..., 0] - outputs[..., 1], outputs[..., 2] - outputs[..., 3], dim=-1)


@pytest.mark.slow
@pytest.mark.parametrize("rotation", [False, True])
@pytest.mark.parametrize(
    ("name", "overlap"), [("relu", 0.5), ("relu", 0.97), ("tanh", 0.6), ("sigmoid", 0.2), ("step", 0.5)]
)
def test_noise_is_the_variance_of_the_cosine_of_differences(name: str, overlap: float, rotation: bool) -> None:
    noise = difference_noise(nonlinearity(name), 1.0, overlap, rotation=rotation)
    scaled = cosines_of_differences(name, overlap, rotation, seed=len(name)).square() * UNITS
    standard_error = float(scaled.std()) / math.sqrt(DRAWS)
    # Theory is the first order in 1/width.
    allowance = 10 * max(noise, 0.1) / UNITS
    assert abs(float(scaled.mean()) - noise) < 4 * standard_error + allowance
    assert abs(float(scaled.mean()) - 1.4 * noise) > 4 * standard_error + allowance, "40% more would be seen"


@pytest.mark.parametrize("overlap", [-0.2, 1.0, math.nan])
def test_overlaps_without_differences_are_refused(overlap: float) -> None:
    with pytest.raises(ValueError, match="need an overlap from 0 to 1"):
        difference_noise(nonlinearity("relu"), 1.0, overlap)


def test_an_activation_without_differences_has_infinite_noise() -> None:
    assert difference_noise(nonlinearity("hardshrink"), 1e-4, 0.5) == math.inf
