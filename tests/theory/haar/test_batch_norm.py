"""One layer of batch norm after Haar weights: exact values against closed forms, mpmath and samples."""

import mpmath  # type: ignore[import-untyped]
import pytest
import torch

from orthoscope.linalg import haar
from orthoscope.metrics import isometry_gap
from orthoscope.theory.haar.batch_norm import (
    expected_haar_gap,
    haar_contraction,
    haar_gap_bound,
    haar_isometry_gain,
    haar_variance_gap_bound,
    spectral_isometry_gap,
)
from references.haar_cases import batch_norm, normalized_inputs, random_spectra, spectrum_of


def test_the_gap_of_a_spectrum_is_the_metric(generator: torch.Generator) -> None:
    hidden = normalized_inputs(5, 100, generator)
    difference = spectral_isometry_gap(spectrum_of(hidden)) - isometry_gap(hidden.mT)
    assert float(difference.abs().max()) < 1e-11  # condition numbers go up to about 1e5: measured 8e-13


def test_two_eigenvalues_have_a_closed_form(generator: torch.Generator) -> None:
    r"""The mean of $\log(a\cos^2 + b\sin^2)$ over angles is $2\log\frac{\sqrt a+\sqrt b}{2}$."""
    spectra = random_spectra(2, 1000, generator)
    closed_form = spectral_isometry_gap(spectra) + 2 * (spectra.sqrt().sum(-1) / 2).log()
    assert float((expected_haar_gap(spectra) - closed_form).abs().max()) < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", [[2.5, 0.4, 0.1], [3.9, 0.05, 0.04, 0.01], [1.1, 0.9, 1.0, 1.0, 1.2, 0.8]])
def test_expected_gap_agrees_with_mpmath(spectrum: list[float]) -> None:
    d = len(spectrum)

    def integrand(t: mpmath.mpf) -> mpmath.mpf:
        other = mpmath.fprod(1 / mpmath.sqrt(1 + t * mpmath.mpf(value)) for value in spectrum)
        return ((1 + t) ** (-mpmath.mpf(d) / 2) - other) / t

    mean_log = mpmath.quad(integrand, [0, 0.01, 0.1, 1, 10, 100, 10_000, mpmath.inf])
    eigenvalues = torch.tensor(spectrum, dtype=torch.float64)
    expected = float(spectral_isometry_gap(eigenvalues)) + float(mean_log)
    assert float(expected_haar_gap(eigenvalues)) == pytest.approx(expected, abs=1e-12)


def test_expected_gap_is_the_mean_over_sampled_weights(generator: torch.Generator) -> None:
    hidden = batch_norm(torch.randn(5, 5, generator=generator, dtype=torch.float64))
    weights = haar(5, 5, 20_000, generator=generator, dtype=torch.float64)
    gaps = isometry_gap(batch_norm(weights @ hidden).mT)
    error = float(gaps.std()) / len(gaps) ** 0.5
    predicted = float(expected_haar_gap(spectrum_of(hidden)))
    assert abs(float(gaps.mean()) - predicted) < 4 * error
    before = float(spectral_isometry_gap(spectrum_of(hidden)))
    assert abs(float(gaps.mean()) - haar_contraction(5) * before) > 10 * error, "far from isometry the factor differs"


@pytest.mark.parametrize("width", [2, 5, 20, 100])
def test_contraction_is_the_limit_of_the_exact_gap_near_isometry(width: int, generator: torch.Generator) -> None:
    deviation = torch.randn(50, width, generator=generator, dtype=torch.float64)
    deviation = deviation - deviation.mean(-1, keepdim=True)
    for size, tolerance in ((1e-2, 2e-2), (1e-4, 2e-4)):
        spectra = 1 + size * deviation
        ratio = expected_haar_gap(spectra) / spectral_isometry_gap(spectra)
        assert float((ratio - haar_contraction(width)).abs().max()) < tolerance  # the error is first order


def test_orthogonal_samples_stay_as_they_are() -> None:
    spectrum = torch.ones(7)
    for bound in (expected_haar_gap, haar_gap_bound, haar_variance_gap_bound):
        assert float(bound(spectrum)) == 0
    assert float(haar_isometry_gain(spectrum)) == 1


def test_almost_dependent_samples_give_a_finite_gap() -> None:
    spectrum = torch.tensor([3.0 - 2e-200, 1e-200, 1e-200], dtype=torch.float64)
    before = float(spectral_isometry_gap(spectrum))
    assert 0 < before - float(expected_haar_gap(spectrum)) < 2


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="width is 1 or more, got 0"):
        haar_contraction(0)
    with pytest.raises(ValueError, match="all positive"):
        expected_haar_gap(torch.tensor([2.0, 0.0]))
    with pytest.raises(ValueError, match="add up to 2, got a sum off by 1"):
        haar_isometry_gain(torch.tensor([2.0, 1.0]))
