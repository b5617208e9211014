"""What torch's own tests demand of an orthogonal parametrization, and all that a torch module can be put through."""

import copy
import io
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.nn.utils import parametrize

from layers.maps import (
    KINDS,
    MAPS,
    SHAPES,
    close,
    coordinates_of,
    error,
    linear,
    orthonormal,
    parametrization_of,
    plain,
    rounding,
    seeded,
    train,
)
from orthoscope.layers import OrthogonalParametrization, orthogonal

every_map = pytest.mark.parametrize("map", MAPS)
every_kind = pytest.mark.parametrize(("map", "dtype"), KINDS, ids=lambda value: str(value).removeprefix("torch."))
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@every_kind
@every_shape
def test_an_orthonormal_weight_is_kept(map: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    weight = orthonormal(shape, dtype)
    layer = linear(map, shape, dtype)
    assert layer.weight.shape == weight.shape
    assert layer.weight.dtype == dtype
    assert error(layer.weight) < rounding(dtype)
    torch.testing.assert_close(layer.weight.detach(), weight, atol=rounding(dtype), rtol=0)


@every_kind
@every_shape
def test_assigning_an_orthonormal_weight_keeps_it(map: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    layer = linear(map, shape, dtype)
    coordinates = coordinates_of(layer)
    for seed in (1, 2):
        weight = orthonormal(shape, dtype, seed)
        layer.weight = weight
        torch.testing.assert_close(layer.weight.detach(), weight, atol=rounding(dtype), rtol=0)
    assert coordinates_of(layer) is coordinates, "an optimizer holds the coordinates by identity"
    with torch.no_grad():
        layer.weight = orthonormal(shape, dtype, 3)
    torch.testing.assert_close(layer.weight.detach(), orthonormal(shape, dtype, 3), atol=rounding(dtype), rtol=0)


@every_map
def test_assigning_any_other_weight_is_refused_and_changes_nothing(map: str) -> None:
    layer = linear(map, (7, 4))
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"max \|W'W - I\| .*`layer.parametrizations.weight\[0\].nearest\(weight\)`"):
        layer.weight = 2 * orthonormal((7, 4), seed=1)
    with pytest.raises(ValueError, match=r"orthonormal weights only, got one with nan or infinite entries: repair it"):
        layer.weight = torch.full((7, 4), torch.nan)
    with pytest.raises(ValueError, match=r"weights of shape \(7, 4\), got \(5, 5\)"):
        layer.weight = torch.eye(5)
    with pytest.raises(ValueError, match=r"weights of torch.float32, got torch.int64"):
        layer.weight = torch.ones(7, 4, dtype=torch.int64)
    assert torch.equal(layer.weight, before)
    nearest = parametrization_of(layer).nearest(2 * orthonormal((7, 4), seed=1))
    layer.weight = nearest
    torch.testing.assert_close(layer.weight.detach(), orthonormal((7, 4), seed=1), atol=rounding(torch.float32), rtol=0)


@every_map
def test_a_weight_of_another_precision_can_be_assigned(map: str) -> None:
    layer = linear(map, (7, 4))
    layer.weight = orthonormal((7, 4), torch.float64, seed=1)
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(layer.weight.detach(), orthonormal((7, 4), seed=1), atol=rounding(torch.float32), rtol=0)
    layer.weight = orthonormal((7, 4), seed=1).double()  # of double type, orthonormal to single precision
    layer.weight = orthonormal((7, 4), torch.bfloat16, seed=2)
    assert error(layer.weight) < rounding(torch.float32), "the rounding of bfloat16 is undone"


@pytest.mark.slow
@every_kind
@every_shape
def test_training_moves_the_weight_and_it_stays_orthonormal(
    map: str, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    layer = linear(map, shape, dtype)
    before = layer.weight.detach().clone()
    for _ in range(10):
        train(layer, steps=5)
        assert error(layer.weight) < rounding(dtype)
    assert (layer.weight - before).abs().max() > 1e-2


@every_map
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_number_is_plus_or_minus_one_and_training_goes_round_it(map: str, sign: float) -> None:
    layer = nn.Linear(1, 1)
    layer.weight.data.fill_(sign)
    layer.bias.data.zero_()
    orthogonal(layer, map=map)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(torch.ones(1, 1)) - 7).square().sum().backward()
        optimizer.step()
    assert layer.weight.item() == sign
    assert layer.bias.item() > 0.1
    layer.weight = torch.tensor([[-sign]])
    assert layer.weight.item() == -sign


@pytest.mark.slow
@every_map
@every_shape
def test_the_gradient_is_that_of_the_map(map: str, shape: tuple[int, int]) -> None:
    """Against central differences, through the layer."""
    layer = linear(map, shape, torch.float64)
    inputs = torch.randn(3, shape[1], dtype=torch.float64, generator=seeded(5))
    target = torch.randn(3, shape[0], dtype=torch.float64, generator=seeded(6))

    def loss() -> Tensor:
        return (layer(inputs) - target).square().sum()

    loss().backward()
    coordinates = coordinates_of(layer)
    flat, slope = coordinates.data.view(-1), coordinates.grad.view(-1)
    for index in range(flat.numel()):
        values = []
        for step in (1e-5, -2e-5):
            flat[index] += step
            values.append(loss().item())
        flat[index] += 1e-5
        assert abs((values[0] - values[1]) / 2e-5 - slope[index].item()) < 1e-7


@pytest.mark.slow
@every_map
def test_second_derivatives_are_right_through_the_layer(map: str) -> None:
    layer = linear(map, (5, 3), torch.float64)
    inputs = torch.randn(2, 3, dtype=torch.float64, generator=seeded(5))
    names = dict(layer.named_parameters())

    def output(coordinates: Tensor) -> Tensor:
        return functional_call(layer, {**names, "parametrizations.weight.original": coordinates}, (inputs,))

    coordinates = coordinates_of(layer).detach().requires_grad_()
    assert torch.autograd.gradcheck(output, coordinates)
    assert torch.autograd.gradgradcheck(output, coordinates)


@pytest.mark.slow
@every_map
def test_torch_func_transforms_the_layer(map: str) -> None:
    layer = linear(map, (4, 4), torch.float64)
    inputs = torch.randn(6, 4, dtype=torch.float64, generator=seeded(5))
    parameters = {name: value.detach() for name, value in layer.named_parameters()}
    key = "parametrizations.weight.original"

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        return functional_call(layer, parameters, (sample,)).sin().sum()

    total = grad(loss)(parameters, inputs)[key]
    loss(dict(layer.named_parameters()), inputs).backward()
    torch.testing.assert_close(total, coordinates_of(layer).grad)
    each = vmap(grad(loss), in_dims=(None, 0))(parameters, inputs)[key]
    torch.testing.assert_close(each.sum(0), total)
    # An ensemble: vmap over the coordinates.
    stacked = {name: torch.stack([value, 2 * value]) for name, value in parameters.items()}
    ensemble = vmap(grad(loss), in_dims=(0, None))(stacked, inputs)[key]
    alone = grad(loss)({name: 2 * value for name, value in parameters.items()}, inputs)[key]
    torch.testing.assert_close(ensemble, torch.stack([total, alone]))
    curvature = jacrev(grad(loss))(parameters, inputs)[key][key]
    twice = torch.autograd.functional.hessian(lambda value: loss({**parameters, key: value}, inputs), parameters[key])
    torch.testing.assert_close(curvature, twice)


@pytest.mark.slow
def test_compiled_layers_compute_the_same() -> None:
    """In a process of its own: the checks of shapes that run here are nothing the compiler could read."""
    script = Path(__file__).with_name("compiled_layers.py")
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines() == [*MAPS, "convolution", "shaped activation"]


@every_map
def test_the_state_dict_restores_the_weight_bit_for_bit(map: str) -> None:
    layer, other = linear(map, (7, 4)), linear(map, (7, 4), seed=1)
    train(layer)
    state = layer.state_dict()
    assert set(state) == {"bias", "parametrizations.weight.original", f"parametrizations.weight.0.{map}_anchor"}
    assert other.load_state_dict(state) == ([], [])
    assert torch.equal(other.weight, layer.weight)
    third = linear(map, (7, 4), seed=2)
    third.load_state_dict(copy.deepcopy(state), assign=True)
    assert torch.equal(third.weight, layer.weight)


@every_map
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lax"])
def test_coordinates_of_another_map_are_refused_and_nothing_is_loaded(map: str, strict: bool) -> None:
    state = linear(map, (7, 4)).state_dict()
    for other in sorted(set(MAPS) - {map}):
        layer = linear(other, (7, 4), seed=1)
        message = rf"0.weight: the checkpoint has .* map '{map}' and this layer has map '{other}': .* the plain weight"
        with pytest.raises(RuntimeError, match=message) as caught:
            nn.Sequential(layer).load_state_dict({f"0.{key}": value for key, value in state.items()}, strict=strict)
        assert "issing" not in str(caught.value)
        assert "nexpected" not in str(caught.value)
        assert close(layer.weight, orthonormal((7, 4), seed=1))


@every_map
def test_anchors_are_no_parameters(map: str) -> None:
    layer = linear(map, (7, 4))
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert [name for name, _ in layer.named_buffers()] == [f"parametrizations.weight.0.{map}_anchor"]


def roads() -> dict[str, object]:
    def saved(layer: nn.Module) -> nn.Module:
        file = io.BytesIO()
        torch.save(layer, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    return {"deepcopy": copy.deepcopy, "pickle": lambda layer: pickle.loads(pickle.dumps(layer)), "save": saved}


@every_map
@pytest.mark.parametrize("road", roads())
def test_a_copy_is_equal_independent_and_still_a_layer(map: str, road: str) -> None:
    model = nn.Sequential(linear(map, (7, 4)), nn.ReLU())
    train(model[0])
    duplicate = roads()[road](model)
    inputs = torch.randn(3, 4, generator=seeded(1))
    assert torch.equal(duplicate(inputs), model(inputs))
    before = model[0].weight.detach().clone()
    train(duplicate[0])
    assert not torch.equal(duplicate[0].weight, before)
    assert error(duplicate[0].weight) < rounding(torch.float32)
    duplicate[0].weight = orthonormal((7, 4), seed=3)
    parametrize.remove_parametrizations(duplicate[0], "weight")
    assert type(duplicate[0]) is nn.Linear
    assert torch.equal(model[0].weight, before), "torch's copies share a class, and lose the weight here"
    again = roads()[road](roads()[road](model))
    assert torch.equal(again(inputs), model(inputs))


@pytest.mark.parametrize("road", roads())
def test_a_copy_of_a_recurrent_layer_after_use_is_a_layer(road: str) -> None:
    layer = orthogonal(nn.RNN(3, 5), "weight_hh_l0", start="haar", generator=seeded())
    inputs = torch.randn(4, 2, 3, generator=seeded(1))
    expected, _ = layer(inputs)
    duplicate = roads()[road](layer)
    found, _ = duplicate(inputs)
    assert torch.equal(found, expected)
    found.sum().backward()
    assert coordinates_of(duplicate, "weight_hh_l0").grad is not None
    assert coordinates_of(layer, "weight_hh_l0").grad is None


@pytest.mark.parametrize("road", roads())
def test_copies_load_plain_checkpoints_too(road: str) -> None:
    duplicate = roads()[road](linear("householder", (4, 4)))
    weight = orthonormal((4, 4), seed=5)
    duplicate.load_state_dict({"weight": weight, "bias": torch.zeros(4)})
    torch.testing.assert_close(duplicate.weight.detach(), weight, atol=rounding(torch.float32), rtol=0)


class Positive(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return values.exp()


def test_a_module_with_another_parametrization_is_copied_with_both() -> None:
    layer = parametrize.register_parametrization(nn.Bilinear(3, 3, 2), "bias", Positive())
    orthogonal(layer, start="haar", generator=seeded())
    for road in roads().values():
        duplicate = road(layer)
        assert torch.equal(duplicate.weight, layer.weight)
        assert torch.equal(duplicate.bias, layer.bias)


def weight_in_another_process(layer: nn.Module) -> Tensor:
    return layer.weight.detach().clone()


def test_a_layer_reaches_another_process() -> None:
    layer = linear("cayley", (4, 4))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert torch.equal(pool.apply(weight_in_another_process, (layer,)), layer.weight)


@every_map
@every_shape
def test_removing_the_parametrization_leaves_the_weight(map: str, shape: tuple[int, int]) -> None:
    layer = linear(map, shape)
    coordinates, weight = coordinates_of(layer), layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert torch.equal(layer.weight, weight)
    assert layer.weight is coordinates, "the optimizer keeps its parameter"
    # A plain layer again, also for checkpoints: anything loads.
    layer.load_state_dict({"weight": 2 * weight, "bias": layer.bias.detach()})
    assert torch.equal(layer.weight, 2 * weight)
    orthogonal(layer, map=map, start="nearest")
    torch.testing.assert_close(layer.weight.detach(), weight, atol=rounding(torch.float32), rtol=0)


@every_map
def test_a_cached_weight_is_computed_once(map: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = linear(map, (4, 4))
    calls = []
    forward = OrthogonalParametrization.forward
    monkeypatch.setattr(
        OrthogonalParametrization, "forward", lambda self, coordinates: calls.append(1) or forward(self, coordinates)
    )
    inputs = torch.randn(3, 4)
    for _ in range(5):
        inputs = layer(inputs)
    assert len(calls) == 5
    with parametrize.cached():
        for _ in range(5):
            inputs = layer(inputs)
        assert len(calls) == 6
        layer.weight = orthonormal((4, 4), seed=3)
    torch.testing.assert_close(layer.weight.detach(), orthonormal((4, 4), seed=3), atol=rounding(torch.float32), rtol=0)


@every_map
def test_coordinates_are_a_parameter_of_their_own(map: str) -> None:
    """What shares the weight keeps it, and what an optimizer held before is no part of the layer any more."""
    layer, other = plain(4, 4), plain(4, 4)
    other.weight = layer.weight
    held, before = layer.weight, layer.weight.detach().clone()
    held.grad = torch.ones(4, 4)
    orthogonal(layer, map=map, start="haar", generator=seeded())
    assert other.weight is held
    assert torch.equal(other.weight, before)
    weight = layer.weight.detach().clone()
    torch.optim.SGD([held], lr=0.1).step()
    assert torch.equal(layer.weight, weight)
    train(layer)
    assert not torch.equal(layer.weight, weight)
    assert coordinates_of(layer).grad is not None


def test_a_frozen_weight_has_frozen_coordinates_and_a_buffer_stays_one() -> None:
    layer = plain(4, 4)
    layer.weight.requires_grad_(False)
    orthogonal(layer, start="haar", generator=seeded())
    assert not coordinates_of(layer).requires_grad
    module = nn.Module()
    module.register_buffer("weight", orthonormal((4, 4)))
    assert not list(orthogonal(module).parameters())
