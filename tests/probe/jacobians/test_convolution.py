"""Convolutions that are cheap to differentiate twice are the convolutions that torch has, to every order used."""

import pytest
import torch
from torch import nn

from orthoscope.probe import layer_jacobians
from orthoscope.probe.jacobians.additions import cheap_twice

CASES = {
    "plain": nn.Conv2d(4, 6, 3),
    "strided, with a rest": nn.Conv2d(4, 6, 3, stride=2, padding=1),
    "strides of each side": nn.Conv2d(4, 6, (3, 2), stride=(3, 2), padding=(1, 0), bias=False),
    "dilated": nn.Conv2d(4, 6, 3, dilation=2, padding=2),
    "grouped": nn.Conv2d(4, 6, 3, groups=2),
    "depthwise": nn.Conv2d(4, 4, 3, groups=4, padding=1),
    "circular": nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
    "same": nn.Conv2d(4, 6, 3, padding="same"),
    "one-dimensional": nn.Conv1d(4, 6, 3, stride=2),
    "three-dimensional": nn.Conv3d(4, 6, 2, stride=2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_jacobian_of_a_convolution_is_autograds(name: str) -> None:
    layer = CASES[name].double()
    sides = layer.weight.ndim - 2
    image = torch.randn(1, 4, *([6] * sides), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (found,) = layer_jacobians(nn.Sequential(layer), image, ["0"])
    expected = torch.autograd.functional.jacobian(layer, image).reshape(found.operator.shape)
    assert torch.allclose(found.output, layer(image).flatten(1))
    assert torch.allclose(found.operator.dense()[0], expected)
    vectors = torch.randn(1, found.operator.inputs, 3, dtype=torch.float64)
    assert torch.allclose(found.operator.multiply(vectors)[0], expected @ vectors[0])


def test_calls_that_no_module_makes_are_left_to_torch() -> None:
    image, weight = torch.randn(1, 4, 5, 5, requires_grad=True), torch.randn(6, 4, 3, 3)
    assert cheap_twice(nn.functional.conv2d, (image, weight), {}) is None
    assert cheap_twice(nn.functional.conv2d, (image, weight, None, (1, 1), "same", (1, 1), 1), {}) is None
    assert cheap_twice(nn.functional.conv2d, (image[0], weight, None, (1, 1), (0, 0), (1, 1), 1), {}) is None
