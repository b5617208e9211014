"""The one table of activations: modules, functions and kinks of a name agree."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from orthoscope.activations import ACTIVATIONS, activation, nonlinearity

POINTS = torch.linspace(-6.0, 6.0, 1001, dtype=torch.float64)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_module_and_function_of_an_activation_agree(name: str) -> None:
    module, function = activation(name, gain=1.7), nonlinearity(name, gain=1.7)
    # torch's hard sigmoid has a slope of 1/6 in float32, whatever its inputs are.
    rounding = 1e-7 if name == "hard_sigmoid" else 0.0
    torch.testing.assert_close(module(POINTS), function(POINTS), rtol=0.0, atol=rounding)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_declared_kinks_are_those_that_a_search_finds(name: str) -> None:
    found = nonlinearity(ACTIVATIONS[name].function).kinks
    assert found == pytest.approx(ACTIVATIONS[name].kinks, abs=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_named_activation_keeps_the_shape_and_is_a_new_module(name: str) -> None:
    inputs = torch.linspace(-2, 2, 12).reshape(3, 4)
    assert activation(name)(inputs).shape == inputs.shape
    assert activation(name) is not activation(name)


@pytest.mark.parametrize("name", ["tanh", "sin", "softsign", "elu", "erf"])
@pytest.mark.parametrize("gain", [0.3, 2.0])
def test_gain_computes_phi_of_gain_x_over_gain(name: str, gain: float) -> None:
    inputs = torch.linspace(-3, 3, 31)
    torch.testing.assert_close(activation(name, gain)(inputs), activation(name)(gain * inputs) / gain)


def test_a_small_gain_approaches_the_identity_to_first_order() -> None:
    inputs = torch.linspace(-1, 1, 21, dtype=torch.float64)
    errors = [(activation("tanh", gain)(inputs) - inputs).abs().max() for gain in (0.2, 0.1)]
    assert 3.8 < errors[0] / errors[1] < 4.2, "tanh is odd: the error falls with the square of the gain"


def test_a_gain_leaves_homogeneous_activations_unchanged() -> None:
    inputs = torch.linspace(-1, 1, 21)
    torch.testing.assert_close(activation("relu", 0.25)(inputs), activation("relu")(inputs))


@pytest.mark.parametrize(
    "choice",
    [
        torch.tanh,
        F.tanh,
        nn.Tanh,
        nn.Tanh(),
        lambda: nn.Tanh(),
        lambda x: x.tanh(),
        partial(nn.Tanh),
    ],
)
def test_an_activation_may_be_a_function_a_module_or_a_factory(choice: object) -> None:
    inputs = torch.linspace(-1, 1, 5)
    torch.testing.assert_close(activation(choice)(inputs), inputs.tanh())


def test_a_module_is_copied_so_that_layers_do_not_share_parameters() -> None:
    shared = nn.PReLU()
    assert activation(shared).weight is not shared.weight


def test_mistaken_activations_list_what_is_accepted() -> None:
    with pytest.raises(ValueError, match=r"activation 'rellu' \(did you mean relu\?\): choose one of .*relu.*tanh"):
        activation("rellu")
    with pytest.raises(ValueError, match="a number other than 0"):
        activation("tanh", 0.0)
    with pytest.raises(ValueError, match="but must make"):
        activation(lambda: 3)
