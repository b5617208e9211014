"""One place for names, and the gain that brings an activation to the identity."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from orthoscope.models.activations import ACTIVATIONS, activation
from orthoscope.models.normalisations import MAP_NORMS, VECTOR_NORMS, map_norm, vector_norm


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


def test_homogeneous_activations_do_not_feel_the_gain() -> None:
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


@pytest.mark.parametrize("name", VECTOR_NORMS)
def test_vector_norms_agree_with_map_norms_on_maps_of_one_pixel(name: str) -> None:
    inputs = torch.randn(16, 6, generator=torch.Generator().manual_seed(0)) + 1
    maps = map_norm(name, 6)(inputs[:, :, None, None])
    torch.testing.assert_close(vector_norm(name, 6)(inputs), maps[:, :, 0, 0])


@pytest.mark.parametrize("name", VECTOR_NORMS)
def test_norms_have_parameters_only_when_asked(name: str) -> None:
    assert list(vector_norm(name, 6).parameters()) == []
    assert list(map_norm(name, 6).parameters()) == []
    affine = len(list(vector_norm(name, 6, affine=True).parameters()))
    assert affine == {"batch": 2, "layer": 2, "rms": 1}.get(name, 0)


def test_uncentred_batch_norm_gives_every_unit_mean_square_one_and_keeps_directions() -> None:
    inputs = torch.randn(8, 5, 3, 3, generator=torch.Generator().manual_seed(0)) + 2
    outputs = map_norm("batch-uncentred", 5)(inputs)
    torch.testing.assert_close(outputs.square().mean((0, 2, 3)), torch.ones(5))
    ratios = outputs / inputs
    torch.testing.assert_close(ratios, ratios[:1, :, :1, :1].expand_as(ratios))


def test_unknown_norms_list_the_known() -> None:
    for make, table in ((vector_norm, VECTOR_NORMS), (map_norm, MAP_NORMS)):
        with pytest.raises(ValueError, match=f"unknown normalisation 'group': choose one of {', '.join(table)}"):
            make("group", 4)
