"""A weight as frames, and back: the one place where wide weights are transposed and convolutions unfolded."""

import math
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.linalg import group_matrices, weight_of_group_matrices


@dataclass(frozen=True)
class Layout:
    """How a weight of a given shape is read: a matrix, a batch of matrices, or one matrix a group of a convolution."""

    shape: tuple[int, ...]
    groups: int | None = None  # of a convolution; None for anything else
    transposed: bool = False  # the weight of a transposed convolution

    @classmethod
    def of(cls, module: nn.Module, name: str) -> "Layout":
        shape = tuple(getattr(module, name).shape)
        if isinstance(module, _ConvNd) and name == "weight":
            return cls(shape, module.groups, module.transposed)
        return cls(shape)

    @cached_property
    def matrices_shape(self) -> tuple[int, ...]:
        """`(*batch, out, in)`, as a linear layer multiplies by them."""
        if self.groups is None:
            return self.shape
        out = self.shape[1] if self.transposed else self.shape[0] // self.groups
        # One group is one matrix, not a batch of one: single products are faster.
        batch = () if self.groups == 1 else (self.groups,)
        return (*batch, out, math.prod(self.shape) // (self.groups * out))

    @cached_property
    def frame_shape(self) -> tuple[int, ...]:
        """`(*batch, rows, columns)` with rows >= columns."""
        *batch, out, fan_in = self.matrices_shape
        return (*batch, max(out, fan_in), min(out, fan_in))

    @cached_property
    def is_wide(self) -> bool:
        return self.matrices_shape[-2] < self.matrices_shape[-1]

    def frame(self, weight: Tensor) -> Tensor:
        """The matrix that a linear layer multiplies by, or its transpose if it is wide."""
        matrices = weight
        if self.groups is not None:
            matrices = group_matrices(weight, self.groups, self.transposed).reshape(self.matrices_shape)
        return matrices.mT if self.is_wide else matrices

    def weight(self, frame: Tensor) -> Tensor:
        """The weight whose `frame` this is."""
        matrices = frame.mT if self.is_wide else frame
        if self.groups is None:
            return matrices
        stacked = matrices.unsqueeze(0) if self.groups == 1 else matrices
        return weight_of_group_matrices(stacked, self.shape, self.transposed)
