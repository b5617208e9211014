"""Gains found by measuring a model, and put in place."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.layers import ShapedActivation
from orthoscope.models import MLP
from orthoscope.probe import record
from orthoscope.shaping import choose_gains, linearisable_activations, measured_rates, shape_activations_
from orthoscope.shaping.rates import recorded_rate


class Sine(nn.Module):
    """Nobody has heard of it."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.sin()


def mlp(activation: object = "tanh", depth: int = 24, **options: object) -> MLP:
    settings = {"norm": "batch", "init": "orthogonal", "width": 32, "generator": torch.Generator().manual_seed(0)}
    return MLP(depth=depth, activation=activation, **{**settings, **options})


def batch(samples: int = 32) -> Tensor:
    return torch.randn(samples, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("activation", ["tanh", Sine])
def test_a_model_that_explodes_is_bounded_by_the_gains_it_is_given(activation: object) -> None:
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


def test_shaping_can_be_taken_back_to_the_last_bit() -> None:
    model = mlp(depth=3).eval()
    expected = model(batch())
    before = shape_activations_(model, 0.3)
    assert before == dict.fromkeys(linearisable_activations(model), 1.0)
    assert shape_activations_(model, {"layers.1.activation": 0.5}) == {"layers.1.activation": 0.3}
    assert not torch.allclose(model(batch()), expected)
    assert isinstance(model.layers[1].activation.activation, nn.Tanh), "not shaped twice"
    shape_activations_(model, before)
    assert torch.equal(model(batch()), expected)


def test_rates_fall_with_the_gain_and_the_model_stays() -> None:
    model = mlp()
    rates = measured_rates(model, batch(), (0.3, 0.6, 1.0))
    assert (rates.diff() > 0).all()
    assert rates[-1].item() == pytest.approx(recorded_rate(record(model, batch())))


def test_what_a_gain_makes_linear_is_found_and_nothing_else() -> None:
    model = nn.Sequential(
        nn.Tanh(), nn.GELU(), Sine(), nn.ELU(), nn.SiLU(), ShapedActivation("relu", 0.5),
        nn.ReLU(), nn.Sigmoid(), nn.SELU(), nn.Softmax(-1), nn.Identity(), nn.Dropout(), nn.Flatten(), nn.Linear(3, 3),
        nn.PReLU(), nn.BatchNorm1d(3), nn.LeakyReLU(),
    )  # fmt: skip
    assert linearisable_activations(model) == ["0", "1", "2", "3", "4", "5"]


def test_one_module_under_two_names_gets_two_gains() -> None:
    shared = nn.Tanh()
    model = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared)
    shape_activations_(model, {"1": 0.3, "3": 0.6})
    assert [model[1].gain, model[3].gain] == [0.3, 0.6]


class Functional(nn.Module):
    def __init__(self, act: nn.Module | None = None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.act = act

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            hidden = F.tanh(layer(hidden)) if self.act is None else self.act(layer(hidden))
        return hidden


def test_where_gains_cannot_be_given_the_reason_is_said_and_nothing_changes() -> None:
    with pytest.raises(ValueError, match=r"functions called inside forward cannot be replaced.*found: Linear"):
        choose_gains(Functional(), batch())
    with pytest.raises(ValueError, match="act is called more than once"):
        choose_gains(Functional(nn.Tanh()), batch())
    with pytest.raises(ValueError, match="do not feel a gain"):
        choose_gains(mlp("relu", depth=4), batch())
    model = mlp(depth=2)
    with pytest.raises(ValueError, match="no module named 'nonsense'"):
        shape_activations_(model, {"layers.0.activation": 0.5, "nonsense": 0.5})
    with pytest.raises(ValueError, match="other than 0"):
        shape_activations_(model, {"layers.0.activation": 0.5, "layers.1.activation": 0.0})
    assert isinstance(model.layers[0].activation, nn.Tanh)


def test_gradients_that_do_not_explode_are_left_alone() -> None:
    with pytest.raises(ValueError, match="nothing to shape"):
        choose_gains(mlp(norm="none", init="gaussian", depth=12), batch())
