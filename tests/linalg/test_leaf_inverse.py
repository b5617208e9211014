"""Small inverses by scipy are those of torch, wherever they are taken."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.block_inverse import accretive_inverse
from orthoscope.linalg.cayley import cayley_frame
from orthoscope.linalg.leaf_inverse import LARGEST, SAFE_DISTANCE, leaf_inverse


def accretive(size: int, distance: float, positive: bool = False) -> Tensor:
    """2I plus a skew matrix of that Frobenius norm, and if asked something positive semidefinite."""
    draw = torch.randn(size, size, generator=torch.Generator().manual_seed(size))
    skew = draw - draw.mT
    matrix = 2 * torch.eye(size) + skew * (distance / max(float(skew.norm()), 1e-30))
    return matrix + draw @ draw.mT / size if positive else matrix


@pytest.mark.parametrize("size", [1, 2, 40, 64, 65, 99, 127, 128])
@pytest.mark.parametrize("distance", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("by_columns", [False, True])
def test_leaves_are_inverted_as_precisely_as_by_torch(
    size: int, distance: float, positive: bool, by_columns: bool
) -> None:
    matrix = accretive(size, distance if size > 1 else 0.0, positive)
    matrix = matrix.mT.contiguous().mT if by_columns else matrix
    given = matrix.clone()
    inverse = leaf_inverse(matrix)
    assert inverse is not None
    assert torch.equal(matrix, given)
    assert inverse.is_contiguous(), "laid out by rows"
    exact = torch.linalg.inv(matrix.double())
    plain = (torch.linalg.inv(matrix) - exact).abs().max()
    assert (inverse - exact).abs().max() <= 4 * plain + 1e-7


@pytest.mark.parametrize("size", [100, 128, 200, 300])
@pytest.mark.parametrize("distance", [1.0, 0.9 * SAFE_DISTANCE, 1.1 * SAFE_DISTANCE, 10 * SAFE_DISTANCE])
def test_an_inverse_is_one_on_both_sides_of_every_limit(size: int, distance: float) -> None:
    matrix = accretive(size, distance)
    assert (leaf_inverse(matrix) is not None) == (size <= LARGEST and distance <= SAFE_DISTANCE)
    torch.testing.assert_close(accretive_inverse(matrix), torch.linalg.inv(matrix.double()).float(), rtol=0, atol=2e-6)


def test_only_what_needs_nothing_of_torch_is_taken() -> None:
    matrix = accretive(20, 1.0)
    assert leaf_inverse(matrix) is not None
    for other in (
        matrix.double(),
        matrix.to(torch.complex64),
        matrix.expand(2, 20, 20),
        matrix.clone().requires_grad_(),
        torch.nn.Parameter(matrix),
        matrix.to("meta"),
        matrix[:0, :0],
    ):
        assert leaf_inverse(other) is None
    seen = []
    torch.func.vmap(lambda each: (seen.append(leaf_inverse(each)), each)[1])(matrix.expand(2, 20, 20))
    assert seen == [None]


@pytest.mark.parametrize("size", [5, 64, 100])
def test_nan_is_not_lost(size: int) -> None:
    generator = torch.zeros(size, size)
    generator[size - 1, 0] = torch.nan
    assert leaf_inverse(generator) is None
    assert cayley_frame(generator).isnan().any()
