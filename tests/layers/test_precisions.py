"""Low precision, changes of precision, autocast, and layers without memory."""

import copy

import pytest
import torch
from torch import nn

from layers.maps import (
    MAPS,
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
from orthoscope.layers import orthogonal

every_map = pytest.mark.parametrize("map", MAPS)


@every_map
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_low_precision_weights_are_the_rounding_of_orthonormal_ones(map: str, dtype: torch.dtype) -> None:
    layer = orthogonal(plain(7, 4).to(dtype), map=map, start="nearest")
    for _ in range(3):
        assert layer.weight.dtype == coordinates_of(layer).dtype == dtype
        coordinates = coordinates_of(layer).detach().float()
        exact = parametrization_of(layer)(coordinates)
        assert exact.dtype == torch.float32
        assert error(exact) < rounding(torch.float32)
        assert torch.equal(layer.weight, exact.to(dtype))
        train(layer)
    layer.weight = orthonormal((7, 4), dtype, seed=3)
    assert close(layer.weight, orthonormal((7, 4), dtype, seed=3), slack=2)


@every_map
def test_a_layer_can_go_through_all_precisions(map: str) -> None:
    layer = linear(map, (6, 6), torch.float32)
    train(layer)
    before = layer.weight.detach().clone()
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.bfloat16, torch.float32, torch.float64):
        layer.to(dtype)
        assert layer.weight.dtype == dtype
        assert error(layer.weight) < rounding(dtype)
        train(layer, steps=1, optimizer=torch.optim.SGD(layer.parameters(), lr=0.0))
    assert (layer.weight - before).abs().max() < 16 * torch.finfo(torch.bfloat16).eps


@every_map
def test_the_weight_is_exact_under_autocast(map: str) -> None:
    layer = linear(map, (6, 6))
    before = layer.weight.detach().clone()
    inputs = torch.randn(3, 6, generator=seeded(1))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.weight, before)
        output = layer(inputs)
        assert output.dtype == torch.bfloat16
        loss = output.float().sum()
    loss.backward()
    assert coordinates_of(layer).grad.isfinite().all()
    assert coordinates_of(layer).grad.dtype == torch.float32


@every_map
def test_layers_on_the_meta_device_are_filled_from_a_checkpoint(map: str) -> None:
    source = linear(map, (7, 4))
    for state in (source.state_dict(), {"weight": source.weight.detach(), "bias": source.bias.detach()}):
        empty = orthogonal(nn.Linear(4, 7, device="meta"), map=map)
        assert f"map={map!r}" in repr(empty)
        empty.load_state_dict(copy.deepcopy(state), assign=True)
        assert close(empty.weight, source.weight)
        train(empty)
        assert error(empty.weight) < rounding(torch.float32)
