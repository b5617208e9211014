"""The largest singular triplets by products alone: against the dense SVD, with errors that hold."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import haar, top_triplets
from orthoscope.linalg.top_triplets import block_width


def products(matrix: Tensor, calls: list[int]):  # type: ignore[no-untyped-def]
    def multiply(vectors: Tensor) -> Tensor:
        calls.append(vectors.shape[-1])
        return matrix @ vectors

    return multiply, lambda vectors: matrix.mT @ vectors


def start(matrix: Tensor, count: int, generator: torch.Generator) -> Tensor:
    shape = (*matrix.shape[:-2], matrix.shape[-1], block_width(count))
    return torch.randn(shape, generator=generator, dtype=matrix.dtype)


def spectra(kind: str, generator: torch.Generator) -> Tensor:
    noise = torch.randn(2, 200, 150, generator=generator, dtype=torch.float64)
    if kind == "flat":
        return noise
    if kind == "rank three":
        return noise[..., :3] @ noise[..., :3].mT[..., :150]
    if kind == "zero":
        return torch.zeros_like(noise)
    return noise * torch.logspace(0, -5, 150, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["flat", "rank three", "zero", "decaying"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_are_those_of_the_dense_svd_within_their_errors(
    kind: str, dtype: torch.dtype, generator: torch.Generator
) -> None:
    matrix = spectra(kind, generator).to(dtype)
    found = top_triplets(*products(matrix, []), start(matrix, 6, generator), 6)
    exact = torch.linalg.svdvals(matrix.double())
    largest = exact[..., :1]
    rounding = 50 * torch.finfo(dtype).eps * largest
    assert ((found.values - exact[..., :6]).abs() <= found.errors + rounding).all()
    assert (found.errors <= 1e-4 * largest + rounding).all()
    # The values themselves are far better than their bound: the error is its square over a gap.
    assert ((found.values - exact[..., :6]).abs() <= 1e-6 * largest + rounding).all()


def test_triplets_reconstruct_what_they_say(generator: torch.Generator) -> None:
    matrix = spectra("decaying", generator)
    left, values, right, errors = top_triplets(*products(matrix, []), start(matrix, 5, generator), 5)
    identity = torch.eye(5, dtype=torch.float64)
    assert torch.allclose(left.mT @ left, identity.expand(2, 5, 5), atol=1e-12)
    assert torch.allclose(right.mT @ right, identity.expand(2, 5, 5), atol=1e-12)
    assert torch.allclose(matrix @ right, left * values.unsqueeze(-2), atol=1e-12)
    residual = torch.linalg.vector_norm(matrix.mT @ left - right * values.unsqueeze(-2), dim=-2)
    assert torch.allclose(residual, errors, atol=1e-12)


@pytest.mark.slow
def test_restarts_keep_going_where_one_basis_is_not_enough(generator: torch.Generator) -> None:
    """Singular values 1 - i/2000: no polynomial of ten blocks tells the first from the second."""
    size = 700
    values = 1 - torch.arange(size, dtype=torch.float64) / 2000
    matrix = (haar(size, size, generator=generator, dtype=torch.float64) * values) @ haar(
        size, size, generator=generator, dtype=torch.float64
    )
    calls: list[int] = []
    found = top_triplets(*products(matrix, calls), start(matrix, 3, generator), 3)
    assert len(calls) > 11
    assert (found.values - values[:3]).abs().max() < 1e-6


def test_a_tighter_tolerance_is_kept(generator: torch.Generator) -> None:
    matrix = spectra("flat", generator)
    found = top_triplets(*products(matrix, []), start(matrix, 3, generator), 3, tolerance=1e-9)
    assert (found.errors <= 1e-9 * found.values[..., :1]).all()


def test_a_block_narrower_than_what_is_asked_for_is_refused(generator: torch.Generator) -> None:
    matrix = spectra("flat", generator)
    with pytest.raises(ValueError, match="6 triplets need a block of at least as many vectors, got 5"):
        top_triplets(*products(matrix, []), start(matrix, 1, generator), 6)
