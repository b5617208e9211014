"""A decomposition that does not depend on the mood of LAPACK."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.svd import svd

LAPACK = torch.linalg.svd


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (2, 3, 6)])
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_matrix_that_lapack_refuses_once_is_decomposed_all_the_same(
    dtype: torch.dtype, shape: tuple[int, ...], stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    refused: list[Tensor] = []

    def moody(given: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
        if stubborn and not refused:
            refused.append(given)
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return tuple(LAPACK(given, full_matrices=full_matrices))

    monkeypatch.setattr(torch.linalg, "svd", moody)
    left, values, right = svd(matrix)
    assert len(refused) == stubborn
    torch.testing.assert_close((left * values[..., None, :]) @ right, matrix)
    torch.testing.assert_close(values, torch.linalg.svdvals(matrix))
    identity = torch.eye(min(shape[-2:]), dtype=dtype).expand(*shape[:-2], -1, -1)
    torch.testing.assert_close(left.mH @ left, identity)
    torch.testing.assert_close(right @ right.mH, identity)


def test_what_lapack_refuses_twice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(given: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "svd", never)
    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        svd(torch.eye(3))
