r"""Convolutions as linear operators: composition, adjoint, stride, singular values, and kernels that are orthogonal.

Kernels are laid out as the weights of `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d`, `(out, in/groups, *taps)`, and read as
operators on periodic images (circular padding) or unbounded ones. With zero padding the operator is a part of the
unbounded one: its norm is no larger, but an orthogonal kernel loses what leaves the image.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from orthoscope.linalg.precision import to_double

Kernel = Float[Tensor, "_ _ ..."]  # (out, in/groups, *taps)
Sizes = int | Sequence[int]


def convolution_singular_values(
    kernel: Kernel, size: Sizes, stride: Sizes = 1, groups: int = 1
) -> Float[Tensor, " values"]:
    r"""All singular values, largest first, in float64, of the convolution of periodic images of `size` pixels.

    The Fourier transform makes the operator block diagonal: they are the singular values of the matrices
    $\hat K(\omega) = \sum_t K_t\,e^{-2\pi i\,\omega\cdot t}$, `(out, in)`, one a frequency (Sedghi et al., 2019). A
    strided convolution is first written without stride, see `polyphase`; the stride must divide `size`.

    Args:
        kernel: `(out, in/groups, *taps)`, as the weight of `nn.Conv1d`, `nn.Conv2d` or `nn.Conv3d`.
        size: Pixels of the image along each axis; one number for all axes.
        stride: Of the convolution, one number or one per axis.
        groups: Of the convolution.
    """
    dimensions = _dimensions(kernel)
    sizes, strides = _sizes(size, dimensions), _sizes(stride, dimensions)
    if any(pixels % step for pixels, step in zip(sizes, strides, strict=True)):
        raise ValueError(f"a periodic image of {sizes} pixels has no stride {strides}: choose sizes that it divides")
    phases = polyphase(to_double(kernel), strides)
    for axis, (pixels, step) in enumerate(zip(sizes, strides, strict=True), start=2):
        # Taps a period apart fall on the same pixel of a periodic image.
        period = pixels // step
        phases = _filled(phases, axis, period).unflatten(axis, (-1, period)).sum(axis)
    symbol = torch.fft.fftn(phases, dim=tuple(range(2, 2 + dimensions))).unflatten(0, (groups, -1))
    matrices = symbol.movedim((1, 2), (-2, -1)).flatten(0, -3)
    return torch.linalg.svdvals(matrices).flatten().sort(descending=True).values


def convolve_kernels(left: Kernel, right: Kernel, groups: int = 1) -> Kernel:
    r"""The kernel of the composition, `right` applied first: $K_t = \sum_s L_s R_{t-s}$, without padding."""
    dimensions = _dimensions(left)
    # The columns of `right` are the images. torch computes correlations, so the filters are flipped.
    columns = right.unflatten(0, (groups, -1)).transpose(0, 2).transpose(1, 2).flatten(1, 2)
    filters = left.flip(tuple(range(2, 2 + dimensions)))
    padding = [taps - 1 for taps in left.shape[2:]]
    return _CONVOLUTIONS[dimensions](columns, filters, padding=padding, groups=groups).transpose(0, 1)


def adjoint_kernel(kernel: Kernel, groups: int = 1) -> Kernel:
    r"""The kernel of the transposed operator: $K_{-t}^\top$."""
    blocks = kernel.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return blocks.flip(tuple(range(2, kernel.ndim)))


def polyphase(kernel: Kernel, stride: Sizes) -> Kernel:
    r"""The same operator without stride, the $s^d$ phases of an image as channels: $K'_{o,(i,p),t} = K_{o,i,\,st+p}$.

    A kernel is filled with zeros up to a multiple of the stride.
    """
    dimensions = _dimensions(kernel)
    for axis, step in enumerate(_sizes(stride, dimensions), start=2):
        kernel = _filled(kernel, axis, step).unflatten(axis, (-1, step))
        # Each phase becomes the fastest part of the channels.
        kernel = kernel.movedim(axis + 1, 2).flatten(1, 2)
    return kernel


def from_polyphase(kernel: Kernel, stride: Sizes) -> Kernel:
    """The kernel, with as many taps as fit, whose `polyphase` this is."""
    for axis, step in reversed(list(enumerate(_sizes(stride, _dimensions(kernel)), start=2))):
        kernel = kernel.unflatten(1, (-1, step)).movedim(2, axis + 1).flatten(axis, axis + 1)
    return kernel


def convolution_deviation(kernel: Kernel, stride: Sizes = 1, groups: int = 1) -> Float[Tensor, ""]:
    r"""$\sum_t \|(K * K^\top)_t - \delta_t I\|_F^2$, or of $K^\top * K$ where that has fewer channels.

    Over all pairs of an output at one position with any output (Wang et al., 2020): 0 exactly if the rows of the
    operator are orthonormal; or its columns, if there are fewer inputs than outputs, counting strides.

    Args:
        kernel: `(out, in/groups, *taps)`.
        stride: Of the convolution, one number or one per axis.
        groups: Of the convolution.
    """
    phases = polyphase(kernel, stride)
    out, fan_in = phases.shape[0] // groups, phases.shape[1]
    adjoint = adjoint_kernel(phases, groups)
    left, right = (phases, adjoint) if out <= fan_in else (adjoint, phases)
    correlations = convolve_kernels(left, right, groups)
    channels = correlations.shape[1]
    lags = correlations.reshape(groups, channels, channels, -1)
    identity = torch.zeros_like(lags)
    identity[..., lags.shape[-1] // 2] = torch.eye(channels, dtype=kernel.dtype, device=kernel.device)
    return (lags - identity).square().sum((-2, -1)).sum()


def block_orthogonal_kernel(
    matrix: Float[Tensor, "*batch out fan_in"],
    frames: Float[Tensor, "*batch factors channels rank"],
    taps: Sequence[int],
) -> Float[Tensor, "*batch_out_in_taps"]:
    r"""An orthogonal kernel from an orthogonal matrix and projectors (Li et al., 2019, there in two dimensions).

    $$ K(z) = H \prod_j \big(P_j + (I - P_j)\,z_{a_j}\big), \qquad P_j = U_jU_j^\top $$

    Every factor is orthogonal and adds one tap along the axis $a_j$; axes take turns, each has its taps less one.
    $P$ and $I-P$ are exchanged from one factor of an axis to the next, which keeps the kernel centered. If $H$ is
    taller than wide the factors are to its left. `channels` is the larger size of $H$.
    """
    if matrix.shape[-2] > matrix.shape[-1]:
        return block_orthogonal_kernel(matrix.mT, frames, taps).transpose(-2 - len(taps), -1 - len(taps))
    kernel = matrix[(..., *[None] * len(taps), slice(None), slice(None))]
    for factor, (axis, turned) in enumerate(block_schedule(taps)):
        frame = frames[(..., factor, *[None] * len(taps), slice(None), slice(None))]
        inside = kernel @ frame @ frame.mT
        outside = kernel - inside
        first, second = (outside, inside) if turned else (inside, outside)
        dim = axis - len(taps) - 2
        gap = torch.zeros_like(kernel.narrow(dim, 0, 1))
        kernel = torch.cat([first, gap], dim) + torch.cat([gap, second], dim)
    return kernel.movedim((-2, -1), (-2 - len(taps), -1 - len(taps)))


def block_schedule(taps: Sequence[int]) -> list[tuple[int, bool]]:
    """For each factor of `block_orthogonal_kernel` its axis, and whether $P$ and $I-P$ are exchanged."""
    rounds = range(max(taps) - 1)
    return [(axis, turn % 2 == 1) for turn in rounds for axis, length in enumerate(taps) if turn < length - 1]


_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def _dimensions(kernel: Tensor) -> int:
    if kernel.ndim - 2 not in _CONVOLUTIONS:
        raise ValueError(f"a kernel is (out, in, *taps) with one to three tap sizes, got shape {tuple(kernel.shape)}")
    return kernel.ndim - 2


def _sizes(value: Sizes, dimensions: int) -> tuple[int, ...]:
    sizes = (value,) * dimensions if isinstance(value, int) else tuple(value)
    if len(sizes) != dimensions or min(sizes) < 1:
        raise ValueError(f"expected one positive size, or one for each of {dimensions} dimensions, got {value}")
    return sizes


def _filled(kernel: Tensor, axis: int, multiple: int) -> Tensor:
    """Zeros after the last tap along an axis, up to a multiple of a length."""
    missing = math.ceil(kernel.shape[axis] / multiple) * multiple - kernel.shape[axis]
    return functional.pad(kernel, [0, 0] * (kernel.ndim - 1 - axis) + [0, missing])
