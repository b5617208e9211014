"""Haar matrices as products of reflections: orthonormal, uniform, and the same by LAPACK and by products."""

import pytest
import torch

from orthoscope.chains.weights import (
    Reflections,
    _unfolded,
    folded_shape,
    haar_reflections,
    reflected_by_lapack,
    reflected_by_products,
    rotated,
)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layers(networks: int, rank: int, units: int, count: int = 1) -> list[Reflections]:
    return list(haar_reflections(normal(networks, count, *folded_shape(rank, units), seed=1), rank, units))


@pytest.mark.parametrize(("samples", "rank", "units"), [(3, 3, 9), (5, 5, 5), (8, 4, 6), (2, 1, 1), (40, 40, 40)])
def test_rotated_rows_keep_their_angles_either_way(samples: int, rank: int, units: int) -> None:
    rows, (reflections,) = normal(6, samples, rank), layers(6, rank, units)
    turned = rotated(rows, reflections)
    assert turned.shape == (6, samples, units)
    torch.testing.assert_close(turned @ turned.mT, rows @ rows.mT, rtol=0, atol=1e-12)
    full = normal(6, samples, units)
    by_lapack, by_products = reflected_by_lapack(full, reflections), reflected_by_products(full, reflections)
    torch.testing.assert_close(by_lapack, by_products, rtol=0, atol=1e-12)


def test_first_column_is_that_of_the_gaussian_matrix_with_the_sign_of_qr() -> None:
    """The first column of -Q is that of the Gaussian matrix, scaled to length one: that of QR with R_11 > 0."""
    numbers = normal(4, 1, *folded_shape(3, 7))
    (reflections,) = haar_reflections(numbers, 3, 7)
    frame = rotated(torch.eye(3, dtype=torch.float64).expand(4, 3, 3), reflections).mT
    first = numbers[:, 0, 0, -7:] / numbers[:, 0, 0, -7:].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(-frame[..., 0], first, rtol=0, atol=1e-14)


def test_rotations_have_the_moments_of_haar_measure() -> None:
    r"""Moments of the last column, of all reflections: $E W_{ik}^2 = 1/d$, $E W_{ik}^4 = 3/(d(d+2))$, and signs."""
    identity = torch.eye(5, dtype=torch.float64).expand(100, 5, 5)
    last = torch.cat([rotated(identity, each)[:, -1] for each in layers(100, 5, 5, 200)])
    for found, expected in ((last, 0.0), (last**2, 1 / 5), (last**4, 3 / 35), (last[:, :1] * last[:, 1:], 0.0)):
        error = found.std(0) / len(found) ** 0.5
        assert ((found.mean(0) - expected) / error).abs().max() < 4
        assert (error < 0.005).all(), "could not be told from half of 1/5"


def test_a_layer_does_not_depend_on_the_layers_prepared_with_it() -> None:
    numbers = normal(3, 7, *folded_shape(5, 9))
    together = haar_reflections(numbers, 5, 9)
    one_by_one = (next(haar_reflections(numbers[:, place : place + 1], 5, 9)) for place in range(7))
    for pair in zip(together, one_by_one, strict=True):
        assert all(torch.equal(*parts) for parts in zip(*pair, strict=True))


@pytest.mark.parametrize(("rank", "units"), [(1, 1), (1, 4), (2, 2), (3, 3), (4, 7), (5, 7), (6, 6)])
def test_every_number_is_in_one_reflection_and_no_two_reflections_share_one(rank: int, units: int) -> None:
    rows, columns = folded_shape(rank, units)
    numbers = torch.arange(1.0, 1 + rows * columns, dtype=torch.float64).view(rows, columns)
    triangle = _unfolded(numbers, rank, units)
    entries = [float(x) for i in range(rank) for x in triangle[i, i:]]
    assert torch.equal(triangle, triangle.triu())
    assert len(set(entries)) == len(entries) == rank * units - rank * (rank - 1) // 2
    assert set(entries) <= set(numbers.flatten().tolist())
    # Of an odd number of reflections the middle one has no partner, and half a row is left over.
    assert rank % 2 or len(entries) == numbers.numel()
