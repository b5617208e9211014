"""Slopes and rates: exact on lines, honest on noise."""

import pytest
import torch

from orthoscope.metrics import depth_slope, explosion_rate, log_norm


def test_explosion_rate_is_positive_when_gradients_grow_toward_the_input() -> None:
    toward_output = torch.linspace(5.0, 0.0, 26)  # 5 e-folds over 25 layers, largest at the input
    assert torch.allclose(explosion_rate(toward_output), torch.full((16,), 0.2, dtype=torch.float64), atol=1e-6)
    assert (explosion_rate(-toward_output) < 0).all()


def test_explosion_rate_needs_more_layers_than_its_gap() -> None:
    with pytest.raises(ValueError, match="a gap of 10 layers needs more than 10 layers, got 10"):
        explosion_rate(torch.zeros(10))


def test_slope_of_a_line_is_exact_and_certain() -> None:
    slope = depth_slope(torch.arange(30, dtype=torch.float64) * -0.25)
    assert float(slope.value) == pytest.approx(0.25)
    assert float(slope.standard_error) < 1e-12


def coverage(log_norms: torch.Tensor, truth: float) -> float:
    slope = depth_slope(log_norms)
    return float(((slope.value - truth).abs() < 2 * slope.standard_error).double().mean())


@pytest.mark.parametrize("layers", [20, 50, 200])
def test_two_standard_errors_cover_the_slope_of_a_random_walk(layers: int) -> None:
    generator = torch.Generator().manual_seed(layers)
    steps = torch.randn(2000, layers, generator=generator, dtype=torch.float64) * 0.3
    walks = (steps - 0.1).cumsum(-1)
    assert coverage(walks, 0.1) > 0.85
    depth = torch.arange(layers, dtype=torch.float64)
    depth = depth - depth.mean()
    fitted = (-walks * depth).sum(-1, keepdim=True) / depth.square().sum()
    residual = -walks + walks.mean(-1, keepdim=True) - fitted * depth
    textbook = (residual.square().sum(-1) / (layers - 2) / depth.square().sum()).sqrt()
    naive = ((fitted.squeeze(-1) - 0.1).abs() < 2 * textbook).double().mean()
    assert naive < 0.6, "the textbook error is what must not be used on a walk"


@pytest.mark.parametrize("layers", [20, 50, 200])
def test_two_standard_errors_cover_the_slope_of_a_noisy_line(layers: int) -> None:
    generator = torch.Generator().manual_seed(layers)
    noise = torch.randn(2000, layers, generator=generator, dtype=torch.float64)
    assert coverage(noise - 0.1 * torch.arange(layers), 0.1) > 0.9


@pytest.mark.parametrize("scale", [1e-300, 1e-40, 1.0, 1e300])
def test_log_norm_neither_overflows_nor_underflows(scale: float) -> None:
    matrix = torch.ones(3, 4, dtype=torch.float64) * scale
    expected = torch.tensor(12.0).sqrt().log().item() + torch.tensor(scale, dtype=torch.float64).log().item()
    assert float(log_norm(matrix)) == pytest.approx(expected)


def test_log_norm_of_zero_is_minus_infinity_and_of_nan_is_nan() -> None:
    assert float(log_norm(torch.zeros(2, 2))) == -torch.inf
    assert torch.isnan(log_norm(torch.tensor([[torch.nan, 1.0]])))
