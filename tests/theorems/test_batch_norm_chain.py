"""daneshmand2021: batch norm makes samples orthogonal. Every bound on at least 1000 cases, and how close it comes."""

import math

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import gap_contraction, mean_squared_singular_values
from orthoscope.theory.chain.bounds import (
    average_instability_bound,
    expected_gap_bound,
    gap_bound_of_weakest,
    gram_variance,
    mean_field_weakest_gap_bound,
    sharp_expected_gap_bound,
    stationary_wasserstein,
    wasserstein_bound,
    wasserstein_to_gaussian,
    weakest_gap_bound,
)
from orthoscope.theory.chain.spectrum import spectral_orthogonality_gap
from references.batch_norm_cases import gap_of_gram, mean_and_error, next_gram, random_spectra

ROUNDING = 1e-12
SAMPLES = [2, 3, 5, 16]


def weakest_gaps(spectra: Float[Tensor, "*cases samples"]) -> Float[Tensor, "*cases"]:
    return 1 / spectra.shape[-1] - spectra.square().amin(-1)


def draws_of_gram(spectra: Tensor, width: int, draws: int, generator: torch.Generator) -> Tensor:
    """(draws, cases, samples, samples), in the basis of the right singular vectors."""
    gram = torch.diag_embed(spectra.square())
    return torch.stack([next_gram(gram, width, generator) for _ in range(draws)])


@pytest.mark.parametrize("samples", SAMPLES)
def test_gap_is_bounded_by_the_weakest_direction(samples: int, generator: torch.Generator) -> None:
    """Lemma 4, equal when all energy but the least is in one direction; 2n loses at most a factor 2√2 on it."""
    spectra = random_spectra(1000, samples, generator)
    bound = gap_bound_of_weakest(weakest_gaps(spectra), samples)
    gap = spectral_orthogonality_gap(spectra)
    assert bool((gap <= bound + ROUNDING).all())
    assert bool((bound <= 2 * samples * weakest_gaps(spectra)).all()), "the printed lemma follows"
    weakest = torch.rand(1000, generator=generator, dtype=torch.float64) / samples
    rest = weakest[:, None].expand(1000, samples - 1)
    extreme = torch.cat([1 - (samples - 1) * weakest[:, None], rest], -1).sqrt()
    torch.testing.assert_close(
        spectral_orthogonality_gap(extreme), gap_bound_of_weakest(1 / samples - weakest, samples)
    )


@pytest.mark.parametrize("samples", SAMPLES)
def test_weakest_direction_gains_at_infinite_width(samples: int, generator: torch.Generator) -> None:
    """Lemma 8 with the constant of its proof: exact to first order where the other directions are equal."""
    spectra = random_spectra(1000, samples, generator)
    after = 1 / samples - mean_squared_singular_values(spectra).amin(-1)
    before = weakest_gaps(spectra)
    bound = mean_field_weakest_gap_bound(before, samples)
    assert bool((after <= bound + ROUNDING).all())
    assert bool((bound <= (1 - 2 / 3 * (1 / samples - before)) * before + ROUNDING).all()), "the printed lemma follows"
    shares = torch.full((samples,), (1 + 1e-4 / (samples - 1)) / samples, dtype=torch.float64)
    shares[0] = (1 - 1e-4) / samples
    gained = shares[0] - mean_squared_singular_values(shares.sqrt())[0]
    promised = mean_field_weakest_gap_bound(1 / samples - shares[0], samples) - (1 / samples - shares[0])
    assert float(promised / gained) == pytest.approx(1, abs=1e-3), "two thirds would promise less"


def test_integrand_of_the_weakest_direction_is_convex_in_its_lack() -> None:
    r"""Lemma 10, of the integral: $f_n = p_n/\sigma_n^2$ with all others equal, by second differences."""
    for samples in SAMPLES:
        lack = torch.linspace(0, 0.999 / samples, 400, dtype=torch.float64)
        shares = (1 / samples + lack / (samples - 1))[:, None].repeat(1, samples)
        shares[:, 0] = 1 / samples - lack
        ratio = mean_squared_singular_values(shares.sqrt())[:, 0] / shares[:, 0]
        assert float(ratio.diff(n=2).min()) > 0
        slope = (ratio[1] - ratio[0]) / lack[1]
        assert float(slope) == pytest.approx(2 * samples / (samples + 2), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "width"), [(2, 4), (4, 8), (6, 12)])
def test_gram_scatters_by_its_exact_variance(samples: int, width: int, generator: torch.Generator) -> None:
    """Lemmas 6 and 7 on 1000 spectra: an equality, at most 1 - 1/n of the printed 1/d, and a bound for the weakest."""
    # Away from collapse, where rare rows would make up the variance and 100 draws not see them.
    spectra = random_spectra(1000, samples, generator) + 0.1
    spectra = spectra / spectra.norm(dim=-1, keepdim=True)
    gram = draws_of_gram(spectra, width, 100, generator)
    expected = mean_squared_singular_values(spectra)
    predicted = gram_variance(spectra, width)
    scatter, error = mean_and_error((gram - torch.diag_embed(expected)).square().sum((-2, -1)))
    z = (scatter - predicted) / error
    assert float(z.abs().max()) < 6
    assert abs(float(z.mean())) < 0.2
    assert float((scatter / predicted).mean() - 1) < 0.02
    assert bool((predicted <= (1 - 1 / samples) / width + ROUNDING).all())
    assert float(predicted.max() * width) > 0.99 * (1 - 1 / samples)

    lowest = torch.linalg.eigvalsh(gram)[..., 0]
    moved, moved_error = mean_and_error((lowest - expected.amin(-1)).square())
    assert bool((moved <= predicted + 5 * moved_error).all())
    assert float(((moved - 5 * moved_error) / predicted).max()) > 0.15, "and is within a few times of it"


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "width"), [(2, 4), (4, 16), (6, 30)])
def test_weakest_direction_gains_at_finite_width(samples: int, width: int, generator: torch.Generator) -> None:
    """Theorem 5 on 1000 spectra, with the constants of its proof. At its best it is twice the truth."""
    spectra = random_spectra(1000, samples, generator)
    spectra = (spectra + 1e-4) / (spectra + 1e-4).norm(dim=-1, keepdim=True)  # for the Cholesky factor of the draws
    lowest = torch.linalg.eigvalsh(draws_of_gram(spectra, width, 100, generator))[..., 0]
    after, error = mean_and_error(1 / samples - lowest)
    before = weakest_gaps(spectra)
    bound = weakest_gap_bound(before, samples, width)
    assert bool((after <= bound + 5 * error).all())
    printed = (1 - 2 / 3 * (1 / samples - before)) * before + width**-0.5
    assert bool((bound < printed).all()), "the printed theorem follows"
    assert float(((after - 5 * error) / bound).max()) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("samples", SAMPLES)
def test_gap_of_infinite_width_obeys_the_theorem(samples: int, generator: torch.Generator) -> None:
    """Theorem 1 and Corollary 3 with A1 on the square, from 1000 first layers, at their weakest."""
    depth, width = 6, 10**30
    spectra = [random_spectra(1000, samples, generator)]
    weakest = spectra[0].square().amin(-1).clamp_max(1 / samples)  # equal values round
    for _ in range(depth - 1):
        spectra.append(mean_squared_singular_values(spectra[-1]).sqrt())
        assert bool((spectra[-1].amin(-1) >= spectra[-2].amin(-1) - ROUNDING).all()), "A1 holds with the first layer's"
    for layer in (1, 2, depth):
        gaps = spectral_orthogonality_gap(spectra[layer - 1])
        for gap, energy in zip(gaps.tolist(), weakest.tolist(), strict=True):
            sharp = sharp_expected_gap_bound(samples, width, layer, energy)
            assert gap <= sharp + ROUNDING
            assert sharp <= expected_gap_bound(samples, width, layer, energy)
    for distance, energy in zip(wasserstein_to_gaussian(spectra[-1]).tolist(), weakest.tolist(), strict=True):
        assert distance <= wasserstein_bound(samples, width, depth, energy)


@pytest.mark.parametrize("samples", SAMPLES)
def test_rate_of_the_theorem_is_the_true_one_for_nearly_orthogonal_samples(samples: int) -> None:
    bounds = [sharp_expected_gap_bound(samples, 10**30, depth, 1 / samples) for depth in (1, 2)]
    assert bounds[1] / bounds[0] == pytest.approx(gap_contraction(samples), rel=1e-9)
    assert bounds[0] == pytest.approx(math.sqrt((samples - 1) / samples))


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "width"), [(2, 1024), (3, 2048)])
def test_gap_of_finite_width_obeys_the_theorem(samples: int, width: int, generator: torch.Generator) -> None:
    """100 chains that all have A1 with the least energy seen; the sharp bound is 4 to 9 times the truth."""
    depth, chains = 15, 100
    first = torch.linspace(1, 0.6, samples, dtype=torch.float64)
    gram = torch.diag(first.square() / first.square().sum()).expand(chains, samples, samples)
    weakest, gaps = [], []
    for _ in range(depth):
        gram = next_gram(gram, width, generator)
        weakest.append(float(torch.linalg.eigvalsh(gram).min()))
        gaps.append(gap_of_gram(gram))
    energy = min(weakest[:-1])
    for layer in (1, 2, 5, depth):
        mean, error = mean_and_error(gaps[layer - 1])
        sharp = sharp_expected_gap_bound(samples, width, layer, energy)
        assert float(mean) + 4 * float(error) < sharp < 0.9
        assert sharp < expected_gap_bound(samples, width, layer, energy)
    assert float(mean) > sharp / 10


def test_chain_without_assumption_is_near_orthogonal_or_collapsed_on_average(generator: torch.Generator) -> None:
    """Appendix B.1 from 1000 inputs, one chain each."""
    samples, width, depth = 4, 64, 20
    spectra = random_spectra(1336, samples, generator)[:1002]
    gram = torch.diag_embed(spectra.square())
    products = []
    for _ in range(depth):
        lack = 1 / samples - torch.linalg.eigvalsh(gram)[:, 0]
        products.append(lack * (1 / samples - lack))
        gram = next_gram(gram, width, generator)
    mean = torch.stack(products).mean()
    bound = average_instability_bound(width, depth, float(weakest_gaps(spectra).mean()))
    assert bound / 20 < float(mean) < bound, "true, and within a factor of 20"


@pytest.mark.slow
def test_distance_from_the_gaussian_settles_at_the_predicted_floor(generator: torch.Generator) -> None:
    """Root mean square over 600 chains and 20 layers: standard error below 1 %."""
    samples, width, chains = 4, 128, 600
    gram = torch.eye(samples, dtype=torch.float64).expand(chains, samples, samples) / samples
    squares = []
    for index in range(35):
        gram = next_gram(gram, width, generator)
        if index >= 15:
            squares.append(wasserstein_to_gaussian(torch.linalg.eigvalsh(gram).sqrt()).square())
    mean, error = mean_and_error(torch.stack(squares, 1).mean(1))
    predicted = stationary_wasserstein(samples, width)
    assert abs(float(mean.sqrt()) / predicted - 1) < 0.03
    assert float(error / mean) / 2 < 0.01


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="at most 1/4"):
        expected_gap_bound(4, 100, 3, 0.26)
    with pytest.raises(ValueError, match="depth is 0"):
        sharp_expected_gap_bound(4, 100, 0, 0.2)
    with pytest.raises(ValueError, match="5 samples cannot be orthogonal in 3 dimensions"):
        weakest_gap_bound(torch.tensor(0.1), 5, 3)
    with pytest.raises(ValueError, match="give at least 1 of each"):
        average_instability_bound(0, 3, 0.1)
