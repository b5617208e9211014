"""What is read as a matrix: convolutions, recurrent layers, attention, embeddings and batches."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from layers.maps import (
    MAPS,
    close,
    coordinates_of,
    error,
    orthonormal,
    rounding,
    seeded,
    train,
)
from orthoscope.init.weights import weight_blocks
from orthoscope.layers import orthogonal
from orthoscope.linalg import polar_factor

every_map = pytest.mark.parametrize("map", MAPS)


def convolutions() -> dict[str, nn.Module]:
    return {
        "2d": nn.Conv2d(4, 6, 3),
        "1d": nn.Conv1d(3, 20, 5),
        "3d": nn.Conv3d(2, 3, 2),
        "grouped": nn.Conv2d(8, 12, 3, groups=4),
        "depthwise": nn.Conv2d(6, 6, 3, groups=6),
        "transposed": nn.ConvTranspose2d(6, 4, 3),
        "transposed and grouped": nn.ConvTranspose2d(6, 8, 3, groups=2),
    }


@pytest.mark.slow
@every_map
@pytest.mark.parametrize("name", convolutions())
def test_a_convolution_is_a_matrix_a_group(map: str, name: str) -> None:
    layer = convolutions()[name]
    blocks = weight_blocks(layer)
    orthogonal(layer, map=map, start="nearest")
    assert error(weight_blocks(layer)) < rounding(torch.float32, rows=20)
    torch.testing.assert_close(weight_blocks(layer), polar_factor(blocks), atol=2e-6, rtol=0)
    train(layer)
    assert error(weight_blocks(layer)) < rounding(torch.float32, rows=20)
    image = torch.randn(2, layer.in_channels, *[7] * (layer.weight.ndim - 2), generator=seeded())
    layer(image).sum().backward()
    assert coordinates_of(layer).grad.isfinite().all()


def test_one_by_one_convolutions_keep_the_length_of_every_pixel() -> None:
    layer = orthogonal(nn.Conv2d(5, 8, 1, bias=False), start="haar", generator=seeded())
    image = torch.randn(2, 5, 7, 7, generator=seeded(1))
    torch.testing.assert_close(layer(image).norm(dim=1), image.norm(dim=1))


@every_map
def test_recurrent_layers_use_the_orthogonal_weight(map: str) -> None:
    layer = nn.RNN(3, 5)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(orthonormal((5, 5)))
    cell = nn.RNNCell(3, 5)
    orthogonal(layer, "weight_hh_l0", map=map)
    orthogonal(cell, "weight_hh", map=map, start="haar", generator=seeded())
    with torch.no_grad():
        cell.weight_ih.copy_(layer.weight_ih_l0)
        cell.bias_ih.copy_(layer.bias_ih_l0)
        cell.bias_hh.copy_(layer.bias_hh_l0)
        cell.weight_hh = layer.weight_hh_l0
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    inputs = torch.randn(6, 2, 3, generator=seeded(1))
    for _ in range(3):
        optimizer.zero_grad()
        output, last = layer(inputs)
        last.square().sum().backward()
        if _ == 0:
            hidden = torch.zeros(2, 5)
            with parametrize.cached():
                for now in inputs:
                    hidden = cell(now, hidden)
            torch.testing.assert_close(hidden, output[-1], atol=1e-5, rtol=0)
        optimizer.step()
    assert error(layer.weight_hh_l0) < rounding(torch.float32)
    assert not close(layer.weight_hh_l0, orthonormal((5, 5)), slack=100)


def test_attention_embeddings_and_bilinear_forms_are_matrices_and_batches_of_them() -> None:
    attention = orthogonal(nn.MultiheadAttention(6, 2), "in_proj_weight", start="haar", generator=seeded())
    orthogonal(attention.out_proj, start="haar", generator=seeded())
    tokens = torch.randn(4, 2, 6, generator=seeded(1))
    attention(tokens, tokens, tokens)[0].sum().backward()
    assert error(attention.in_proj_weight) < rounding(torch.float32, rows=18)
    assert coordinates_of(attention, "in_proj_weight").grad.abs().max() > 0
    with torch.no_grad():
        attention.eval()(tokens, tokens, tokens)
    embedding = orthogonal(nn.Embedding(11, 4), start="haar", generator=seeded())
    assert error(embedding.weight) < rounding(torch.float32)
    embedding(torch.tensor([1, 2])).sum().backward()
    form = orthogonal(nn.Bilinear(3, 5, 4), start="haar", generator=seeded())
    assert form.weight.shape == (4, 3, 5)
    assert error(form.weight) < rounding(torch.float32)
    form(torch.ones(2, 3), torch.ones(2, 5)).sum().backward()


@every_map
def test_batches_are_independent_matrices(map: str) -> None:
    weights = orthonormal((2, 3, 4, 6), torch.float64)
    module = nn.Module()
    module.weight = nn.Parameter(weights.clone())
    orthogonal(module, map=map)
    (module.weight * weights.sin()).sum().backward()
    for index in itertools.product(range(2), range(3)):
        single = nn.Module()
        single.weight = nn.Parameter(weights[index].clone())
        orthogonal(single, map=map)
        torch.testing.assert_close(module.weight[index], single.weight)
        (single.weight * weights[index].sin()).sum().backward()
        torch.testing.assert_close(coordinates_of(module).grad[index], coordinates_of(single).grad)


def test_a_buffer_can_be_orthogonal_too() -> None:
    module = nn.Module()
    module.register_buffer("basis", orthonormal((5, 3)))
    orthogonal(module, "basis")
    assert close(module.basis, orthonormal((5, 3)))
    assert not list(module.parameters())
