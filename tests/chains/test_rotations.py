"""Two ways to apply reflections are one, and what they make is a frame."""

from collections.abc import Iterator

import pytest
import torch

from orthoscope.chains import rotations
from orthoscope.chains.memory import Memory
from orthoscope.chains.rotations import (
    Reflections,
    _reflections,
    _unfolded,
    folded_shape,
    haar_reflections,
    reflect_at_once_,
    reflect_one_by_one_,
    rotated,
)
from orthoscope.chains.sources import sources

CPU = torch.device("cpu")


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def layers(networks: int, rank: int, units: int, count: int = 1) -> Iterator[Reflections]:
    return haar_reflections(sources(range(networks), CPU), rank, units, count, Memory(CPU))


@pytest.mark.parametrize(("samples", "rank", "units"), [(3, 3, 9), (5, 5, 5), (8, 4, 6), (2, 1, 1), (40, 40, 40)])
def test_rotated_rows_keep_their_angles_either_way(samples: int, rank: int, units: int) -> None:
    rows = normal(6, samples, rank)
    turned = rotated(rows, next(layers(6, rank, units)), Memory(CPU))
    assert turned.shape == (6, samples, units)
    torch.testing.assert_close(turned @ turned.mT, rows @ rows.mT, rtol=0, atol=1e-12)
    padded, reflections = normal(6, samples, units), _reflections(normal(6, rank, units).triu())
    one_by_one = reflect_one_by_one_(padded.clone(), reflections)
    at_once = reflect_at_once_(padded.clone(), reflections)
    torch.testing.assert_close(one_by_one, at_once, rtol=0, atol=1e-12)


def test_a_rotation_is_the_frame_of_the_columns_that_it_is_made_of() -> None:
    """The first column of -Q is that of the Gaussian matrix, of length one: the sign is that of QR with R_11 > 0."""
    numbers = normal(1, 4, *folded_shape(3, 7))
    prepared = _reflections(_unfolded(numbers, torch.empty(1, 4, 3, 7, dtype=torch.float64)))
    (reflections,) = map(Reflections, *prepared)
    frame = rotated(torch.eye(3, dtype=torch.float64).expand(4, 3, 3), reflections, Memory(CPU)).mT
    first = numbers[0, :, 0, -7:] / numbers[0, :, 0, -7:].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(-frame[..., 0], first, rtol=0, atol=1e-14)


def test_a_rotation_is_uniform() -> None:
    r"""Moments of the last column, of all reflections: $E W_{ik}^2 = 1/d$, $E W_{ik}^4 = 3/(d(d+2))$, and signs."""
    identity = torch.eye(5, dtype=torch.float64).expand(100, 5, 5)
    last = torch.cat([rotated(identity, each, Memory(CPU))[:, -1] for each in layers(100, 5, 5, 200)])
    for found, expected in ((last, 0.0), (last**2, 1 / 5), (last**4, 3 / 35), (last[:, :1] * last[:, 1:], 0.0)):
        error = found.std(0) / len(found) ** 0.5
        assert ((found.mean(0) - expected) / error).abs().max() < 4
        assert (error < 0.005).all(), "could not be told from half of 1/5"


def test_a_rotation_does_not_depend_on_what_the_memory_held() -> None:
    rows, reflections, used = normal(4, 5, 3), next(layers(4, 3, 7)), Memory(CPU)
    first = rotated(rows, reflections, used).clone()
    rotated(torch.full_like(rows, torch.nan), reflections, used)
    assert torch.equal(rotated(rows, reflections, used), first)
    place = torch.full((4, 5, 7), torch.nan, dtype=torch.float64)
    assert rotated(rows, reflections, used, place).data_ptr() == place.data_ptr()
    assert torch.equal(place, first)


@pytest.mark.parametrize("count", [1, 7, 600])
def test_layers_are_the_same_whether_made_one_by_one_or_many_at_a_time(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 layers of 40 numbers are two blocks, of which the second is not whole, and parts of several sizes."""
    many = [[part.clone() for part in layer] for layer in layers(3, 5, 9, count)]
    monkeypatch.setattr(rotations, "_CACHED", 1)
    one_by_one = [[part.clone() for part in layer] for layer in layers(3, 5, 9, count)]
    assert len(many) == len(one_by_one) == count
    for pair in zip(many, one_by_one, strict=True):
        assert all(torch.equal(*parts) for parts in zip(*pair, strict=True))


@pytest.mark.parametrize(("rank", "units"), [(1, 1), (1, 4), (2, 2), (3, 3), (4, 7), (5, 7), (6, 6)])
def test_every_number_is_in_one_reflection_and_no_two_reflections_share_one(rank: int, units: int) -> None:
    rows, columns = folded_shape(rank, units)
    numbers = torch.arange(1.0, 1 + rows * columns, dtype=torch.float64).view(1, 1, rows, columns)
    triangle = _unfolded(numbers, torch.empty(1, 1, rank, units, dtype=torch.float64))[0, 0]
    entries = [float(x) for i in range(rank) for x in triangle[i, i:]]
    assert torch.equal(triangle, triangle.triu())
    assert len(set(entries)) == len(entries) == rank * units - rank * (rank - 1) // 2
    assert set(entries) <= set(numbers.flatten().tolist())
    # Of an odd number of reflections the middle one has no partner, and half a row is left over.
    assert rank % 2 or len(entries) == numbers.numel()
