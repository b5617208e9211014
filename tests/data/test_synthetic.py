"""Synthetic samples have their documented statistics; every test rejects the obvious alternative."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.data import gaussians, images, tokens


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def z_score(estimates: Tensor, value: float) -> float:
    """How many standard errors the mean of independent estimates is away from a value."""
    error = estimates.double().std() / math.sqrt(len(estimates))
    return float((estimates.double().mean() - value).abs() / error)


def pair_cosines(overlap: float, units: int, pairs: int) -> Tensor:
    batches = torch.stack([gaussians(2, units, overlap, seeded(seed)) for seed in range(pairs)])
    return torch.cosine_similarity(batches[:, 0], batches[:, 1], dim=-1)


@pytest.mark.parametrize("overlap", [0.0, 0.3, 0.9])
def test_the_mean_cosine_of_gaussians_is_the_overlap(overlap):
    cosines = pair_cosines(overlap, units=2000, pairs=200)
    assert z_score(cosines, overlap) < 4
    assert z_score(cosines, overlap + 0.03) > 4, "the test must be able to reject a cosine off by 0.03"


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0.0, 0.5])
@pytest.mark.parametrize("units", [100, 1600])
def test_the_realized_cosine_fluctuates_as_one_over_root_units(overlap, units):
    spread = pair_cosines(overlap, units, pairs=1000).std().item()
    # The standard deviation of a standard deviation from 1000 draws is 1/sqrt(2000) = 2.2 %.
    assert spread == pytest.approx((1 - overlap**2) / math.sqrt(units), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0.0, 0.8])
def test_every_unit_of_every_sample_is_standard_normal(overlap):
    units = torch.stack([gaussians(3, 4, overlap, seeded(seed)) for seed in range(4000)])[:, 1, 2]
    assert z_score(units, 0) < 4
    assert z_score(units.square(), 1) < 4
    assert z_score(units**4, 3) < 4, "the fourth moment of a standard normal number is 3"


@pytest.mark.parametrize("overlap", [-0.1, 1.0, 1.5, math.nan])
def test_an_overlap_no_batch_can_have_is_refused(overlap):
    with pytest.raises(ValueError, match=rf"overlap is {overlap}"):
        gaussians(4, 8, overlap)


def spectral_slope(fields: Tensor) -> Tensor:
    """Slope of log power against log frequency, one a set of images, between the lowest and highest waves."""
    height, width = fields.shape[-2:]
    frequency = torch.hypot(torch.fft.fftfreq(height).unsqueeze(-1), torch.fft.rfftfreq(width))
    inside = (frequency > 1.5 / max(height, width)) & (frequency < 0.5)
    power = torch.fft.rfft2(fields).abs().square().mean((1, 2))[:, inside].log()
    x = frequency[inside].log()
    x = x - x.mean()
    return (power @ x) / x.square().sum()


@pytest.mark.parametrize(("height", "width"), [(32, 32), (24, 41)])
def test_images_have_power_one_over_frequency_squared(height, width):
    sets = torch.stack([images(8, 3, height, width, seeded(seed)) for seed in range(16)])
    slopes = spectral_slope(sets)
    assert z_score(slopes, -2) < 4
    assert z_score(slopes, -1.9) > 4, "the test must be able to reject a slope of -1.9"


def test_the_mean_square_of_a_set_of_images_is_one():
    for seed in range(4):
        fields = images(6, 3, 16, 20, seeded(seed))
        assert fields.shape == (6, 3, 16, 20)
        assert fields.dtype == torch.float32
        assert fields.square().mean().item() == pytest.approx(1, rel=1e-5)


def test_global_average_pooling_separates_images_but_not_white_noise():
    def pooled_variance(fields: Tensor) -> Tensor:
        return fields.mean((-2, -1)).square().flatten()

    noise = torch.randn(200, 3, 32, 32, generator=seeded(0))
    assert z_score(pooled_variance(noise), 1 / 1024) < 4
    # Power at frequency 0 over all power, from the formula in the docstring.
    frequency = torch.hypot(torch.fft.fftfreq(32).unsqueeze(-1), torch.fft.fftfreq(32)).clamp_min(1 / 32)
    share = (1024 / frequency.pow(-2).sum()).item()
    assert share > 30 / 1024
    assert z_score(pooled_variance(images(200, 3, 32, 32, seeded(0))), share) < 4


def test_channels_and_samples_of_images_are_independent():
    fields = images(400, 2, 8, 8, seeded(0))
    between_channels = (fields[:, 0] * fields[:, 1]).mean((-2, -1))
    between_samples = (fields[::2] * fields[1::2]).mean((-3, -2, -1))
    assert z_score(between_channels, 0) < 4
    assert z_score(between_samples, 0) < 4


def test_tokens_are_uniform_over_the_vocabulary():
    ids = tokens(200, 50, 7, seeded(0))
    assert ids.shape == (200, 50)
    assert ids.dtype == torch.int64
    counts = ids.flatten().bincount(minlength=7).double()
    expected = 200 * 50 / 7
    chi_square = ((counts - expected).square() / expected).sum().item()
    assert len(counts) == 7
    assert chi_square < 30, "6 degrees of freedom: 30 is exceeded once in 25 000 runs"


@pytest.mark.parametrize("make", [lambda g: gaussians(4, 8, 0.5, g), lambda g: images(2, 3, 8, 8, g)])
def test_equal_generators_make_equal_samples_and_different_ones_do_not(make):
    assert torch.equal(make(seeded(3)), make(seeded(3)))
    assert not torch.equal(make(seeded(3)), make(seeded(4)))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: gaussians(0, 8), "samples"),
        (lambda: images(2, 3, 0, 8), "height"),
        (lambda: tokens(2, 3, -1), "vocabulary"),
    ],
)
def test_a_size_below_one_is_refused_by_its_name(make, name):
    with pytest.raises(ValueError, match=f"{name} is (0|-1), but must be at least 1"):
        make()
