"""Sums in place, and Hermitian and skew parts, are the plain ones."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.products import add_product_, plus_adjoint, skew_part

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("shape", [(5, 3), (4, 5, 3)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_are_added_in_place(shape: tuple[int, ...], transposed: bool) -> None:
    left, right = gaussian(*shape[:-1], 6, seed=1), gaussian(*shape[:-2], 6, 3, seed=2)
    target = gaussian(*shape)
    expected = target + 2 * left @ right
    place = target.mT.contiguous().mT if transposed else target.clone()
    result = add_product_(place, left, right, alpha=2.0)
    torch.testing.assert_close(place, expected)
    assert result.data_ptr() == place.data_ptr()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_square_is_its_hermitian_and_its_skew_part(dtype: torch.dtype) -> None:
    square = gaussian(2, 4, 4, dtype=dtype)
    torch.testing.assert_close(plus_adjoint(square) / 2 + skew_part(square), square)
    torch.testing.assert_close(plus_adjoint(square), plus_adjoint(square).mH)
    torch.testing.assert_close(skew_part(square), -skew_part(square).mH)
