"""The law of eigenvalues that layers of finite width spread, against random matrices and the metrics."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope import metrics
from orthoscope.theory.network.spectrum import (
    effective_rank,
    gap_of_overlaps,
    isometry_gap_of_overlaps,
    spread_law,
    typical_spectrum,
)

SPREADS = [1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0]
STATED = 1e-6  # the accuracy that the module states


@pytest.mark.parametrize("spread", SPREADS)
def test_law_has_mass_one_mean_one_its_variance_and_mean_log(spread: float) -> None:
    values, weights = spread_law(spread)
    assert float(weights.sum()) == pytest.approx(1.0, abs=STATED)
    assert float(weights @ values) == pytest.approx(1.0, abs=STATED)
    assert float(weights @ (values - 1).square()) == pytest.approx(spread, rel=STATED)
    assert float(weights @ values.log()) == pytest.approx(-spread / 2, rel=STATED)
    assert bool((values.diff() > 0).all())
    assert bool((weights > 0).all())


@pytest.mark.parametrize("spread", [0.2, 1.0, 4.0])
def test_third_moment_is_that_of_the_free_law(spread: float) -> None:
    r"""$m_k = \tfrac1k [z^{k-1}] (1+z)^k e^{kyz}$ by Lagrange inversion of $e^{-yz}$: $m_3 = 1 + 3y + \tfrac32 y^2$."""
    values, weights = spread_law(spread)
    assert float(weights @ values**3) == pytest.approx(1 + 3 * spread + 1.5 * spread**2, rel=2 * STATED)


SAMPLES, WIDTH, NETWORKS = 24, 600, 400


def eigenvalues_of_products(layers: int, seed: int = 0) -> Tensor:
    r"""Of $d^{-\ell} X^\top W_1^\top \cdots W_\ell^\top W_\ell \cdots X$ for orthonormal samples.

    By Bartlett, a Gaussian $d \times n$ matrix is a rotation times a triangle of Gaussians with
    $\chi_d, \chi_{d-1}, \dots$ on its diagonal.
    """
    generator = torch.Generator().manual_seed(seed)
    product = torch.eye(SAMPLES, dtype=torch.float64).expand(NETWORKS, -1, -1)
    degrees = (WIDTH - torch.arange(SAMPLES, dtype=torch.float64)).expand(NETWORKS, -1)
    for _ in range(layers):
        triangle = torch.randn(NETWORKS, SAMPLES, SAMPLES, generator=generator, dtype=torch.float64).triu(1)
        diagonal = (2 * torch._standard_gamma(degrees / 2, generator=generator)).sqrt()
        product = (triangle + torch.diag_embed(diagonal)) @ product / math.sqrt(WIDTH)
    return torch.linalg.svdvals(product).square()


@pytest.mark.slow
@pytest.mark.parametrize("layers", [5, 25, 100])
def test_products_of_gaussian_matrices_follow_the_law(layers: int) -> None:
    r"""The spread of $\ell$ layers is $y = \ell n/d$, up to $O(1/n + n/d)$."""
    spread = layers * SAMPLES / WIDTH
    eigenvalues = eigenvalues_of_products(layers)
    allowance = 1 / SAMPLES + SAMPLES / WIDTH
    assert float(eigenvalues.log().mean()) == pytest.approx(-spread / 2, rel=allowance)
    pooled = eigenvalues.flatten().sort().values
    assert distance(pooled, spread) < allowance
    assert distance(pooled, 2 * spread) > 0.1, "twice the spread is seen"


def distance(pooled: Tensor, spread: float) -> float:
    """Kolmogorov's, between the sorted eigenvalues and the law."""
    values, weights = spread_law(spread)
    found = torch.searchsorted(pooled, values).double() / len(pooled)
    return float((found - weights.cumsum(0)).abs().max())


@pytest.mark.parametrize("samples", [2, 7, 200])
@pytest.mark.parametrize("overlap", [-0.004, 0.0, 0.3, 0.99])
def test_without_spread_it_is_the_spectrum_of_equal_angles(samples: int, overlap: float) -> None:
    gram = torch.full((samples, samples), overlap, dtype=torch.float64).fill_diagonal_(1.0)
    exact = torch.linalg.eigvalsh(gram)
    assert torch.allclose(typical_spectrum(samples, overlap, 0.0).sort().values, exact, atol=1e-12)


@pytest.mark.parametrize("spread", [1e-5, 0.1, 2.0])
def test_spread_keeps_the_trace_and_the_order(spread: float) -> None:
    samples, overlap = 400, 0.2
    spectrum = typical_spectrum(samples, overlap, spread)
    # The upper tail of the law is cut to as many quantiles as there are samples.
    assert float(spectrum.mean()) == pytest.approx(1.0, rel=2 * (1 + spread) / samples)
    assert bool((spectrum[1:].diff() >= 0).all())
    rest = spectrum[1:] / spectrum[1:].mean()
    assert float(rest.var(correction=0)) == pytest.approx(spread, rel=0.05)


def test_infinite_spread_leaves_one_direction() -> None:
    assert typical_spectrum(9, 0.5, math.inf).tolist() == [5.0] + 8 * [0.0]
    assert effective_rank(9, 0.5, math.inf) == 1.0
    assert isometry_gap_of_overlaps(9, 0.5, math.inf) == math.inf
    assert effective_rank(9, 1.0, 0.3) == 1.0
    assert isometry_gap_of_overlaps(9, 1.0, 0.3) == math.inf


@pytest.mark.parametrize("spread", [999.0, 1e5, 1e9])
def test_enormous_spreads_stay_numbers(spread: float) -> None:
    assert 1.0 <= effective_rank(64, 0.9, spread) < 1.5
    assert isometry_gap_of_overlaps(64, 0.9, spread) == pytest.approx(63 / 64 * spread / 2, rel=0.01)


def hidden_of(gram: Tensor) -> Tensor:
    """Samples with that Gram matrix."""
    values, vectors = torch.linalg.eigh(gram)
    return vectors * values.clamp_min(0).sqrt()


@pytest.mark.parametrize("overlap", [-0.05, 0.0, 0.4, 0.999])
def test_ranks_and_gaps_of_equal_angles_are_those_of_the_metrics(overlap: float) -> None:
    samples = 16
    hidden = hidden_of(torch.full((samples, samples), overlap, dtype=torch.float64).fill_diagonal_(1.0))
    assert effective_rank(samples, overlap, 0.0) == pytest.approx(float(metrics.effective_rank(hidden)), rel=1e-10)
    assert gap_of_overlaps(samples, overlap, 0.0) == pytest.approx(float(metrics.orthogonality_gap(hidden)), rel=1e-10)
    exact = float(metrics.isometry_gap(hidden))
    assert isometry_gap_of_overlaps(samples, overlap, 0.0) == pytest.approx(exact, rel=1e-10, abs=1e-12)


def test_gap_is_the_second_moment_of_the_cosines(generator: torch.Generator) -> None:
    """Exactly, for samples of one length."""
    hidden = torch.randn(10, 30, generator=generator, dtype=torch.float64) + 0.4
    hidden = torch.nn.functional.normalize(hidden, dim=-1)
    pairs = (hidden @ hidden.mT)[*torch.triu_indices(10, 10, 1)]
    found = gap_of_overlaps(10, float(pairs.mean()), float(pairs.var(correction=0)))
    assert found == pytest.approx(float(metrics.orthogonality_gap(hidden)), rel=1e-12)
    assert gap_of_overlaps(10, 0.9, 0.5) == pytest.approx(math.sqrt(0.9)), "never above that of one direction"


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "error"), [(0.4, 0.01), (2.0, 0.02)])
def test_spread_batches_have_the_rank_of_the_metrics(spread: float, error: float) -> None:
    """Products of Gaussian matrices applied to samples of equal overlaps, around which only the rest is spread."""
    overlap = 0.5
    layers = round(spread * WIDTH / SAMPLES)
    rest = eigenvalues_of_products(layers, seed=1) * (1 - overlap)
    first = torch.full((NETWORKS, 1), 1 + SAMPLES * overlap, dtype=torch.float64)
    hidden = torch.diag_embed(torch.cat([first, rest], -1).sqrt())
    found = float(metrics.effective_rank(hidden).mean())
    assert effective_rank(SAMPLES + 1, overlap, spread) == pytest.approx(found, rel=error)
    assert abs(effective_rank(SAMPLES + 1, overlap, 0.0) / found - 1) > 2 * error, "without spread it is off"


def test_dependent_samples_have_an_infinite_isometry_gap_in_spite_of_rounding() -> None:
    assert isometry_gap_of_overlaps(4, -0.33333333333333326, 0.1) == math.inf
    assert isometry_gap_of_overlaps(4, -0.3333, 0.1) < 10


@pytest.mark.parametrize("spread", [0.0, -1.0, math.inf, math.nan])
def test_a_law_without_spread_is_refused(spread: float) -> None:
    with pytest.raises(ValueError, match="the spread is"):
        spread_law(spread)


def test_one_sample_has_no_spectrum() -> None:
    with pytest.raises(ValueError, match="at least 2 samples"):
        typical_spectrum(1, 0.0, 0.1)


SHARES = [0.1, 0.5, 0.9]


def mean_logarithm(spread: float, share: float) -> float:
    r"""$-\int_0^1 \log S(-t)\,dt$ by the midpoint rule, $S(z) = (1 + cz)^{-y/c}$."""
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    return float((1 - share * points).log().mean()) * spread / share


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_law_of_many_samples_has_its_moments_and_mean_log(spread: float, share: float) -> None:
    """The third moment, by Lagrange, has (1 + cz)^(3y/c) in the place of e^(3yz): less by cy/2 · 3/3."""
    values, weights = spread_law(spread, share)
    assert float(weights.sum()) == pytest.approx(1.0, abs=STATED)
    assert float(weights @ values) == pytest.approx(1.0, abs=STATED)
    assert float(weights @ (values - 1).square()) == pytest.approx(spread, rel=STATED)
    third = 1 + 3 * spread + 1.5 * spread**2 - share * spread / 2
    assert float(weights @ values**3) == pytest.approx(third, rel=2 * STATED)
    assert float(weights @ values.log()) == pytest.approx(mean_logarithm(spread, share), rel=1e-5)
    assert bool((values.diff() > 0).all())
    assert bool((weights > 0).all())


@pytest.mark.parametrize("share", SHARES)
def test_one_layer_is_marchenko_and_pastur(share: float) -> None:
    values, _ = spread_law(share, share)
    edges = (1 - math.sqrt(share)) ** 2, (1 + math.sqrt(share)) ** 2
    assert (float(values[0]), float(values[-1])) == pytest.approx(edges, rel=1e-4)


@pytest.mark.parametrize(("samples", "layers"), [(64, 1), (48, 1), (32, 6)])
def test_isometry_gaps_of_nearly_as_many_samples_as_units(
    samples: int, layers: int, generator: torch.Generator
) -> None:
    """As many samples as units are twice as far from an isometry as few are."""
    units, batches = 64, 100
    hidden = torch.randn(batches, samples, units, generator=generator, dtype=torch.float64)
    for _ in range(layers - 1):
        weights = torch.randn(batches, units, units, generator=generator, dtype=torch.float64)
        hidden = hidden @ weights / math.sqrt(units)
    gaps = metrics.isometry_gap(hidden)
    spread = samples * layers / units
    found = isometry_gap_of_overlaps(samples, 0.0, spread, units)
    error = 4 * float(gaps.std()) / math.sqrt(batches) + 2 * layers / samples
    assert float(gaps.mean()) == pytest.approx(found, abs=error)
    assert abs(float(gaps.mean()) - isometry_gap_of_overlaps(samples, 0.0, spread)) > error
    rank = float(metrics.effective_rank(hidden).mean())
    miss, miss_of_few = (effective_rank(samples, 0.0, spread, known) / rank - 1 for known in (units, None))
    assert 0 < miss < 0.04
    assert miss_of_few > 1.5 * miss, "few samples keep more"


def test_half_of_the_spread_is_continuous_in_the_share() -> None:
    few = isometry_gap_of_overlaps(10, 0.0, 1.0)
    by_units = [isometry_gap_of_overlaps(10, 0.0, 1.0, units) for units in (10**9, 100_001, 99_999, 1000, 11, 10)]
    assert by_units[0] == pytest.approx(few, rel=1e-8)
    assert by_units[1] == pytest.approx(by_units[2], rel=1e-6)
    assert by_units == sorted(by_units)
    assert by_units[-1] == pytest.approx(2 * few)


def test_more_samples_than_units_are_refused() -> None:
    with pytest.raises(ValueError, match="5 samples are dependent in 4 dimensions"):
        effective_rank(5, 0.0, 0.3, 4)
    with pytest.raises(ValueError, match="samples a unit"):
        spread_law(1.0, 1.5)
    assert 1 <= effective_rank(5, 0.0, 1e-3, 5) <= 5
