"""An estimate that is never above the norm, and near it where a power iteration is not."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.linalg.spectral_norm import spectral_norm_estimate


def gaussian(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def geometric(size: int, condition: float) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    values = torch.logspace(0, -math.log10(condition), size, dtype=torch.float64)
    left, right = (haar(size, size, generator=generator, dtype=torch.float64) for _ in range(2))
    return (left * values) @ right


def power_iteration(matrix: Tensor, steps: int) -> float:
    vector = torch.randn(matrix.shape[-1], generator=torch.Generator().manual_seed(0)).to(matrix)
    for _ in range(steps):
        vector = matrix.mT @ (matrix @ vector)
        vector /= vector.norm()
    return float((matrix @ vector).norm())


@pytest.mark.parametrize(
    "matrix",
    [gaussian(300, 300), gaussian(400, 100), gaussian(100, 400), geometric(300, 1e4).float(), geometric(300, 10)],
    ids=["Gaussian", "tall", "wide", "geometric", "float64"],
)
@pytest.mark.parametrize("scale", [1.0, 1e-36, 1e37])
def test_the_estimate_is_from_below_and_near(matrix: Tensor, scale: float) -> None:
    norm = float(torch.linalg.matrix_norm(matrix.double(), 2)) * scale
    estimate = spectral_norm_estimate(matrix * scale)
    assert 0.98 * norm < estimate < norm * (1 + 1e-5)
    assert spectral_norm_estimate(matrix * scale, steps=4) <= estimate
    assert power_iteration(matrix, 12) * scale < estimate, "as many products by a power iteration come less near"


@pytest.mark.parametrize(("steps", "least"), [(8, 0.965), (12, 0.98)])
def test_how_near_does_not_depend_on_the_draw(steps: int, least: float) -> None:
    shares = []
    for seed in range(20):
        matrix = torch.randn(300, 300, generator=torch.Generator().manual_seed(seed))
        shares.append(spectral_norm_estimate(matrix, steps) / float(torch.linalg.matrix_norm(matrix, 2)))
    assert least < min(shares) < max(shares) < 1 + 1e-5
    assert min(shares) < least + 0.015, "the bound is tight"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    matrix = (1 - 0.05 * torch.rand(6000, 32, generator=torch.Generator().manual_seed(0))).to(dtype)
    norm = float(torch.linalg.matrix_norm(matrix.double(), 2))
    assert spectral_norm_estimate(matrix) == pytest.approx(norm, rel=1e-5)


def test_few_directions_are_exhausted() -> None:
    for matrix in (torch.eye(50), 3 * torch.ones(4, 7), gaussian(5, 5) @ torch.diag(torch.tensor([1.0, 1, 0, 0, 0]))):
        assert spectral_norm_estimate(matrix) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-5)
    assert spectral_norm_estimate(torch.tensor([[-2.0]])) == 2.0


def test_nothing_infinity_and_nan() -> None:
    assert spectral_norm_estimate(torch.zeros(5, 3)) == 0
    assert spectral_norm_estimate(torch.zeros(5, 0)) == 0
    assert spectral_norm_estimate(torch.full((3, 3), -torch.inf)) == math.inf
    assert math.isnan(spectral_norm_estimate(torch.full((3, 3), torch.nan)))
