"""Gains chosen from explosion rates: measured on a model, simulated for random networks, predicted by theory."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.activations import ShapedActivation, fit_gain_law, nonlinearity, shape_activations_
from orthoscope.chains import Chain
from orthoscope.models import MLP
from orthoscope.prescriptions import choose_gains, measured_rates, predicted_rates, simulated_rates
from orthoscope.prescriptions.gains import recorded_rate
from orthoscope.probe import record
from orthoscope.theory import Hyperparameters, LinearLaw, NoTheory, gaussian_inputs, gradient_growth

pytestmark = pytest.mark.slow


class Sine(nn.Module):
    """An activation that is not in torch."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.sin()


def mlp(activation: object = "tanh", depth: int = 24, **options: object) -> MLP:
    settings = {"norm": "batch", "init": "orthogonal", "width": 32, "generator": torch.Generator().manual_seed(0)}
    return MLP(depth=depth, activation=activation, **{**settings, **options})


def batch(samples: int = 32) -> Tensor:
    return torch.randn(samples, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("activation", ["tanh", Sine])
def test_chosen_gains_bound_exploding_gradients(activation: object) -> None:
    model = mlp(activation)
    before = copy.deepcopy(model.state_dict())
    found = choose_gains(model, batch())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(isinstance(module, ShapedActivation) for module in model.modules())
    assert list(found.gains) == [f"layers.{index}.activation" for index in range(24)]
    assert found.gains["layers.15.activation"] == pytest.approx(16**-found.exponent)
    unshaped = 23 * recorded_rate(record(model, batch()))
    assert found.growth_unshaped == pytest.approx(unshaped, rel=0.25)
    shape_activations_(model, found.gains)
    assert 23 * recorded_rate(record(model, batch())) < 0.3 * unshaped
    assert found.exponent * found.law.power > 1


def test_measured_rates_fall_with_the_gain_and_leave_the_model_unchanged() -> None:
    model = mlp()
    rates = measured_rates(model, batch(), (0.3, 0.6, 1.0))
    assert (rates.diff() > 0).all()
    assert rates[-1].item() == pytest.approx(recorded_rate(record(model, batch())))


class Functional(nn.Module):
    def __init__(self, act: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.act = act

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            hidden = F.tanh(layer(hidden)) if self.act is None else self.act(layer(hidden))
        return hidden


def test_models_that_gains_cannot_help_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"functions called inside forward cannot be replaced.*found: Linear"):
        choose_gains(Functional(), batch())
    with pytest.raises(ValueError, match="act is called more than once"):
        choose_gains(Functional(nn.Tanh()), batch())
    with pytest.raises(ValueError, match="do not change with a gain"):
        choose_gains(mlp("relu", depth=4), batch())


def test_gradients_that_do_not_explode_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to shape"):
        choose_gains(mlp(norm="none", init="gaussian", depth=12), batch())


def network(**options: object) -> Hyperparameters:
    return Hyperparameters(**{"activation": nonlinearity("tanh"), "hidden": LinearLaw(256, 1.0), **options})


def test_theory_and_simulation_agree_with_batch_norm() -> None:
    """Theory is of infinite width: at 16 times as many units as samples it is right to a tenth, and less at 4 times."""
    gains, samples = (0.4, 1.0), 16
    theory = predicted_rates(network(norm="batch"), gaussian_inputs(samples, 256), gains, depth=6)
    measured = simulated_rates(Chain(256, activation="tanh", norm="batch"), gains, samples=samples, depth=40)
    # Both are slopes over the same layers of the same four networks.
    errors = measured.std(0) / math.sqrt(len(measured))
    assert ((measured.mean(0) - theory).abs() < 0.1 * theory + 3 * errors).all()
    assert theory[1].item() == pytest.approx(gradient_growth(samples, activation="tanh"), rel=1e-6)
    assert (measured.mean(0) - theory.flip(0)).abs().min() > 0.3 * theory.min(), "it must tell the gains apart"


def test_theory_and_simulation_agree_with_layer_norm() -> None:
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


def test_theory_without_gradients_is_refused() -> None:
    with pytest.raises(NoTheory, match="simulate or measure"):
        predicted_rates(network(norm="batch", rotation=True), gaussian_inputs(16, 256), (1.0,), depth=4)
