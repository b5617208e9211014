"""The module that torch calls to turn coordinates into the kernel of an orthogonal convolution."""

from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.rounding import computing_dtype
from orthoscope.linalg.convolution import block_orthogonal_kernel, from_polyphase, polyphase
from orthoscope.linalg.precision import full_precision

Kind = Literal["block", "delta"]


@final
class OrthogonalKernel(nn.Module):
    r"""$K = H\prod_j(P_j + (I-P_j)z_{a_j})$, $P_j = U_jU_j^\top$, made by `orthoscope.layers.orthogonal_convolution`.

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
        """What makes the matrix, and the frames if there are any."""
        return (self.matrix,) if self.frames is None else (self.matrix, self.frames)

    def set_start(self, *frames: Tensor) -> None:
        """The matrix, and the frames if there are any, that the next `right_inverse` returns the coordinates of."""
        self._start = tuple(part.right_inverse(frame) for part, frame in zip(self.parts, frames, strict=True))

    def forward(self, matrix_coordinates: Tensor, *frame_coordinates: Tensor) -> Tensor:
        dtype = computing_dtype(matrix_coordinates.dtype)
        with full_precision(matrix_coordinates.device.type):
            matrix = self.matrix(matrix_coordinates.to(dtype))
            frames = self._no_frames(matrix)
            if self.frames is not None:
                frames = self.frames(frame_coordinates[0].to(dtype))
            kernel = block_orthogonal_kernel(matrix, frames, self.taps)
        kernel = from_polyphase(kernel.reshape(self.shape[0], -1, *self.taps), self.stride)
        return functional.pad(kernel, self._margins()).to(matrix_coordinates.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The coordinates of the starting kernel, when torch first asks; after that, of a given "delta" kernel."""
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
        return f"kind={self.kind!r}, stride={self.stride}, taps={self.taps}"

    def _margins(self) -> list[int]:
        """Zeros around the taps in use, as `pad` takes them: the last axis first."""
        margins: list[int] = []
        for length, taps, step in zip(self.shape[:1:-1], self.taps[::-1], self.stride[::-1], strict=True):
            missing = length - taps * step
            margins += [missing // 2, missing - missing // 2]
        return margins

    @staticmethod
    def _no_frames(matrix: Tensor) -> Tensor:
        return matrix.new_empty(*matrix.shape[:-2], 0, max(matrix.shape[-2:]), 0)
