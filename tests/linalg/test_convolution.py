"""Convolutions as linear operators, against the dense matrix of the real layer."""

import pytest
import torch
from torch import nn

from orthoscope.linalg import haar
from orthoscope.linalg.convolution import (
    adjoint_kernel,
    block_orthogonal_kernel,
    block_schedule,
    convolution_deviation,
    convolution_singular_values,
    convolve_kernels,
    from_polyphase,
    polyphase,
)
from references.dense_convolution import circular, dense_matrix

SIZES = {1: (8,), 2: (4, 6), 3: (2, 4, 4)}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)  # the layers' own initialization


def largest_difference(left: torch.Tensor, right: torch.Tensor) -> float:
    assert left.shape == right.shape
    return float((left - right).abs().max())


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(4, 4), (4, 6), (6, 2)])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_singular_values_are_those_of_the_dense_matrix(
    dimensions: int, channels: tuple[int, int], stride: int, groups: int
) -> None:
    conv = circular(*channels, 3, dimensions, stride=stride, groups=groups)
    size = SIZES[dimensions]
    expected = torch.linalg.svdvals(dense_matrix(conv, size))
    values = convolution_singular_values(conv.weight.detach(), size, stride, groups)
    assert largest_difference(values, expected) < 1e-12
    assert float(values[0]) > 1.1 * float(values[-1]), "the values must not be all alike"


def test_a_kernel_larger_than_the_image_wraps_round_it() -> None:
    conv = circular(3, 3, 5, padding=2)
    assert (
        largest_difference(
            convolution_singular_values(conv.weight.detach(), 3), torch.linalg.svdvals(dense_matrix(conv, (3, 3)))
        )
        < 1e-12
    )


def test_a_stride_must_divide_the_image() -> None:
    with pytest.raises(ValueError, match=r"no stride \(2, 2\)"):
        convolution_singular_values(torch.ones(1, 1, 2, 2), 5, 2)
    with pytest.raises(ValueError, match=r"one for each of 2 dimensions"):
        convolution_singular_values(torch.ones(1, 1, 2, 2), (4, 4, 4))
    with pytest.raises(ValueError, match=r"one to three tap sizes"):
        convolution_singular_values(torch.ones(3, 3), 4)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_composition_of_kernels_is_composition_of_layers(dimensions: int, groups: int) -> None:
    first = circular(4, 6, 3, dimensions, groups=groups, padding=0)
    second = circular(6, 2, 2, dimensions, groups=groups, padding=0)
    image = torch.randn(2, 4, *[7] * dimensions, dtype=torch.float64)
    both = circular(4, 2, 4, dimensions, groups=groups, padding=0)
    with torch.no_grad():
        both.weight.copy_(convolve_kernels(second.weight, first.weight, groups))
        assert largest_difference(both(image), second(first(image))) < 1e-12


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_the_adjoint_kernel_is_the_transposed_matrix(dimensions: int, groups: int) -> None:
    conv = circular(4, 6, 3, dimensions, groups=groups)
    adjoint = circular(6, 4, 3, dimensions, groups=groups)
    with torch.no_grad():
        adjoint.weight.copy_(adjoint_kernel(conv.weight, groups))
    size = SIZES[dimensions] if dimensions < 3 else (3, 3, 3)
    assert largest_difference(dense_matrix(adjoint, size), dense_matrix(conv, size).mT) < 1e-14


@pytest.mark.parametrize("stride", [1, 2, 3, (1, 2)])
def test_phases_hold_the_kernel_and_give_it_back(stride: int | tuple[int, int]) -> None:
    kernel = torch.randn(3, 2, 4, 5)
    phases = polyphase(kernel, stride)
    back = from_polyphase(phases, stride)
    assert torch.equal(back[:, :, :4, :5], kernel)
    assert float(phases.abs().sum()) == pytest.approx(float(kernel.abs().sum())), "nothing but zeros was added"


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(4, 4), (4, 6), (6, 2), (2, 12)])
def test_deviation_is_that_of_the_dense_gram_matrix_for_each_position(
    channels: tuple[int, int], stride: int, groups: int
) -> None:
    conv = circular(*channels, 3, stride=stride, groups=groups)
    size = 8  # more than twice the taps: no lag meets itself round the image
    dense = dense_matrix(conv, (size, size))
    side = dense if dense.shape[0] <= dense.shape[1] else dense.mT
    deviation = (side @ side.mT - torch.eye(side.shape[0], dtype=torch.float64)).square().sum()
    expected = float(deviation) / (size // stride) ** 2
    assert float(convolution_deviation(conv.weight.detach(), stride, groups)) == pytest.approx(expected, rel=1e-12)
    assert expected > 0.1


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("taps", [(1,), (4,), (3, 3), (2, 5), (3, 1), (2, 3, 2)])
@pytest.mark.parametrize("channels", [(4, 4), (3, 5), (5, 2)])
def test_block_kernels_are_orthogonal_with_all_their_taps(
    channels: tuple[int, int], taps: tuple[int, ...], batch: tuple[int, ...], generator: torch.Generator
) -> None:
    size, groups = max(channels), 3 if batch else 1
    matrix = haar(*channels, *batch, generator=generator, dtype=torch.float64)
    frames = haar(size, size // 2, *batch, len(block_schedule(taps)), generator=generator, dtype=torch.float64)
    kernel = block_orthogonal_kernel(matrix, frames, taps)
    assert kernel.shape == (*batch, *channels, *taps)
    kernel = kernel.reshape(groups * channels[0], *kernel.shape[-1 - len(taps) :])
    values = convolution_singular_values(kernel, 5, groups=groups)
    assert largest_difference(values, torch.ones_like(values)) < 1e-13
    assert float(convolution_deviation(kernel, groups=groups)) < 1e-25
    assert (kernel.flatten(2).abs().amax((0, 1)) > 1e-3).all(), "every tap is in use"


def test_block_kernels_are_products_of_two_tap_kernels(generator: torch.Generator) -> None:
    matrix = haar(4, 5, generator=generator, dtype=torch.float64)
    frames = haar(5, 2, 4, generator=generator, dtype=torch.float64)
    product = matrix[..., None, None]
    for factor, (axis, turned) in enumerate([(0, False), (1, False), (0, True), (1, True)]):
        projector = frames[factor] @ frames[factor].mT
        pair = [projector, torch.eye(5, dtype=torch.float64) - projector]
        taps = torch.stack(pair[::-1] if turned else pair, -1)
        product = convolve_kernels(product, taps.unsqueeze(2 if axis == 1 else 3))
    assert largest_difference(block_orthogonal_kernel(matrix, frames, (3, 3)), product) < 1e-14


def test_zero_padding_never_enlarges_a_norm_but_may_lose_some(generator: torch.Generator) -> None:
    matrix = haar(4, 4, generator=generator, dtype=torch.float64)
    frames = haar(4, 2, 4, generator=generator, dtype=torch.float64)
    conv = nn.Conv2d(4, 4, 3, padding=1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        conv.weight.copy_(block_orthogonal_kernel(matrix, frames, (3, 3)))
    values = torch.linalg.svdvals(dense_matrix(conv, (5, 5)))
    assert float(values[0]) <= 1 + 1e-12
    assert float(values[-1]) < 0.9
