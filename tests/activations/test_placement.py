"""Activation modules found in a model and replaced in place: by a gain, a leaky slope, or blending."""

import copy
import math
import statistics

import pytest
import torch
from torch import Tensor, nn

from orthoscope.activations import (
    ShapedActivation,
    blend_activations_,
    linearizable_activations,
    shape_activations_,
    shape_leaky_,
)
from orthoscope.models import MLP
from orthoscope.probe import record
from orthoscope.theory import leaky_slope


class Sine(nn.Module):
    """An activation that is not in torch."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.sin()


def mlp(depth: int) -> MLP:
    generator = torch.Generator().manual_seed(0)
    return MLP(depth=depth, width=32, activation="tanh", norm="batch", init="orthogonal", generator=generator)


def batch() -> Tensor:
    return torch.randn(32, 32, generator=torch.Generator().manual_seed(1))


def test_shaping_is_undone_to_the_last_bit() -> None:
    model = mlp(depth=3).eval()
    expected = model(batch())
    before = shape_activations_(model, 0.3)
    assert before == dict.fromkeys(linearizable_activations(model), 1.0)
    assert shape_activations_(model, {"layers.1.activation": 0.5}) == {"layers.1.activation": 0.3}
    assert not torch.allclose(model(batch()), expected)
    assert isinstance(model.layers[1].activation.activation, nn.Tanh), "not shaped twice"
    shape_activations_(model, before)
    assert torch.equal(model(batch()), expected)


def test_what_a_gain_makes_linear_is_found_and_nothing_else() -> None:
    model = nn.Sequential(
        nn.Tanh(), nn.GELU(), Sine(), nn.ELU(), nn.SiLU(), ShapedActivation("relu", 0.5),
        nn.ReLU(), nn.Sigmoid(), nn.SELU(), nn.Softmax(-1), nn.Identity(), nn.Dropout(), nn.Flatten(), nn.Linear(3, 3),
        nn.PReLU(), nn.BatchNorm1d(3), nn.LeakyReLU(),
    )  # fmt: skip
    assert linearizable_activations(model) == ["0", "1", "2", "3", "4", "5"]


def test_one_module_under_two_names_gets_two_gains() -> None:
    shared = nn.Tanh()
    model = nn.Sequential(nn.Linear(4, 4), shared, nn.Linear(4, 4), shared)
    shape_activations_(model, {"1": 0.3, "3": 0.6})
    assert [model[1].gain, model[3].gain] == [0.3, 0.6]


def test_shaping_refuses_unknown_names_and_gain_zero_and_changes_nothing() -> None:
    model = mlp(depth=2)
    with pytest.raises(ValueError, match="no module named 'nonsense'"):
        shape_activations_(model, {"layers.0.activation": 0.5, "nonsense": 0.5})
    with pytest.raises(ValueError, match="other than 0"):
        shape_activations_(model, {"layers.0.activation": 0.5, "layers.1.activation": 0.0})
    assert isinstance(model.layers[0].activation, nn.Tanh)


def test_blending_refuses_unknown_modules_and_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh())
    with pytest.raises(ValueError, match=r"no activation module prints as 'GELU\(\)'.*ReLU\(\), Tanh\(\)"):
        blend_activations_(model, {"ReLU()": 0.5, "GELU()": 0.5})
    assert isinstance(model[1], nn.ReLU)
    assert blend_activations_(model, {"ReLU()": 0.25}) == ["1"]
    assert model[1].negative_slope == 0.75
    assert isinstance(model[2], nn.Tanh)


def test_a_shared_activation_is_replaced_in_all_its_places() -> None:
    shared = nn.ReLU()
    model = nn.Sequential(nn.Linear(4, 4), shared, nn.Sequential(nn.Linear(4, 4), shared), shared)
    assert blend_activations_(model, {"ReLU()": 0.5}) == ["1", "2.1", "3"]
    assert not any(isinstance(module, nn.ReLU) for module in model.modules())


@pytest.mark.slow
def test_networks_made_leaky_have_the_target_cosine() -> None:
    depth, target = 30, 0.7
    slope = leaky_slope(depth, target)
    collapsed, shaped = [], []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        model = MLP(depth=depth, width=256, out_features=None, activation="relu", init="he", generator=generator)
        inputs = torch.randn(16, 256, generator=generator)
        collapsed.append(record(model, inputs).layers[-1].overlap)
        assert len(shape_leaky_(model, slope).activations) == depth
        shaped.append(record(model, inputs).layers[-1].overlap)
    # The noise of 256 units over 30 layers, in the mean of four networks.
    assert statistics.fmean(shaped) == pytest.approx(target, abs=0.05)
    assert min(collapsed) > target + 0.15


@pytest.mark.slow
def test_rescaled_weights_preserve_the_rms() -> None:
    generator = torch.Generator().manual_seed(0)
    model = MLP(depth=20, width=200, out_features=None, activation="relu", init="he", generator=generator)
    inputs = torch.randn(16, 200, generator=generator)
    before = record(model, inputs).layers[-1].rms
    left_alone = copy.deepcopy(model)
    assert shape_leaky_(left_alone, 0.6, rescale=False).weights == {}
    assert record(left_alone, inputs).layers[-1].rms > 10 * before
    change = shape_leaky_(model, 0.6)
    assert len(change.weights) == 19, "all but the layer that reads the data"
    assert change.weight_gain == pytest.approx(math.sqrt(2 / 1.36))
    # Undone: both modules and weights.
    shape_leaky_(model, 0.0)
    assert record(model, inputs).layers[-1].rms == pytest.approx(before, rel=1e-4)


def test_shape_leaky_keeps_inplace_and_training_flags() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3))
    model.add_module("block", nn.Sequential(nn.Conv2d(3, 3, 3), nn.LeakyReLU(0.5)).eval())
    before = model[2].weight.detach().clone()
    change = shape_leaky_(model, 0.2)
    assert change.activations == ("1", "block.1")
    assert change.weights == {"2": pytest.approx(1 / math.sqrt(1.04))}
    assert (model[1].inplace, model[1].training, model.block[1].training) == (True, True, False)
    torch.testing.assert_close(model[2].weight, before / math.sqrt(1.04))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs).relu()


def test_shape_leaky_refuses_and_changes_nothing() -> None:
    model = Functional()
    before = model.linear.weight.detach().clone()
    with pytest.raises(ValueError, match="found no"):
        shape_leaky_(model, 0.3)
    assert torch.equal(model.linear.weight, before)
    with pytest.raises(ValueError, match="between 0"):
        shape_leaky_(nn.Sequential(nn.ReLU()), -0.1)
    frozen = nn.Sequential(nn.ReLU(), torch.nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)))
    with pytest.raises(ValueError, match="rescale=False"):
        shape_leaky_(frozen, 0.3)
    assert isinstance(frozen[0], nn.ReLU)


def test_a_layer_with_two_names_is_rescaled_once() -> None:
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), shared)
    before = shared.weight.detach().clone()
    change = shape_leaky_(model, 0.5)
    assert list(change.weights.values()) == [pytest.approx(0.8**0.5)]
    torch.testing.assert_close(shared.weight.detach(), before * 0.8**0.5)


def test_a_shared_layer_that_needs_two_factors_is_refused_and_nothing_changed() -> None:
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.ReLU(), shared, nn.LeakyReLU(0.3), shared)
    before = shared.weight.detach().clone()
    with pytest.raises(ValueError, match="share a weight"):
        shape_leaky_(model, 0.5)
    assert torch.equal(shared.weight, before)
    assert type(model[1]) is nn.ReLU
