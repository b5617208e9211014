"""Orthogonal convolutions, tested as linear maps through the real layers."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

from orthoscope.layers import CHARTS
from orthoscope.layers.convolution import orthogonal_convolution
from orthoscope.linalg import haar
from references.dense_convolution import circular, dense_matrix

SIZES = {1: (8,), 2: (4, 6), 3: (2, 4, 4)}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def orthogonal(conv: nn.Module, kind: str = "block", map: str = "auto", seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    return orthogonal_convolution(conv, kind, map, start="haar", generator=generator)  # type: ignore[type-var, arg-type]


def distance_from_isometry(conv: nn.Module, size: tuple[int, ...]) -> float:
    return float((torch.linalg.svdvals(dense_matrix(conv, size)) - 1).abs().max())  # type: ignore[arg-type]


def train(conv: nn.Module, size: tuple[int, ...], steps: int = 4) -> None:
    optimizer = torch.optim.AdamW(conv.parameters(), lr=0.05, weight_decay=0.1)
    image = torch.randn(2, conv.in_channels, *size, dtype=conv.weight.dtype)  # type: ignore[arg-type, call-overload]
    for _ in range(steps):
        optimizer.zero_grad()
        conv(image).pow(3).sum().backward()
        optimizer.step()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE, ids=["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [(4, 4), (6, 4), (4, 6)])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("kind", ["block", "delta"])
def test_every_singular_value_is_one_before_and_after_training(
    kind: str, dimensions: int, channels: tuple[int, int], stride: int, groups: int, dtype: torch.dtype
) -> None:
    conv = orthogonal(circular(*channels, 3, dimensions, stride=stride, groups=groups, dtype=dtype), kind)
    before = conv.weight.detach().clone()
    assert distance_from_isometry(conv, SIZES[dimensions]) < TOLERANCE[dtype]
    train(conv, SIZES[dimensions])
    assert distance_from_isometry(conv, SIZES[dimensions]) < TOLERANCE[dtype]
    assert float((conv.weight - before).detach().abs().max()) > 0.01, "training must have moved the kernel"


@pytest.mark.parametrize("map", list(CHARTS))
@pytest.mark.parametrize("kind", ["block", "delta"])
def test_every_map_makes_orthogonal_convolutions(kind: str, map: str) -> None:
    conv = orthogonal(circular(5, 7, 3), kind, map)
    train(conv, (4, 4))
    assert distance_from_isometry(conv, (4, 4)) < 1e-12


@pytest.mark.parametrize(("taps", "stride"), [((1, 1), 1), ((2, 3), 1), ((4, 4), 2), ((5, 4), (2, 1)), ((2, 2), 2)])
def test_even_and_oblong_kernels_and_strides(taps: tuple[int, int], stride: int | tuple[int, int]) -> None:
    steps = (stride, stride) if isinstance(stride, int) else stride
    # What keeps a periodic image's size over the stride; `padding="same"` knows no stride.
    conv = orthogonal(circular(4, 6, taps, stride=stride, padding=0))
    wrapped = [part for axis in (1, 0) for part in (0, taps[axis] - steps[axis])]

    def layer(image: torch.Tensor) -> torch.Tensor:
        return conv(nn.functional.pad(image, wrapped, mode="circular"))

    images = torch.eye(4 * 64, dtype=torch.float64).reshape(-1, 4, 8, 8)
    values = torch.linalg.svdvals(layer(images).detach().flatten(1))
    assert float((values - 1).abs().max()) < 1e-12


def test_block_kernels_use_every_tap_and_delta_kernels_one() -> None:
    block, delta = (orthogonal(circular(4, 4, 3), kind).weight.detach() for kind in ("block", "delta"))
    assert (block.abs().amax((0, 1)) > 1e-3).all()
    assert (delta.abs().amax((0, 1)) > 0).sum() == 1
    assert torch.equal(delta[:, :, 1, 1].nonzero(), torch.ones(4, 4).nonzero())


def test_dilation_keeps_a_convolution_orthogonal() -> None:
    conv = orthogonal(circular(4, 4, 3, dilation=2, padding=2))
    assert distance_from_isometry(conv, (5, 6)) < 1e-12


def test_norms_are_preserved_by_circular_padding_and_never_enlarged_by_zeros() -> None:
    image = torch.randn(3, 4, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    conv = orthogonal(circular(4, 4, 3))
    torch.testing.assert_close(conv(image).flatten(1).norm(dim=1), image.flatten(1).norm(dim=1))
    zeros = orthogonal(circular(4, 4, 3, padding_mode="zeros"))
    assert torch.equal(zeros.weight, conv.weight)
    values = torch.linalg.svdvals(dense_matrix(zeros, (6, 6)))  # type: ignore[arg-type]
    assert float(values[0]) <= 1 + 1e-12
    assert float(values[-1]) < 0.9, "what crosses the border is lost"


def test_few_tensors_are_trained_and_the_generator_decides_the_start() -> None:
    conv = orthogonal(circular(4, 4, 5))
    assert [tuple(parameter.shape) for parameter in conv.parameters()] == [(4, 4), (8, 4, 2)]
    assert torch.equal(orthogonal(circular(4, 4, 5)).weight, conv.weight)
    assert not torch.allclose(orthogonal(circular(4, 4, 5), seed=1).weight, conv.weight)


def test_state_copy_and_pickle_keep_the_kernel() -> None:
    conv = orthogonal(circular(4, 6, 3))
    train(conv, (4, 4))
    other = orthogonal(circular(4, 6, 3), seed=5)
    other.load_state_dict(conv.state_dict())
    assert torch.equal(other.weight, conv.weight)
    for twin in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert torch.equal(twin.weight, conv.weight)
        train(twin, (4, 4))
        assert not torch.allclose(twin.weight, conv.weight)
        assert distance_from_isometry(twin, (4, 4)) < 1e-12


def test_a_convolution_that_shares_its_weight_leaves_it_to_the_other() -> None:
    for kind in ("block", "delta"):
        conv, other = circular(4, 4, 3), circular(4, 4, 3)
        other.weight = conv.weight
        before = conv.weight.detach().clone()
        orthogonal(conv, kind)
        assert torch.equal(other.weight, before)


@pytest.mark.parametrize("kind", ["block", "delta"])
def test_coordinates_of_another_map_are_refused_also_when_not_strict(kind: str) -> None:
    conv = orthogonal(circular(4, 4, 3), kind, "cayley")
    before = conv.weight.detach().clone()
    with pytest.raises(RuntimeError, match="weight: the checkpoint has coordinates of map 'exponential' and this"):
        conv.load_state_dict(orthogonal(circular(4, 4, 3), kind, "exponential", seed=1).state_dict(), strict=False)
    assert torch.equal(conv.weight, before)


def test_half_precision_storage_is_computed_in_float32() -> None:
    conv = orthogonal(circular(4, 4, 3, dtype=torch.float32)).bfloat16()
    assert conv.weight.dtype is torch.bfloat16
    conv.float()
    assert distance_from_isometry(conv, (4, 4)) < 1e-5
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kernel = conv.weight
    assert torch.equal(kernel, conv.weight)


@pytest.mark.slow
def test_second_derivatives_are_right() -> None:
    conv = orthogonal(circular(2, 3, 2))
    originals = [parameter.detach().clone().requires_grad_() for parameter in conv.parameters()]
    assert torch.autograd.gradcheck(conv.parametrizations.weight[0], originals)
    assert torch.autograd.gradgradcheck(conv.parametrizations.weight[0], originals)


def test_a_delta_kernel_takes_another_one_and_a_block_kernel_takes_none() -> None:
    conv = orthogonal(circular(4, 4, 3), "delta")
    kernel = torch.zeros(4, 4, 3, 3, dtype=torch.float64)
    kernel[:, :, 1, 1] = haar(4, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    conv.weight = kernel
    torch.testing.assert_close(conv.weight, kernel)
    with pytest.raises(ValueError, match="orthonormal weights only"):
        conv.weight = 2 * kernel
    with pytest.raises(ValueError, match="has other taps too"):
        conv.weight = kernel.roll(1, -1)
    with pytest.raises(ValueError, match=r"holds kernels of shape \(4, 4, 3, 3\)"):
        conv.weight = kernel[:2]
    block = orthogonal(circular(4, 4, 3))
    with pytest.raises(ValueError, match="block-orthogonal kernel cannot be assigned"):
        block.weight = kernel


def test_replacing_the_weight_is_said_aloud() -> None:
    with pytest.warns(UserWarning, match="was replaced by a random orthogonal kernel"):
        orthogonal_convolution(nn.Conv2d(3, 3, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        orthogonal_convolution(nn.Conv2d(3, 3, 3), start="haar")


@pytest.mark.parametrize(
    ("conv", "options", "message"),
    [
        (nn.Linear(3, 3), {}, "Linear"),
        (nn.ConvTranspose2d(3, 3, 3), {}, "ConvTranspose2d"),
        (nn.Conv2d(3, 3, 3), {"kind": "cube"}, "cube"),
        (nn.Conv2d(3, 3, 3), {"map": "cayly"}, "did you mean 'cayley'"),
        (nn.Conv2d(3, 3, 3), {"start": "keep"}, "keep"),
        (nn.Conv2d(3, 3, 3, stride=2, dilation=2), {}, r"stride \(2, 2\) with dilation \(2, 2\) is not supported"),
        (nn.Conv2d(3, 3, 1, stride=2), {}, r"\(1, 1\) taps with stride \(2, 2\) passes over pixels"),
        (nn.Conv2d(3, 3, 3, groups=3), {}, "one channel a group"),
        (
            nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"),
            {},
            "'reflect' repeats .* choose 'circular' or 'zeros'",
        ),
        (nn.Conv2d(3, 3, 3, padding=1, padding_mode="replicate"), {}, "'replicate' repeats pixels"),
        (nn.LazyConv2d(3, 3), {}, "no shape yet"),
        (nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 3, 3)), {}, "already parametrized"),
    ],
    ids=[
        "linear",
        "transposed",
        "kind",
        "map",
        "start",
        "dilation",
        "skipping",
        "depthwise",
        "reflect",
        "replicate",
        "lazy",
        "twice",
    ],
)
def test_what_cannot_be_orthogonal_is_refused(conv: nn.Module, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):  # ours, or the type checker's while tests run
        orthogonal_convolution(conv, **options)  # type: ignore[type-var, arg-type]
