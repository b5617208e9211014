"""The law of the explosion rate, and the gains for which the sum of rates stays bounded."""

import math
import statistics

import pytest
import torch

from orthoscope.chains import Chain
from orthoscope.shaping import GAINS, GainLaw, fit_gain_law, gain_schedule, predicted_rates, simulated_rates
from orthoscope.theory import Hyperparameters, LinearLaw, NoTheory, gaussian_inputs, gradient_growth, nonlinearity


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


def test_the_sum_of_rates_is_bounded_by_the_exponent_and_not_by_less() -> None:
    law = GainLaw(0.0, 0.1, 2.5, 0.0, 4)
    for exponent, grows in ((law.exponent(), False), (0.5 * law.exponent(), True)):
        sums = [law.growth(gain_schedule(depth, exponent)) for depth in (100, 10_000)]
        assert (sums[1] > 3 * sums[0]) is grows
    # Σ ℓ^-1.2 < ζ(1.2) = 5.592
    assert law.growth(gain_schedule(10_000, law.exponent())) < 0.1 * 5.592
    assert gain_schedule(3, 0.5) == [1.0, 2**-0.5, 3**-0.5]


@pytest.mark.parametrize("rates", [[-0.1] * 6, [0.0] * 5 + [0.1], [math.nan] * 6])
def test_without_an_explosion_there_is_no_law(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="nothing to shape"):
        fit_gain_law(GAINS, torch.tensor(rates))


def test_a_rate_that_no_gain_lowers_has_no_exponent() -> None:
    law = fit_gain_law(GAINS, torch.tensor([0.1, 0.11, 0.1, 0.09, 0.1, 0.11]))
    with pytest.raises(ValueError, match="no schedule of gains bounds it"):
        law.exponent()
    with pytest.raises(ValueError, match="positive"):
        GainLaw(0.0, 0.1, 2.0, 0.0, 4).exponent(0.0)


def network(**options: object) -> Hyperparameters:
    return Hyperparameters(**{"activation": nonlinearity("tanh"), "hidden": LinearLaw(256, 1.0), **options})


def test_theory_and_simulation_agree_behind_batch_norm() -> None:
    """Theory is of infinite width: at 16 times as many units as samples it is right to a tenth, and less at 4 times."""
    gains, samples = (0.4, 1.0), 16
    theory = predicted_rates(network(norm="batch"), gaussian_inputs(samples, 256), gains, depth=6)
    measured = simulated_rates(Chain(256, activation="tanh", norm="batch"), gains, samples=samples, depth=40)
    # Both are slopes over the same layers of the same four networks.
    errors = measured.std(0) / math.sqrt(len(measured))
    assert ((measured.mean(0) - theory).abs() < 0.1 * theory + 3 * errors).all()
    assert theory[1].item() == pytest.approx(gradient_growth(samples, activation="tanh"), rel=1e-6)
    assert (measured.mean(0) - theory.flip(0)).abs().min() > 0.3 * theory.min(), "it must tell the gains apart"


def test_theory_and_simulation_agree_behind_layer_norm() -> None:
    gains = (0.5, 1.0)
    theory = predicted_rates(network(norm="layer"), gaussian_inputs(16, 256), gains, depth=6)
    measured = simulated_rates(Chain(256, activation="tanh", norm="layer"), gains, samples=16, depth=40)
    errors = measured.std(0) / math.sqrt(len(measured))
    assert ((measured.mean(0) - theory).abs() < 0.1 * theory + 3 * errors).all()


def test_theory_gives_nearly_the_exponent_that_simulation_gives() -> None:
    samples, gains = 16, (0.5, 0.7, 1.0)
    theory = predicted_rates(network(norm="batch"), gaussian_inputs(samples, 256), (1e-3, *gains), depth=6)
    chain = Chain(256, activation="tanh", norm="batch")
    measured = simulated_rates(chain, (1e-3, *gains), samples=samples, depth=40)
    by_theory = fit_gain_law(gains, theory[1:], theory[0].item())
    by_simulation = fit_gain_law(gains, measured[:, 1:], measured[:, 0].mean().item())
    assert by_theory.linear_rate == pytest.approx(0.5 * math.log((samples - 2) / (samples - 3)), rel=1e-4)
    assert abs(by_theory.power - by_simulation.power) < 0.3
    assert by_theory.power > 1.5


def test_where_theory_has_no_gradients_it_says_so() -> None:
    with pytest.raises(NoTheory, match="simulate or measure"):
        predicted_rates(network(norm="batch", rotation=True), gaussian_inputs(16, 256), (1.0,), depth=4)
