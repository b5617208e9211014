"""Two ways to apply reflections are one, and what they make is a frame."""

import pytest
import torch

from orthoscope.chains.memory import Memory
from orthoscope.chains.rotations import (
    Reflections,
    _reflections,
    folded_shape,
    reflect_at_once_,
    reflect_one_by_one_,
    rotated,
)


def memory() -> Memory:
    return Memory(torch.device("cpu"))


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("samples", "rank", "units"), [(3, 3, 9), (5, 5, 5), (8, 4, 6), (2, 1, 1), (40, 40, 40)])
def test_rotated_rows_keep_their_angles_either_way(samples: int, rank: int, units: int) -> None:
    rows = normal(6, samples, rank)
    turned = rotated(rows, normal(6, *folded_shape(rank, units)), memory())
    assert turned.shape == (6, samples, units)
    torch.testing.assert_close(turned @ turned.mT, rows @ rows.mT, rtol=0, atol=1e-12)
    padded, reflections = normal(6, samples, units), _reflections(normal(6, rank, units).triu())
    one_by_one = reflect_one_by_one_(padded.clone(), reflections)
    at_once = reflect_at_once_(padded.clone(), reflections)
    torch.testing.assert_close(one_by_one, at_once, rtol=0, atol=1e-12)


def test_a_rotation_is_the_frame_of_the_columns_that_it_is_made_of() -> None:
    """The first column of Q is that of the Gaussian matrix, of length one: the sign is that of QR with R_11 > 0."""
    numbers = normal(4, *folded_shape(3, 7))
    frame = rotated(torch.eye(3, dtype=torch.float64).expand(4, 3, 3), numbers, memory()).mT
    first = numbers[:, 0, -7:] / numbers[:, 0, -7:].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(frame[..., 0], first, rtol=0, atol=1e-14)


def test_a_rotation_does_not_depend_on_what_the_memory_held() -> None:
    rows, numbers, used = normal(4, 5, 3), normal(4, *folded_shape(3, 7)), memory()
    first = rotated(rows, numbers, used).clone()
    rotated(torch.full_like(rows, torch.nan), torch.full_like(numbers, torch.nan), used)
    assert torch.equal(rotated(rows, numbers, used), first)
    place = torch.full((4, 5, 7), torch.nan, dtype=torch.float64)
    assert rotated(rows, numbers, used, place).data_ptr() == place.data_ptr()
    assert torch.equal(place, first)


@pytest.mark.parametrize(("rank", "units"), [(1, 1), (1, 4), (2, 2), (3, 3), (4, 7), (5, 7), (6, 6)])
def test_every_number_is_in_one_reflection_and_no_two_reflections_share_one(
    rank: int, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def spied(vectors: torch.Tensor) -> Reflections:
        seen.append(vectors.clone())
        return _reflections(vectors)

    monkeypatch.setattr("orthoscope.chains.rotations._reflections", spied)
    rows, columns = folded_shape(rank, units)
    numbers = torch.arange(1.0, 1 + rows * columns, dtype=torch.float64).view(1, rows, columns)
    rotated(torch.eye(rank, dtype=torch.float64).unsqueeze(0), numbers, memory())
    (triangle,) = seen
    entries = [float(x) for i in range(rank) for x in triangle[0, i, i:]]
    assert triangle.shape == (1, rank, units)
    assert torch.equal(triangle, triangle.triu())
    assert len(set(entries)) == len(entries) == rank * units - rank * (rank - 1) // 2
    assert set(entries) <= set(numbers.flatten().tolist())
    # Of an odd number of reflections the middle one has no partner, and half a row is left over.
    assert rank % 2 or len(entries) == numbers.numel()
