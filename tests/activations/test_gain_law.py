"""The law of the explosion rate, and the gains by layer for which the sum of rates stays bounded."""

import math
import statistics

import pytest
import torch

from orthoscope.activations import GAINS, GainLaw, fit_gain_law, gain_schedule


def test_an_exact_power_is_found_exactly_and_its_exponent_has_the_margin() -> None:
    rates = torch.tensor([0.01 + 0.08 * gain**2.5 for gain in GAINS], dtype=torch.float64)
    law = fit_gain_law(GAINS, rates, linear_rate=0.01)
    assert (law.scale, law.power) == (pytest.approx(0.08), pytest.approx(2.5))
    assert law.power_error < 1e-12
    assert law.exponent(0.1) == pytest.approx(1.1 / 2.5)
    assert law.rate(0.5) == pytest.approx(0.01 + 0.08 * 0.5**2.5)


def test_the_fit_is_that_of_the_standard_library() -> None:
    rates = torch.rand(len(GAINS), generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    law = fit_gain_law(GAINS, rates)
    line = statistics.linear_regression([math.log(g) for g in GAINS], [math.log(r) for r in rates.tolist()])
    assert (math.log(law.scale), law.power) == (pytest.approx(line.intercept), pytest.approx(line.slope))


def test_the_interval_of_the_power_covers_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    logs = torch.tensor(GAINS, dtype=torch.float64).log()
    noise = 0.1 * torch.randn(400, len(GAINS), generator=generator, dtype=torch.float64)
    laws = [fit_gain_law(GAINS, (2.0 * logs + row).exp()) for row in noise]
    covered = sum(law.power_interval[0] < 2.0 < law.power_interval[1] for law in laws)
    assert 0.92 * 400 < covered < 0.98 * 400


def test_networks_that_disagree_widen_the_interval() -> None:
    powers = torch.tensor([2.0, 2.4, 3.0], dtype=torch.float64)
    rates = torch.tensor(GAINS, dtype=torch.float64) ** powers[:, None]
    law = fit_gain_law(GAINS, rates)
    assert law.freedom == 2
    assert law.power_error == pytest.approx(float(powers.std()) / math.sqrt(3))


@pytest.mark.slow
def test_the_sum_of_rates_is_bounded_by_the_exponent_and_not_by_less() -> None:
    law = GainLaw(0.0, 0.1, 2.5, 0.0, 4)
    for exponent, grows in ((law.exponent(), False), (0.5 * law.exponent(), True)):
        sums = [law.growth(gain_schedule(depth, exponent)) for depth in (100, 10_000)]
        assert (sums[1] > 3 * sums[0]) is grows
    # Σ ℓ^-1.2 < ζ(1.2) = 5.592
    assert law.growth(gain_schedule(10_000, law.exponent())) < 0.1 * 5.592
    assert gain_schedule(3, 0.5) == [1.0, 2**-0.5, 3**-0.5]


@pytest.mark.parametrize("rates", [[-0.1] * 6, [0.0] * 5 + [0.1], [math.nan] * 6])
def test_without_exploding_gradients_there_is_no_law(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="nothing to shape"):
        fit_gain_law(GAINS, torch.tensor(rates))


def test_a_rate_that_no_gain_lowers_has_no_exponent() -> None:
    law = fit_gain_law(GAINS, torch.tensor([0.1, 0.11, 0.1, 0.09, 0.1, 0.11]))
    with pytest.raises(ValueError, match="no schedule of gains bounds it"):
        law.exponent()
    with pytest.raises(ValueError, match="positive"):
        GainLaw(0.0, 0.1, 2.0, 0.0, 4).exponent(0.0)
