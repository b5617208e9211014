"""One layer of the batch-norm chain, in numbers: against mpmath, closed forms and sampling."""

import math

import mpmath
import pytest
import torch
from torch import Tensor

from orthoscope.theory.chain.batch_norm import (
    gap_contraction,
    gap_squared_after_layer,
    mean_squared_singular_values,
    stationary_gap,
    stationary_gap_squared,
    stationary_log_gap,
)
from orthoscope.theory.chain.spectrum import energy_shares, spectral_orthogonality_gap
from references.batch_norm_cases import gap_of_gram, layer, mean_and_error, next_gram, random_spectra

ACCURACY = 1e-13  # measured 2e-15


def by_mpmath(singular_values: list[float]) -> list[mpmath.mpf]:
    """The integral over θ as it stands in the paper, to 30 digits."""
    with mpmath.workdps(30):
        energies = [mpmath.mpf(value) ** 2 for value in singular_values]
        breaks = [0, *sorted({1 / energy for energy in energies}), mpmath.inf]
        return [
            mpmath.quad(
                lambda θ, one=energy: (
                    one / (1 + 2 * θ * one) / mpmath.sqrt(mpmath.fprod(1 + 2 * θ * e for e in energies))
                ),
                breaks,
                maxdegree=12,
            )
            for energy in energies
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        [3.0],
        [1.0, 1e-6],
        [1.0, 1e-6, 1e-6, 1e-6],
        [1.0, 1.0, 1.0, 1e-6],
        [1.0, 0.03, 1e-3, 2e-5, 1e-6],
        [0.5, 0.7, 0.9],
    ],
)
def test_mean_spectrum_agrees_with_mpmath_however_far_the_values_spread(values: list[float]) -> None:
    found = mean_squared_singular_values(torch.tensor(values, dtype=torch.float64))
    for value, expected in zip(found.tolist(), by_mpmath(values), strict=True):
        assert abs(value / expected - 1) < ACCURACY


@pytest.mark.parametrize("samples", [1, 2, 3, 8, 64, 1000])
def test_equal_values_stay_equal(samples: int) -> None:
    found = mean_squared_singular_values(torch.full((samples,), 7.0))
    torch.testing.assert_close(found, torch.full((samples,), 1 / samples, dtype=torch.float64), rtol=ACCURACY, atol=0)


def test_two_values_have_a_closed_form(generator: torch.Generator) -> None:
    r"""$p_1 = \sigma_1/(\sigma_1+\sigma_2)$: the angle of $(\sigma_1 w_1, \sigma_2 w_2)$ is a stretched uniform one."""
    values = random_spectra(1000, 2, generator)
    expected = values / values.sum(-1, keepdim=True)
    torch.testing.assert_close(mean_squared_singular_values(values), expected, rtol=ACCURACY, atol=0)


def test_two_blocks_of_two_have_a_closed_form() -> None:
    r"""For $\lambda = (a, a, b, b)$, $r = b/a$: $2p_1 = \mathbb{E}[U/(U + r(1-U))] = 1/(1-r) + r\log r/(1-r)^2$."""
    ratios = torch.tensor([1e-12, 1e-6, 0.01, 0.3, 0.7], dtype=torch.float64)
    values = torch.stack([torch.ones_like(ratios)] * 2 + [ratios.sqrt()] * 2, -1)
    expected = 1 / (1 - ratios) + ratios * ratios.log() / (1 - ratios).square()
    torch.testing.assert_close(2 * mean_squared_singular_values(values)[:, 0], expected, rtol=ACCURACY, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [2, 3, 5, 16, 60])
def test_mean_spectrum_sums_to_one_keeps_the_order_and_forgets_scale(samples: int, generator: torch.Generator) -> None:
    values = random_spectra(1000, samples, generator)
    found = mean_squared_singular_values(values)
    assert float((found.sum(-1) - 1).abs().max()) < ACCURACY
    order = values.argsort(-1)
    assert bool((found.gather(-1, order).diff(dim=-1) >= 0).all())
    # Scaling rounds the values: relative errors of a few units in the last place.
    torch.testing.assert_close(mean_squared_singular_values(1e5 * values), found, rtol=ACCURACY, atol=0)
    torch.testing.assert_close(
        mean_squared_singular_values(values.reshape(4, 250, samples)).reshape(1000, samples),
        found,
        rtol=ACCURACY,
        atol=0,
    )


def test_a_zero_value_stays_zero_and_does_not_count() -> None:
    values = torch.tensor([1.0, 0.0, 0.3, 0.0, 0.2], dtype=torch.float64)
    found = mean_squared_singular_values(values)
    assert found[[1, 3]].tolist() == [0, 0]
    kept = mean_squared_singular_values(values[[0, 2, 4]])
    torch.testing.assert_close(found[[0, 2, 4]], kept, rtol=ACCURACY, atol=0)


def test_mean_spectrum_is_the_mean_of_the_chain(generator: torch.Generator) -> None:
    """Against the definition, all weights drawn: the Gram in the basis of right singular vectors."""
    hidden = torch.randn(8, 4, generator=generator, dtype=torch.float64) * torch.tensor([1, 0.5, 0.2, 0.1])
    _, values, right = torch.linalg.svd(hidden, full_matrices=False)
    turned = layer(hidden.expand(20_000, 8, 4), generator) @ right.mT
    mean, error = mean_and_error((turned.mT @ turned).diagonal(dim1=-2, dim2=-1))
    assert bool(((mean - mean_squared_singular_values(values)).abs() < 4 * error).all())
    assert bool(((mean - energy_shares(values)).abs() > 20 * error).all()), "a layer that changes nothing must fail"


def test_squared_gap_after_a_layer_is_exact(generator: torch.Generator) -> None:
    """At a width where the noise of the rows is most of it, and against all weights."""
    hidden = torch.randn(6, 3, generator=generator, dtype=torch.float64) * torch.tensor([1, 0.5, 0.2])
    gaps = spectral_orthogonality_gap(torch.linalg.svdvals(layer(hidden.expand(20_000, 6, 3), generator)))
    mean, error = mean_and_error(gaps.square())
    values = torch.linalg.svdvals(hidden)
    assert abs(mean - gap_squared_after_layer(values, 6)) < 4 * error
    assert abs(mean - gap_squared_after_layer(values, 10**9)) > 20 * error, "the noise must matter"


def test_fast_draws_of_the_gram_have_the_law_of_the_chain(generator: torch.Generator) -> None:
    """What the longer simulations rest on: two layers by definition, two by the Gram."""
    start = torch.diag(torch.tensor([1.0, 0.5, 0.2], dtype=torch.float64))
    hidden = torch.cat([start, torch.zeros(3, 3)]).expand(20_000, 6, 3)
    slow = torch.linalg.svdvals(layer(layer(hidden, generator), generator)).square()
    gram = start.square().expand(20_000, 3, 3)
    fast = torch.linalg.eigvalsh(next_gram(next_gram(gram, 6, generator), 6, generator)).flip(-1)
    for power in (1, 2):
        (one, error), (other, other_error) = mean_and_error(slow**power), mean_and_error(fast**power)
        assert bool(((one - other).abs() < 4 * (error.square() + other_error.square()).sqrt()).all())


@pytest.mark.parametrize("samples", [2, 3, 8, 30])
def test_small_deviations_contract_alike_in_every_direction(samples: int, generator: torch.Generator) -> None:
    """Relative error 0.1 %, from the second order of a deviation of 1e-4."""
    deviation = torch.randn(100, samples, generator=generator, dtype=torch.float64)
    deviation = 1e-4 * (deviation - deviation.mean(-1, keepdim=True)) / samples
    found = mean_squared_singular_values((1 / samples + deviation).sqrt()) - 1 / samples
    expected = gap_contraction(samples) * deviation
    assert float(((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max()) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "width"), [(2, 64), (4, 128), (8, 256), (16, 512)])
def test_gap_floor_is_the_closed_form_within_three_per_cent(batch: int, width: int, generator: torch.Generator) -> None:
    """Standard errors are below 0.86 %, so a closed form off by 7 % would fail at four of them past the 3 %."""
    chains, burn_in, layers = 200_000 // (batch * width), 2 * (batch + 2), 80
    gram = torch.eye(batch, dtype=torch.float64).expand(chains, batch, batch) / batch
    gaps = []
    for index in range(burn_in + layers):
        gram = next_gram(gram, width, generator)
        if index >= burn_in:
            gaps.append(gap_of_gram(gram))
    by_chain = torch.stack(gaps, 1)
    for measured, predicted, allowed in (
        (by_chain.mean(1), stationary_gap(batch, width), 0.03),
        (by_chain.square().mean(1), stationary_gap_squared(batch, width), 0.03),
        (1 + by_chain.log().mean(1) - stationary_log_gap(batch, width), 1.0, 0.03),
    ):
        mean, error = (float(number) / predicted for number in mean_and_error(measured))
        assert abs(mean - 1) < allowed
        assert error < allowed / 3.5, f"{mean} ± {error}: too few draws to see {allowed}"


@pytest.mark.parametrize(("width", "plateau"), [(32, -1.63), (512, -3.03)])
def test_plateaus_of_figure_two_of_daneshmand2021_are_the_mean_log_gap(width: int, plateau: float) -> None:
    """Four samples; measured to two digits. At width 32 the next order, a relative 1/32 of the square, is 0.015."""
    assert abs(stationary_log_gap(4, width) - plateau) < 0.005 + 0.5 / width


def test_gap_squared_of_four_samples_matches_the_printed_value() -> None:
    assert 512 * stationary_gap_squared(4, 512) == pytest.approx(1.35)


def test_floor_is_the_fixed_point_of_contraction_and_noise() -> None:
    for batch in (2, 5, 40):
        width = 10_000
        value = stationary_gap_squared(batch, width)
        assert gap_contraction(batch) ** 2 * value + (1 - 1 / batch) / width == pytest.approx(value, rel=1e-12)
        assert stationary_log_gap(batch, width) < math.log(stationary_gap(batch, width)) < math.log(value) / 2


def test_bad_input_is_refused_in_a_sentence() -> None:
    for values, message in (
        (torch.tensor([1.0, -1.0]), "finite, at least 0"),
        (torch.tensor([1.0, math.inf]), "finite, at least 0"),
        (torch.zeros(0), "at least one"),
        (torch.zeros(3), "has no direction"),
    ):
        with pytest.raises(ValueError, match=message):
            mean_squared_singular_values(values)
    with pytest.raises(ValueError, match="8 samples cannot be orthogonal in 4 dimensions"):
        stationary_gap(8, 4)
    with pytest.raises(ValueError, match="give at least 2"):
        gap_contraction(1)
    with pytest.raises(ValueError, match="width is 0"):
        gap_squared_after_layer(torch.ones(3), 0)
    with pytest.raises(ValueError, match="2 samples have at most 2 singular values, 3"):
        spectral_orthogonality_gap(torch.ones(3), samples=2)


def test_gap_of_a_spectrum_is_that_of_its_matrix(generator: torch.Generator) -> None:
    hidden: Tensor = torch.randn(50, 4, 7, generator=generator, dtype=torch.float64)  # 7 samples of 4 units
    gram = hidden.mT @ hidden
    expected = gap_of_gram(gram / gram.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None])
    torch.testing.assert_close(spectral_orthogonality_gap(torch.linalg.svdvals(hidden), samples=7), expected)
