"""Gram factors, contrasts, Haar matrices, weights read as matrices."""

import sys

import pytest
import torch
from torch import nn

from orthoscope.linalg import (
    contrasts,
    gram_factor,
    haar,
    singular_values,
    weight_matrix,
)


@pytest.mark.parametrize("shape", [(4, 9), (5, 5), (7, 3), (3, 4, 9), (1, 6)])
def test_gram_factor_is_lower_triangular_and_keeps_every_inner_product(shape: tuple[int, ...]) -> None:
    hidden = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    factor = gram_factor(hidden)
    exact = hidden.double()
    assert factor.shape == (*shape[:-1], shape[-2])
    assert not factor.triu(1).any()
    assert torch.allclose(factor @ factor.mT, exact @ exact.mT, atol=1e-12)


def test_a_wide_layer_is_factorized_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = gram_factor(hidden)
    monkeypatch.setattr(sys.modules[gram_factor.__module__], "BLOCK_ELEMENTS", 64)
    assert torch.allclose(gram_factor(hidden).abs(), whole.abs(), atol=1e-12)


@pytest.mark.parametrize("samples", [2, 3, 8])
def test_contrasts_are_the_centered_batch_without_its_empty_direction(samples: int) -> None:
    hidden = torch.randn(samples, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 3
    rest = contrasts(hidden)
    centered = hidden - hidden.mean(0)
    assert rest.shape == (samples - 1, 5)
    assert torch.allclose(rest.mT @ rest, centered.mT @ centered, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 6), (9, 4), (4, 9)])
def test_haar_matrices_are_orthonormal_on_their_short_side(shape: tuple[int, int]) -> None:
    matrix = haar(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gram = matrix.mT @ matrix if shape[0] >= shape[1] else matrix @ matrix.mT
    assert matrix.shape == shape
    assert matrix.is_contiguous(), "by rows, as weights are"
    assert torch.allclose(gram, torch.eye(min(shape), dtype=torch.float64), atol=1e-13)


def test_haar_has_the_moments_of_haar_and_plain_qr_has_not() -> None:
    r"""$E W_{ij}^4 = 3/(d(d+2))$, and every entry is symmetric about 0; QR alone leaves a signed diagonal."""
    count, size = 20_000, 4
    generator = torch.Generator().manual_seed(0)
    matrices = haar(size, size, count, generator=generator, dtype=torch.float64)
    fourth = matrices.pow(4).mean((-2, -1))
    assert abs(float(fourth.mean()) - 3 / (size * (size + 2))) < 4 * float(fourth.std()) / count**0.5
    corner = matrices[:, 0, 0]
    error = float(corner.std()) / count**0.5
    assert abs(float(corner.mean())) < 4 * error
    plain = torch.linalg.qr(torch.randn(count, size, size, generator=generator, dtype=torch.float64)).Q[:, 0, 0]
    assert abs(float(plain.mean())) > 20 * error, "without the signs the test must fail"


def test_haar_is_the_same_for_the_same_generator_and_leaves_the_global_one_alone() -> None:
    before = torch.get_rng_state()
    first, second = (haar(5, 3, generator=torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


def test_haar_refuses_an_empty_matrix() -> None:
    with pytest.raises(ValueError, match="at least one row and one column, got 0 x 3"):
        haar(0, 3)


def test_a_convolution_is_read_as_one_filter_a_row() -> None:
    weight = nn.Conv2d(3, 8, 5).weight
    assert torch.equal(weight_matrix(weight)[2], weight[2].flatten())
    assert weight_matrix(nn.Linear(4, 6).weight).shape == (6, 4)
    assert weight_matrix(torch.ones(7)).shape == (1, 7)


def test_singular_values_of_long_thin_matrices_are_those_of_their_gram_factor() -> None:
    matrix = torch.randn(2, 500, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(singular_values(matrix), torch.linalg.svdvals(matrix), atol=1e-12)
