"""Convolutions that preserve the norm of every image, by construction."""

import warnings
from typing import Literal, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.layers._registration import check_map, check_module, owned_tensor, register, translate_when_loading
from orthoscope.layers.charts import chosen_map
from orthoscope.layers.parametrization import Layout, OrthogonalParametrization, computing_dtype
from orthoscope.linalg import haar
from orthoscope.linalg.convolution import block_orthogonal_kernel, block_schedule, from_polyphase, polyphase
from orthoscope.linalg.precision import full_precision

Kind = Literal["block", "delta"]


@final
class OrthogonalKernel(nn.Module):
    r"""$K = H\prod_j(P_j + (I-P_j)z_{a_j})$, $P_j = U_jU_j^\top$, see `orthogonal_convolution`.

    `matrix` makes $H$ and `frames` makes all $U_j$ at once (None, if there are no factors). Their coordinates are
    torch's `original0` and `original1` (or `original`, if there is only $H$) and belong to the optimizer.
    """

    def __init__(
        self,
        matrix: OrthogonalParametrization,
        frames: OrthogonalParametrization | None,
        shape: tuple[int, ...],
        stride: tuple[int, ...],
        taps: tuple[int, ...],
        kind: Kind,
    ) -> None:
        """`shape` is the weight's; `taps` are those of the kernel without stride, on the phases of the image."""
        super().__init__()
        self.matrix, self.frames = matrix, frames
        self.shape, self.stride, self.taps, self.kind = shape, stride, taps, kind
        self._start: tuple[Tensor, ...] | None = None

    @property
    def parts(self) -> tuple[OrthogonalParametrization, ...]:
        """The parametrizations of the matrix, and of the frames if there are any."""
        return (self.matrix,) if self.frames is None else (self.matrix, self.frames)

    def set_start(self, *frames: Tensor) -> None:
        """Set the matrix, and the frames if there are any, whose coordinates the next `right_inverse` returns."""
        self._start = tuple(part.right_inverse(frame) for part, frame in zip(self.parts, frames, strict=True))

    def forward(self, matrix_coordinates: Tensor, *frame_coordinates: Tensor) -> Tensor:
        """The kernel from its coordinates."""
        dtype = computing_dtype(matrix_coordinates.dtype)
        with full_precision(matrix_coordinates.device.type):
            matrix = self.matrix(matrix_coordinates.to(dtype))
            if self.frames is None:
                frames = matrix.new_empty(*matrix.shape[:-2], 0, max(matrix.shape[-2:]), 0)
            else:
                frames = self.frames(frame_coordinates[0].to(dtype))
            kernel = block_orthogonal_kernel(matrix, frames, self.taps)
        kernel = from_polyphase(kernel.reshape(self.shape[0], -1, *self.taps), self.stride)
        return functional.pad(kernel, self._margins()).to(matrix_coordinates.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The coordinates of the starting kernel at the first call; after that, those of a given "delta" kernel."""
        if self._start is not None:
            coordinates, self._start = self._start, None
            return coordinates[0] if self.frames is None else coordinates
        if self.frames is not None:
            raise ValueError(
                "a block-orthogonal kernel cannot be assigned, its factors are not known from it: "
                "load a state_dict, or use kind='delta'"
            )
        if tuple(weight.shape) != self.shape:
            raise ValueError(f"this convolution holds kernels of shape {self.shape}, got {tuple(weight.shape)}")
        inner = functional.pad(weight, [-margin for margin in self._margins()])
        if not torch.equal(functional.pad(inner, self._margins()), weight):
            raise ValueError(
                "this convolution holds a matrix at the middle tap, and the kernel given has other taps too"
            )
        return self.matrix.right_inverse(polyphase(inner, self.stride).reshape(self.matrix.layout.shape))

    def extra_repr(self) -> str:
        """Kind, stride and taps."""
        return f"kind={self.kind!r}, stride={self.stride}, taps={self.taps}"

    def _margins(self) -> list[int]:
        """Zeros around the taps in use, as `pad` takes them: the last axis first."""
        margins: list[int] = []
        for length, taps, step in zip(self.shape[:1:-1], self.taps[::-1], self.stride[::-1], strict=True):
            missing = length - taps * step
            margins += [missing // 2, missing - missing // 2]
        return margins


Convolution = TypeVar("Convolution", nn.Conv1d, nn.Conv2d, nn.Conv3d)


def orthogonal_convolution(
    conv: Convolution,
    kind: Kind = "block",
    map: str = "auto",
    *,
    start: Literal["haar"] | None = None,
    generator: torch.Generator | None = None,
) -> Convolution:
    r"""Keep a convolution an isometry of images, $\|K * x\| = \|x\|$, if it has as many outputs as inputs.

    With fewer outputs it is the adjoint of an isometry ($KK^\top = I$, no norm increases), with more an isometry into
    more dimensions ($K^\top K = I$). A stride $s$ counts: it makes $s^d$ inputs of one, the phases of the image.

    Exact for `padding_mode="circular"` with the padding that keeps the image's size, also with dilation (not together
    with a stride) and for even kernels. With zero padding no norm increases, but what the kernel moves across the
    border is lost: it is not exactly an isometry. Other paddings repeat pixels, so that norms grow, and are refused. A
    bias is left as it is. The weight is replaced by new parameters: create the optimizer afterwards.

    Args:
        conv: The convolution; it is modified.
        kind: "block" spreads the kernel over all its taps, as a product of an orthogonal matrix and of factors
            $P + (I-P)\,z$ with projectors $P$ of half the channels, along every axis in turn (Li et al., 2019); with a
            stride $s$, over the middle $s\lfloor k/s\rfloor$ of each axis. "delta" is one orthogonal matrix at the
            middle tap (with a stride, the middle $s^d$). Any other "delta" kernel may be assigned later; a "block"
            kernel can only be loaded from a `state_dict`.
        map: What makes the matrices: see `orthogonal`.
        start: "haar" draws matrices and projectors uniformly at random; None does the same with a warning.
        generator: Source of random numbers.

    Returns:
        The convolution.

    Raises:
        TypeError, ValueError: For arguments or convolutions that do not fit, with a remedy.
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
    # One group is one matrix, not a batch of one.
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
