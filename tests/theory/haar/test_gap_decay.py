"""Bounds on the decay of the isometry gap: special values, continuity of meaning, bad input."""

import pytest
import torch

from orthoscope.theory.haar.batch_norm import (
    eigenvalue_radius,
    gap_decay_depth,
    isometry_gap_bound,
    near_isometry,
    next_gap_bound,
    spectral_isometry_gap,
)
from references.haar_cases import random_spectra


def gap(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("width", [2, 3, 5, 10, 50])
def test_eigenvalues_are_within_the_radius_of_lemma_c_8(width: int, generator: torch.Generator) -> None:
    spectra = random_spectra(width, 4000, generator)
    gaps = spectral_isometry_gap(spectra)
    near = (gaps <= near_isometry(width)) & (gaps > 1e-10)  # below that the gap itself is rounding
    assert near.sum() > 1000
    deviation = (spectra[near] - 1).abs().amax(-1)
    ratio = deviation / eigenvalue_radius(width, gaps[near])
    assert float(ratio.max()) <= 1
    assert float(ratio.max()) > 0.95 * (2 * (1 - 1 / width)) ** 0.5 / 4, "one outlier reaches sqrt(2(1-1/d))/4 of it"


def test_eigenvalues_at_the_threshold_are_within_four_tenths(generator: torch.Generator) -> None:
    r"""What the proof of Lemma C.9 needs: $\psi \le 1/(16d)$ gives $|\lambda - 1| \le 0.4$."""
    for width in (2, 5, 20):
        spectra = random_spectra(width, 4000, generator)
        near = spectral_isometry_gap(spectra) <= near_isometry(width)
        largest = float((spectra[near] - 1).abs().max())
        assert 0.2 < largest < 0.4


def test_decay_depth_is_the_smaller_rate_of_the_two_phases() -> None:
    assert gap_decay_depth(10, gap(0.0, 1 / 160, 1.0)).tolist() == pytest.approx([200, 200, 32_000])
    for width in (2, 3, 30):
        gaps = gap(0.0, 0.01, 1.0, 100.0)
        assert (gap_decay_depth(width, gaps) <= 32 * width**2 * (1 + width * gaps)).all()


def test_bound_follows_from_the_bound_of_one_layer() -> None:
    r"""$e^{-1/k} \ge$ the factor of Lemma C.9 at the initial gap and at every smaller one."""
    for width in (2, 5, 20):
        initial = torch.logspace(-6, 2, 50, dtype=torch.float64)
        for fraction in (1.0, 0.5, 0.01):
            current = initial * fraction
            factor = next_gap_bound(width, current) / current
            assert (factor <= isometry_gap_bound(width, initial, 1) / initial).all()
    assert isometry_gap_bound(7, gap(0.3), 0).item() == 0.3


def test_an_infinite_gap_stays_infinite() -> None:
    infinite = gap(torch.inf)
    assert isometry_gap_bound(4, infinite, 100).item() == torch.inf
    assert next_gap_bound(4, infinite).item() == torch.inf


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="width is 2 or more here, got 1"):
        near_isometry(1)
    with pytest.raises(ValueError, match="gap is 0 or more, got -1"):
        next_gap_bound(3, gap(-1.0))
    with pytest.raises(ValueError, match="gap is 0 or more, got nan"):
        gap_decay_depth(3, gap(torch.nan))
    with pytest.raises(ValueError, match="depth is 0 or more layers, got -1"):
        isometry_gap_bound(3, gap(0.1), -1)
    with pytest.raises(ValueError, match=r"up to 1/\(16 width\) = 0.02083, got 0.1"):
        eigenvalue_radius(3, gap(0.1))
