"""Distances to the Gaussian: against the general formula for Gaussian laws, with matrix square roots."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from orthoscope.theory.chain.batch_norm import stationary_gap_squared
from orthoscope.theory.chain.bounds import (
    expected_gap_bound,
    stationary_wasserstein,
    wasserstein_bound,
    wasserstein_bound_of_gap,
    wasserstein_to_gaussian,
)
from orthoscope.theory.chain.spectrum import spectral_orthogonality_gap
from references.batch_norm_cases import random_spectra


def test_distance_is_that_of_two_gaussian_laws(generator: torch.Generator) -> None:
    r"""$\operatorname{tr}(A + B - 2(A^{1/2}BA^{1/2})^{1/2})$ of the two covariances, of $dn$-vectors."""
    for units, samples in ((3, 2), (5, 3), (4, 4)):
        hidden = torch.randn(units, samples, generator=generator, dtype=torch.float64)
        hidden = hidden / hidden.norm()
        one = np.kron(np.eye(units), (hidden.mT @ hidden).numpy()) / units
        other = np.eye(units * samples) / (samples * units)
        root = sqrtm(one)
        expected = np.trace(one + other - 2 * sqrtm(root @ other @ root)).real
        found = wasserstein_to_gaussian(torch.linalg.svdvals(hidden))
        assert float(found.square()) == pytest.approx(expected, rel=1e-9)


def test_orthogonal_samples_are_gaussian_and_collapsed_ones_far_away() -> None:
    assert float(wasserstein_to_gaussian(torch.ones(9))) < 1e-15
    one_direction = torch.tensor([2.0, 0, 0, 0])
    assert float(wasserstein_to_gaussian(one_direction)) == pytest.approx(1.0)  # 2 - 2/√4, in square


@pytest.mark.parametrize("samples", [2, 4, 16])
def test_distance_lies_between_its_bounds_by_the_gap(samples: int, generator: torch.Generator) -> None:
    """Near orthogonality it is half of the upper bound; the lower one is reached only as samples collapse."""
    values = random_spectra(1000, samples, generator)
    gap, distance = spectral_orthogonality_gap(values), wasserstein_to_gaussian(values)
    upper = wasserstein_bound_of_gap(gap, samples)
    assert bool((distance <= upper).all())
    assert bool((upper <= (2 * samples * gap).sqrt()).all()), "the printed lemma follows"
    assert bool((distance >= gap / (1 + samples**-0.5)).all())
    nearly_equal = distance[500:750] / upper[500:750]
    assert float((nearly_equal - 0.5).abs().max()) < 0.02
    assert float((distance / upper).max()) > 0.55, "and more than half far from orthogonality"


def test_corollary_bounds_the_square_so_its_radius_falls_as_the_fourth_root() -> None:
    depth, weakest = 10**6, 0.2
    near, far = (wasserstein_bound(4, width, depth, weakest) for width in (10**4, 16 * 10**4))
    assert near / far == pytest.approx(2)
    assert wasserstein_bound(4, 100, 7, weakest) ** 2 == pytest.approx(8 * expected_gap_bound(4, 100, 7, weakest))


def test_true_radius_falls_as_the_square_root() -> None:
    assert stationary_wasserstein(4, 100) / stationary_wasserstein(4, 1600) == pytest.approx(4)
    assert stationary_wasserstein(4, 100) ** 2 == pytest.approx(stationary_gap_squared(4, 100))
