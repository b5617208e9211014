"""What breaks other libraries works here. Where torch breaks, its failure is shown beside."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from layers.maps import MAPS, coordinates_of, error, linear, orthonormal, rounding, seeded, train
from orthoscope.init.weights import weight_blocks
from orthoscope.layers import orthogonal

every_map = pytest.mark.parametrize("map", MAPS)


def trained_with_decay(layer: nn.Module, steps: int) -> nn.Module:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2, weight_decay=0.1)
    train(layer, steps, optimizer)
    return layer


@pytest.mark.slow
@every_map
def test_weight_decay_leaves_an_orthonormal_weight(map: str) -> None:
    layer = trained_with_decay(linear(map, (7, 4)), steps=200)
    assert error(layer.weight) < rounding(torch.float32)
    assert (layer.weight - orthonormal((7, 4))).abs().max() > 0.1


def test_weight_decay_zeroes_the_weight_of_torchs_householder_layer() -> None:
    layer = parametrizations.orthogonal(nn.Linear(4, 7), orthogonal_map="householder", use_trivialization=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained_with_decay(layer, steps=1)
    assert (layer.weight == 0).all()


@every_map
def test_zero_coordinates_are_an_orthonormal_weight(map: str) -> None:
    layer = linear(map, (7, 4))
    coordinates_of(layer).data.zero_()
    assert error(layer.weight) < rounding(torch.float32)
    (layer.weight * torch.randn(7, 4, generator=seeded())).sum().backward()
    assert coordinates_of(layer).grad.isfinite().all()


@every_map
def test_nan_coordinates_give_nan_not_a_finite_weight(map: str) -> None:
    layer = linear(map, (7, 4))
    coordinates_of(layer).data.fill_(torch.nan)
    assert layer.weight.isnan().any()


@every_map
@pytest.mark.parametrize("shape", [(6, 6), (7, 4)], ids=["square", "tall"])
def test_bfloat16_layers_work_and_keep_their_base(map: str, shape: tuple[int, int]) -> None:
    layer = linear(map, shape).bfloat16()
    inputs = torch.randn(3, shape[1], generator=seeded(1)).bfloat16()
    layer(inputs).float().square().sum().backward()
    assert coordinates_of(layer).grad.dtype == torch.bfloat16
    assert error(layer.weight) < rounding(torch.bfloat16)
    layer.float()
    assert error(layer.weight) < rounding(torch.float32), "no rounding of bfloat16 is left in the base"
    torch.testing.assert_close(layer.weight.detach(), orthonormal(shape), atol=0.05, rtol=0)


def test_bfloat16_breaks_torchs_layers() -> None:
    for map in ("householder", "cayley"):
        layer = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map=map).bfloat16()
        with pytest.raises(RuntimeError, match="not implemented for 'BFloat16'"):
            layer(torch.ones(1, 4, dtype=torch.bfloat16))


@every_map
def test_autocast_leaves_the_weight_in_full_precision(map: str) -> None:
    layer, torchs = linear(map, (32, 32)), parametrizations.orthogonal(nn.Linear(32, 32))
    for each in (layer, torchs):
        train(each, steps=3)
    with torch.autocast("cpu", torch.bfloat16):
        assert error(layer.weight) < rounding(torch.float32, rows=32)
        assert error(torchs.weight.float()) > 1e-4


def test_a_convolution_is_orthogonal_as_a_matrix_not_kernel_by_kernel() -> None:
    ours, torchs = nn.Conv2d(8, 16, 3), nn.Conv2d(8, 16, 3)
    orthogonal(ours, start="haar", generator=seeded())
    parametrizations.orthogonal(torchs)
    assert error(weight_blocks(ours)) < rounding(torch.float32, rows=72)
    assert error(weight_blocks(torchs)) > 1
    assert error(torchs.weight) < 1e-5, "torch orthogonalizes each 3 x 3 kernel"
    assert error(ours.weight) > 0.1


@pytest.mark.slow
@every_map
def test_a_long_thin_weight_needs_no_square_buffer(map: str) -> None:
    rows, columns = (30_000, 50) if map != "givens" else (3_000, 20)
    layer = nn.Linear(columns, rows, bias=False)
    weight_bytes = layer.weight.nbytes
    orthogonal(layer, map=map, start="haar", generator=seeded())
    held = sum(tensor.nbytes for tensor in [*layer.parameters(), *layer.buffers()])
    assert held <= 2 * weight_bytes, "coordinates, and a base of the weight's own size at most"
    if map != "exponential":
        assert held < 1.01 * weight_bytes
    assert error(layer.weight) < rounding(torch.float32, rows)
    layer(torch.ones(1, columns)).square().sum().backward()
    assert coordinates_of(layer).grad.isfinite().all()


def plain_model(rows: int = 7, columns: int = 4) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(columns, rows), nn.ReLU(), nn.Conv2d(3, 4, 2))
    with torch.no_grad():
        model[0].weight.copy_(orthonormal((rows, columns)))
        model[2].weight.copy_(orthonormal((4, 12)).view(4, 3, 2, 2))
    return model


def orthogonal_model(map: str, seed: int = 5) -> nn.Sequential:
    model = plain_model()
    orthogonal(model[0], map=map, start="haar", generator=seeded(seed))
    orthogonal(model[2], map=map, start="haar", generator=seeded(seed))
    return model


@every_map
@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_a_checkpoint_of_the_plain_weights_loads_and_training_goes_on(map: str, assign: bool) -> None:
    source, model = plain_model(), orthogonal_model(map)
    missing, unexpected = model.load_state_dict(copy.deepcopy(source.state_dict()), assign=assign)
    assert not missing
    assert not unexpected
    for index in (0, 2):
        torch.testing.assert_close(model[index].weight.detach(), source[index].weight.detach(), atol=4e-6, rtol=0)
        assert coordinates_of(model[index]).requires_grad
        train(model[index])
        assert error(weight_blocks(model[index])) < rounding(torch.float32, rows=12)
        assert (model[index].weight - source[index].weight).abs().max() > 1e-2


@every_map
def test_a_checkpoint_in_bfloat16_loads_as_the_nearest_orthonormal_weight(map: str) -> None:
    layer = linear(map, (7, 4))
    rounded = {name: value.bfloat16() for name, value in layer.state_dict().items()}
    other = linear(map, (7, 4), seed=1)
    for state in (rounded, {"weight": layer.weight.detach().bfloat16(), "bias": layer.bias.detach()}):
        other.load_state_dict(state)
        assert error(other.weight) < rounding(torch.float32)
        torch.testing.assert_close(other.weight.detach(), layer.weight.detach(), atol=0.05, rtol=0)


@every_map
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_numbers_rounded_to_half_precision_load_from_a_tensor_of_full_precision(map: str, dtype: torch.dtype) -> None:
    layer = linear(map, (7, 4))
    weight = orthonormal((7, 4), seed=1)
    layer.load_state_dict({"weight": weight.to(dtype).float(), "bias": torch.zeros(7)})
    assert error(layer.weight) < rounding(torch.float32)
    torch.testing.assert_close(layer.weight.detach(), weight, atol=0.01, rtol=0)


@pytest.mark.parametrize("key", ["weight", "parametrizations.weight.0.exponential_anchor"])
def test_a_checkpoint_in_float32_is_held_to_the_precision_of_float32(key: str) -> None:
    """Half a percent off is what bfloat16 does to a weight; in float32 it is a damaged one."""
    layer = linear("exponential", (7, 4))
    state = {"bias": torch.zeros(7)} if key == "weight" else layer.state_dict()
    state[key] = 1.006 * orthonormal((7, 4), seed=1)
    with pytest.raises(RuntimeError, match=r"weight: .*max \|W'W - I\| .* 0.012"):
        layer.load_state_dict(state)
    assert error(layer.weight) < rounding(torch.float32)


@every_map
def test_a_checkpoint_that_is_not_orthonormal_is_refused_by_name(map: str) -> None:
    model = orthogonal_model(map)
    before = model[0].weight.detach().clone()
    state = plain_model().state_dict()
    state["0.weight"] = 2 * state["0.weight"]
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert "0.weight: this layer holds orthonormal weights only" in message
    assert "issing" not in message
    assert "nexpected" not in message
    assert torch.equal(model[0].weight, before)
    state["0.weight"] = torch.zeros(3, 3)
    with pytest.raises(RuntimeError, match=r"0.weight: this layer holds weights of shape \(7, 4\), got \(3, 3\)"):
        model.load_state_dict(state)


def test_a_damaged_base_is_refused() -> None:
    layer = linear("exponential", (7, 4))
    state = layer.state_dict()
    state["parametrizations.weight.0.exponential_anchor"] = torch.ones(7, 4)
    with pytest.raises(RuntimeError, match=r"weight: its anchor is not orthonormal"):
        linear("exponential", (7, 4)).load_state_dict(state)


def test_a_missing_weight_is_still_missing() -> None:
    with pytest.raises(RuntimeError, match=r"Missing key.*parametrizations.weight.original"):
        linear("cayley", (7, 4)).load_state_dict({"bias": torch.zeros(7)})


@every_map
def test_an_orthogonal_layer_saves_what_a_plain_one_loads(map: str) -> None:
    layer = linear(map, (7, 4))
    train(layer)
    plain = nn.Linear(4, 7)
    plain.load_state_dict({"weight": layer.weight.detach(), "bias": layer.bias.detach()})
    assert torch.equal(plain.weight, layer.weight)


@every_map
def test_a_start_that_is_not_orthogonal_is_never_silent(map: str) -> None:
    layer = nn.Linear(4, 7)
    with pytest.warns(UserWarning, match="replaced by the nearest orthonormal one"):
        orthogonal(layer, map=map)
    assert error(layer.weight) < rounding(torch.float32)
