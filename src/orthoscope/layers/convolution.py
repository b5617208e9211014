"""Convolutions that preserve the norm of every image, by construction."""

import warnings
from typing import Literal, TypeVar

import torch
from torch import nn

from orthoscope.layers.arguments import check_map, check_module, owned_tensor
from orthoscope.layers.charts import chosen_map
from orthoscope.layers.checkpoints import translate_when_loading
from orthoscope.layers.kernel_parametrization import Kind, OrthogonalKernel
from orthoscope.layers.layout import Layout
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.registration import register
from orthoscope.linalg import haar
from orthoscope.linalg.convolution import block_schedule

Convolution = TypeVar("Convolution", nn.Conv1d, nn.Conv2d, nn.Conv3d)


def orthogonal_convolution(
    conv: Convolution,
    kind: Kind = "block",
    map: str = "auto",
    *,
    start: Literal["haar"] | None = None,
    generator: torch.Generator | None = None,
) -> Convolution:
    r"""Make a convolution an isometry of images for good: $\|K * x\| = \|x\|$, if it has as many outputs as inputs.

    With fewer outputs it is the adjoint of an isometry ($KK^\top = I$, it never enlarges a norm), with more an isometry
    into more dimensions ($K^\top K = I$). A stride counts: it makes $s^d$ inputs of one, the phases of the image.

    `kind`: "block" spreads the kernel over all its taps, as a product of an orthogonal matrix and of factors
    $P + (I-P)\,z$ with projectors $P$ of half the channels, along every axis in turn (Li et al., 2019); with a stride
    $s$, over the middle $s\lfloor k/s\rfloor$ of each axis. "delta" is one orthogonal matrix at the middle tap (with a
    stride, the middle $s^d$). `map` makes the matrices, see `orthogonal`.

    Exact for `padding_mode="circular"` with the padding that keeps the image's size, also with dilation (not together
    with a stride) and for even kernels. With zero padding no norm is enlarged, but what the kernel moves across the
    border is lost: it is not exactly an isometry. Other paddings repeat pixels, so that norms grow, and are refused. A
    bias is left as it is.

    The weight is replaced by new parameters, with a warning unless `start="haar"`; make the optimizer afterwards.
    Matrices and projectors are drawn uniformly from `generator`. A "delta" kernel takes any other one by assignment; a
    "block" kernel takes none, only a `state_dict`.
    """
    check_module(conv, generator)
    _check(conv, kind, map, start)
    weight = conv.weight
    parametrization = _kernel(conv, kind, map)
    parametrization.set_start(*(_random_frames(part.layout.shape, weight, generator) for part in parametrization.parts))
    register(conv, "weight", parametrization, weight)
    translate_when_loading(conv)
    if start is None:
        warnings.warn(
            "the weight of the convolution was replaced by a random orthogonal kernel: start='haar' does so silently",
            stacklevel=2,
        )
    return conv


def _kernel(conv: nn.Conv1d | nn.Conv2d | nn.Conv3d, kind: Kind, map: str) -> OrthogonalKernel:
    out, fan_in = conv.out_channels // conv.groups, conv.in_channels // conv.groups
    for step in conv.stride:
        fan_in *= step
    if max(out, fan_in) < 2:
        raise ValueError(
            "with one channel a group only plus or minus a shift preserves norms, and there is nothing to train: "
            "leave this convolution as it is"
        )
    whole = tuple(length // step for length, step in zip(conv.kernel_size, conv.stride, strict=True))
    taps = whole if kind == "block" else (1,) * len(whole)
    # One group is one matrix, not a batch of one: single products are faster.
    batch = () if conv.groups == 1 else (conv.groups,)
    factors, channels = len(block_schedule(taps)), max(out, fan_in)
    matrix = _frames(conv.weight, (*batch, out, fan_in), map, "matrix")
    frames = _frames(conv.weight, (*batch, factors, channels, channels // 2), map, "frames") if factors else None
    return OrthogonalKernel(matrix, frames, tuple(conv.weight.shape), tuple(conv.stride), taps, kind)


def _frames(weight: torch.Tensor, shape: tuple[int, ...], map: str, part: str) -> OrthogonalParametrization:
    layout = Layout(shape)
    rows, columns = layout.frame_shape[-2:]
    name = chosen_map(rows, columns, is_complex=False) if map == "auto" else map
    path = f"parametrizations.weight[0].{part}"
    return OrthogonalParametrization(
        layout, name, None, dtype=weight.dtype, device=weight.device, chosen=map == "auto", path=path
    )


def _random_frames(shape: tuple[int, ...], weight: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    device = weight.device if generator is None else generator.device
    frames = haar(*shape[-2:], *shape[:-2], generator=generator, dtype=torch.float64, device=device)
    return frames.to(weight.device)


def _check(conv: nn.Module, kind: str, map: str, start: str | None) -> None:
    if not isinstance(conv, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        raise TypeError(f"orthogonal_convolution is for nn.Conv1d, nn.Conv2d and nn.Conv3d, got {type(conv).__name__}")
    if kind not in ("block", "delta"):
        raise ValueError(f"unknown kind of orthogonal convolution {kind!r}: choose 'block' or 'delta'")
    check_map(map)
    if start not in (None, "haar"):
        raise ValueError(
            f"unknown start {start!r}: an orthogonal convolution starts from 'haar' (None: with a warning)"
        )
    owned_tensor(conv, "weight")
    if not conv.weight.is_floating_point():
        raise TypeError(f"the weight is of {conv.weight.dtype}: convert it to a real floating-point type")
    if conv.padding_mode not in ("circular", "zeros"):
        raise ValueError(
            f"padding_mode={conv.padding_mode!r} repeats pixels, so that norms grow: choose 'circular' or 'zeros'"
        )
    if max(conv.stride) > 1 and max(conv.dilation) > 1:
        raise ValueError(f"stride {conv.stride} with dilation {conv.dilation} is not supported: set one of them to 1")
    if any(length < step for length, step in zip(conv.kernel_size, conv.stride, strict=True)):
        raise ValueError(
            f"a kernel of {conv.kernel_size} taps with stride {conv.stride} passes over pixels, so it cannot preserve "
            f"norms: make the kernel as large as the stride"
        )
