"""The shaped activation is φ(αx)/α, as a module like any other."""

import copy
import math

import pytest
import torch
from torch import nn

from orthoscope.activations import ShapedActivation
from orthoscope.diagnosis.inspection import initial_arguments
from orthoscope.models import MLP
from orthoscope.theory import NoTheory


@pytest.mark.parametrize("inner", [nn.Tanh(), nn.GELU(), nn.ReLU(inplace=True), nn.PReLU(5), "sin", torch.erf])
def test_it_computes_phi_of_gain_x_over_gain_and_leaves_its_input(inner: nn.Module | str) -> None:
    inputs = torch.linspace(-3, 3, 40, dtype=torch.float64).reshape(8, 5)
    before = inputs.clone()
    shaped = ShapedActivation(inner, 0.3).double()
    expected = shaped.activation(0.3 * before) / 0.3
    torch.testing.assert_close(shaped(inputs), expected)
    assert torch.equal(inputs, before)
    assert torch.autograd.gradcheck(shaped, inputs.requires_grad_(True))


def test_the_slope_at_zero_does_not_depend_on_the_gain() -> None:
    for gain in (0.01, 1.0, -3.0):
        zero = torch.zeros(1, requires_grad=True)
        ShapedActivation("tanh", gain)(zero).backward()
        assert zero.grad.item() == pytest.approx(1)


def test_copies_and_checkpoints_behave_as_those_of_any_activation() -> None:
    shaped = ShapedActivation(nn.PReLU(), 0.3)
    assert copy.deepcopy(shaped).gain == 0.3
    assert list(shaped.state_dict()) == ["activation.weight"]
    assert "gain=0.3" in repr(shaped)
    assert ShapedActivation(nn.Tanh(), 0.5).state_dict() == {}, "a checkpoint of the unshaped network still loads"


@pytest.mark.parametrize("gain", [0, math.nan, math.inf])
def test_a_gain_of_zero_or_without_a_value_is_refused(gain: float) -> None:
    with pytest.raises(ValueError, match="a number other than 0"):
        ShapedActivation("tanh", gain)


def test_theory_knows_a_network_made_with_a_gain_and_notices_when_it_changes() -> None:
    model = MLP(depth=3, width=8, activation="tanh", gain=0.3, generator=torch.Generator().manual_seed(0))
    assert initial_arguments(model)["gain"] == 0.3
    model.layers[1].activation.gain = 0.4
    with pytest.raises(NoTheory, match="modules were changed"):
        initial_arguments(model)
