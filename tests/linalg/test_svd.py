"""A singular value decomposition that survives one failure of LAPACK."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.polar import svd

LAPACK = torch.linalg.svd


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (2, 3, 6)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_matrix_for_which_lapack_fails_once_is_decomposed(
    dtype: torch.dtype, shape: tuple[int, ...], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    failed: list[Tensor] = []

    def failing_once(given: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
        if fails and not failed:
            failed.append(given)
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return tuple(LAPACK(given, full_matrices=full_matrices))

    monkeypatch.setattr(torch.linalg, "svd", failing_once)
    left, values, right = svd(matrix)
    assert len(failed) == fails
    torch.testing.assert_close((left * values[..., None, :]) @ right, matrix)
    torch.testing.assert_close(values, torch.linalg.svdvals(matrix))
    identity = torch.eye(min(shape[-2:]), dtype=dtype).expand(*shape[:-2], -1, -1)
    torch.testing.assert_close(left.mH @ left, identity)
    torch.testing.assert_close(right @ right.mH, identity)


def test_a_second_failure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(given: Tensor, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
        raise torch.linalg.LinAlgError("the algorithm failed to converge")

    monkeypatch.setattr(torch.linalg, "svd", failing)
    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        svd(torch.eye(3))
