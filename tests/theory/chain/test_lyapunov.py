"""Products of Gaussian matrices: exponents against a simulation that never multiplies them out."""

import math

import mpmath
import pytest
import torch

from orthoscope.theory.chain.spectrum import (
    collapse_rate,
    collapsed_gap,
    lyapunov_exponents,
    spectral_orthogonality_gap,
)
from references.batch_norm_cases import mean_and_error


def log_diagonals(width: int, depth: int, chains: int, generator: torch.Generator) -> torch.Tensor:
    """Logs of the diagonal of R summed over layers, (chains, width), by QR of W Q at every layer."""
    frame = torch.eye(width, dtype=torch.float64).expand(chains, width, width)
    total = torch.zeros(chains, width, dtype=torch.float64)
    for _ in range(depth):
        weight = torch.randn(chains, width, width, generator=generator, dtype=torch.float64) / width**0.5
        frame, triangle = torch.linalg.qr(weight @ frame)
        total += triangle.diagonal(dim1=-2, dim2=-1).abs().log()
    return total


@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_exponents_are_those_of_products_of_gaussian_matrices(width: int, generator: torch.Generator) -> None:
    depth = 50
    mean, error = mean_and_error(log_diagonals(width, depth, 400, generator) / depth)
    exponents = lyapunov_exponents(width)
    assert bool(((mean - exponents).abs() < 4 * error).all())
    # What Lemma A.8 prints for log σ² is what holds for log σ: a factor 2 must be seen.
    assert bool(((mean - 2 * exponents).abs() > 10 * error).all())


def test_singular_values_of_a_product_grow_at_the_exponents(generator: torch.Generator) -> None:
    """Not the diagonal of R but the values themselves, over the layers where they have parted and float64 has them."""
    width, first, last = 3, 10, 26
    product = torch.eye(width, dtype=torch.float64).expand(5000, width, width)
    logs = []
    for _ in range(last):
        product = torch.randn(5000, width, width, generator=generator, dtype=torch.float64) / width**0.5 @ product
        logs.append(torch.linalg.svdvals(product).log())
    mean, error = mean_and_error((logs[last - 1] - logs[first - 1]) / (last - first))
    assert bool(((mean - lyapunov_exponents(width)).abs() < 4 * error).all())
    assert float(error.max()) < 0.01


def test_exponents_agree_with_mpmath_and_move_with_the_variance() -> None:
    found = lyapunov_exponents(6, weight_variance=1.0)
    expected = [float((mpmath.log(2) + mpmath.digamma(mpmath.mpf(6 - i) / 2)) / 2) for i in range(6)]
    assert found.tolist() == pytest.approx(expected, rel=1e-14)
    torch.testing.assert_close(lyapunov_exponents(6), found - math.log(6) / 2)
    assert bool((found.diff() < 0).all()), "largest first: digamma increases"


def test_energy_of_wide_layers_is_nearly_kept() -> None:
    r"""$\log\sigma_1$ falls as $-1/(2d)$ a layer for variance $1/d$: $\Psi(x) = \log x - 1/(2x) - \dots$"""
    assert 1000 * float(lyapunov_exponents(1000)[0]) == pytest.approx(-0.5, rel=1e-3)


def test_gap_approaches_its_largest_value_at_the_collapse_rate(generator: torch.Generator) -> None:
    """Two units: the ratio of singular values from determinant and norm, which lose nothing at any depth."""
    depth, chains = 60, 4000
    product = torch.eye(2, dtype=torch.float64).expand(chains, 2, 2)
    log_ratio = torch.zeros(chains, dtype=torch.float64)
    for _ in range(depth):
        weight = torch.randn(chains, 2, 2, generator=generator, dtype=torch.float64)
        product = weight @ product
        norm = product.norm(dim=(-2, -1), keepdim=True)
        log_ratio += 2 * torch.linalg.det(weight).abs().log() - 4 * norm.flatten().log()
        product = product / norm
    # σ₂²/σ₁² = det²/‖·‖⁴ up to a relative σ₂²/σ₁².
    mean, error = mean_and_error(log_ratio / depth)
    offset = 2 / depth  # log of what multiplies exp(-δℓ) is of order 1
    assert abs(float(mean) + collapse_rate(2)) < offset + 4 * float(error)
    assert collapse_rate(2) == pytest.approx(2 * math.log(2))
    ratio = torch.tensor(1e-5, dtype=torch.float64)
    lack = collapsed_gap(2) - spectral_orthogonality_gap(torch.stack([torch.ones_like(ratio), ratio.sqrt()]))
    assert float(lack) == pytest.approx(float(ratio) / collapsed_gap(2), rel=1e-4)


def test_collapse_takes_about_as_many_layers_as_units() -> None:
    assert 1000 * collapse_rate(1000) == pytest.approx(1, rel=2e-3)


def test_largest_gap_is_that_of_one_direction() -> None:
    for batch in (2, 7):
        one = torch.eye(batch, dtype=torch.float64)[0]
        assert collapsed_gap(batch) == pytest.approx(float(spectral_orthogonality_gap(one)), rel=1e-12)


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="width is 0"):
        lyapunov_exponents(0)
    with pytest.raises(ValueError, match=r"weight_variance is 0\.0"):
        lyapunov_exponents(3, weight_variance=0.0)
    with pytest.raises(ValueError, match="second direction"):
        collapse_rate(1)
    with pytest.raises(ValueError, match="batch is 1"):
        collapsed_gap(1)
