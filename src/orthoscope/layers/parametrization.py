"""The parametrization of an orthonormal weight: from coordinates to the weight, and from a weight to coordinates.

`Layout` is the one place where wide weights are transposed and convolutions are unfolded to matrices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.layers.charts import CHARTS, Chart
from orthoscope.linalg import (
    group_matrices,
    nearest_frame,
    orthonormality_error,
    polar_factor,
    weight_of_group_matrices,
)
from orthoscope.linalg.precision import full_precision, to_double


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which a weight stored in `dtype` is computed: at least single precision."""
    return torch.promote_types(dtype, torch.float32)


def rounding_tolerance(dtype: torch.dtype, rows: int) -> float:
    r"""The largest $\max|W^\mathsf{H}W - I|$ of an orthonormal matrix with that many rows, stored in `dtype`.

    $$ 2\varepsilon_\text{stored} + 10 \sqrt{\text{rows}}\, \varepsilon_\text{computed} $$

    Rounding the entries of unit columns changes an inner product by $\varepsilon$ at most. The second term is for
    how the matrix was computed, in single precision or better: QR measures $2\sqrt{\text{rows}}\,\varepsilon$.
    """
    stored, computed = torch.finfo(dtype).eps, torch.finfo(computing_dtype(dtype)).eps
    return 2 * stored + 10 * math.sqrt(rows) * computed


def as_once_stored(values: Tensor) -> Tensor:
    """The same numbers in the half-precision type that represents them exactly, if there is one.

    They were rounded to it before: in a bfloat16 checkpoint that was converted back, for example.
    """
    if values.is_floating_point() and not values.is_meta:
        for dtype in (torch.bfloat16, torch.float16):
            rounded = values.to(dtype)
            if torch.equal(rounded.to(values.dtype), values):
                return rounded
    return values


@dataclass(frozen=True)
class Layout:
    """How a weight of a given shape is read: a matrix, a batch of matrices, or one matrix a group of a convolution."""

    shape: tuple[int, ...]
    groups: int | None = None  # of a convolution; None for anything else
    transposed: bool = False  # the weight of a transposed convolution

    @classmethod
    def of(cls, module: nn.Module, name: str) -> "Layout":
        """The layout of a parameter of a module."""
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
        # One group is one matrix, not a batch of one.
        batch = () if self.groups == 1 else (self.groups,)
        return (*batch, out, math.prod(self.shape) // (self.groups * out))

    @cached_property
    def frame_shape(self) -> tuple[int, ...]:
        """`(*batch, rows, columns)` with rows >= columns."""
        *batch, out, fan_in = self.matrices_shape
        return (*batch, max(out, fan_in), min(out, fan_in))

    @cached_property
    def is_wide(self) -> bool:
        """Whether matrices have fewer rows than columns, so that frames are their transposes."""
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


@final
class OrthogonalParametrization(nn.Module):
    r"""$W = \text{frame}(\text{coordinates}, \text{anchor})$, registered by `orthoscope.layers.orthogonal`.

    The coordinates are torch's `original` and belong to the optimizer. The anchor is a buffer, which no optimizer and
    no weight decay changes. `map` is the map in use, `determinants` the component of the orthogonal group.
    """

    def __init__(
        self,
        layout: Layout,
        map: str,
        size: int | None,
        *,
        dtype: torch.dtype,
        device: torch.device,
        chosen: bool,
        path: str,
    ) -> None:
        """Allocate the anchor; `right_inverse` sets it.

        Args:
            layout: How the weight is read as matrices.
            map: A name in `CHARTS`.
            size: Number of reflections or pivots of a partial family, None for all frames.
            dtype: Type of the coordinates.
            device: Device of the anchor.
            chosen: True if `map` was chosen by "auto", for `repr`.
            path: Path from the layer to this module, for messages.
        """
        super().__init__()
        self.layout, self.map, self.size, self.chosen, self.path = layout, map, size, chosen, path
        # The type in which the coordinates are stored; the anchor keeps at least single precision.
        self.dtype = dtype
        *batch, rows, columns = layout.frame_shape
        shape = (*batch, rows, columns) if self.chart.anchored_by_frame else (*batch, columns)
        self.register_buffer(self.anchor_name, torch.empty(shape, dtype=computing_dtype(dtype), device=device))

    @property
    def chart(self) -> Chart:
        """The map and its inverse."""
        return CHARTS[self.map]

    @property
    def anchor_name(self) -> str:
        """Contains the map, so that coordinates of one map cannot be loaded into another."""
        return f"{self.map}_anchor"

    @property
    def anchor(self) -> Tensor:
        """The constant part: the sign of every column, or a whole frame."""
        anchor: Tensor = getattr(self, self.anchor_name)
        return anchor

    @anchor.setter
    def anchor(self, value: Tensor) -> None:
        setattr(self, self.anchor_name, value)

    def forward(self, coordinates: Tensor) -> Tensor:
        """The weight from its coordinates."""
        dtype = computing_dtype(coordinates.dtype)
        with full_precision(coordinates.device.type):
            rows = self.layout.frame_shape[-2]
            frame = self.chart.frame(coordinates.to(dtype), self.anchor.to(dtype), rows, self.size)
        return self.layout.weight(frame).to(coordinates.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The coordinates of an orthonormal weight, for which the anchor is set; ValueError for any other weight."""
        coordinates, anchor = self.coordinates(weight)
        self.anchor.copy_(anchor)
        return coordinates

    @torch.no_grad()
    def coordinates(self, weight: Tensor, tolerance: float | None = None) -> tuple[Tensor, Tensor]:
        """Coordinates and anchor of a weight that is orthonormal up to `tolerance`.

        By default the rounding of the coarser of two types, the weight's and the layer's, is tolerated.
        """
        self._check_kind(weight)
        if weight.is_meta:
            *batch, rows, columns = self.layout.frame_shape
            shape = (*batch, *self.chart.coordinates_shape(rows, columns, self.size))
            return torch.empty(shape, dtype=self.dtype, device="meta"), torch.empty_like(self.anchor, device="meta")
        frame = to_double(self.layout.frame(weight.detach()))
        error = orthonormality_error(frame).max().item()
        if tolerance is None:
            tolerance = max(rounding_tolerance(dtype, frame.shape[-2]) for dtype in (weight.dtype, self.dtype))
        if not math.isfinite(error):
            raise ValueError(
                "this layer holds orthonormal weights only, got one with nan or infinite entries: repair it"
            )
        if error > tolerance:
            raise ValueError(
                f"this layer holds orthonormal weights only, and max |W'W - I| of this one is {error:.2g}, more than "
                f"{tolerance:.2g}: give it the nearest one, `layer.{self.path}.nearest(weight)`"
            )
        # Removes the rounding of the given type, which an anchor would keep.
        frame = nearest_frame(frame)
        if self.size is not None:
            # Membership in a partial family is tested to the precision of the layer.
            frame = frame.to(self.anchor.dtype)
        coordinates, anchor = self.chart.coordinates(frame, self.size)
        self._check_member(frame, coordinates, anchor, tolerance)
        return coordinates.to(self.dtype).contiguous(), anchor.to(self.anchor.dtype)

    @torch.no_grad()
    def nearest(self, weight: Tensor) -> Tensor:
        """The nearest orthonormal weight, matrix by matrix as this layer reads them (one for each group, say)."""
        return self.layout.weight(polar_factor(self.layout.frame(weight.detach())))

    @property
    def determinants(self) -> Tensor | None:
        """+1 or -1 for every matrix of the weight, constant during training; None if it is not square and real."""
        rows, columns = self.layout.frame_shape[-2:]
        if rows != columns or self.dtype.is_complex or self.anchor.is_meta:
            return None
        return self.chart.determinant(self.anchor, self.size).round().int()

    def extra_repr(self) -> str:
        """Map, shape, size of a partial family, and determinants."""
        rows = self.layout.frame_shape[-2]
        parts = [f"map={self.map!r}" + (" (chosen by 'auto')" if self.chosen else "")]
        parts.append(" x ".join(map(str, self.layout.matrices_shape)))
        if self.size is not None and self.chart.partial is not None:
            parts.append(self.chart.partial.description(rows, self.size))
        determinants = self.determinants
        if determinants is not None:
            values = sorted(set(determinants.flatten().tolist()))
            parts.append("determinant=" + " and ".join(f"{value:+d}" for value in values))
        return ", ".join(parts)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "OrthogonalParametrization":
        """Change device or type. The anchor keeps full precision: rounded, it would not be orthonormal."""
        before = self.anchor
        stored = fn(torch.empty(0, dtype=self.dtype, device=before.device)).dtype
        super()._apply(fn, recurse)
        self.dtype, computed = stored, computing_dtype(stored)
        if before.dtype != computed or self.anchor.dtype != computed:
            anchor = before.to(device=self.anchor.device, dtype=computed)
            rises = torch.finfo(anchor.dtype).eps < torch.finfo(before.dtype).eps
            self.anchor = polar_factor(anchor) if rises and self.chart.anchored_by_frame else anchor
        return self

    def _check_kind(self, weight: Tensor) -> None:
        if not isinstance(weight, Tensor):
            raise TypeError(f"this layer holds tensors, got {type(weight).__name__}: use torch.as_tensor(weight)")
        if tuple(weight.shape) != self.layout.shape:
            raise ValueError(f"this layer holds weights of shape {self.layout.shape}, got {tuple(weight.shape)}")
        if not (weight.is_floating_point() or weight.is_complex()) or weight.is_complex() != self.dtype.is_complex:
            raise ValueError(f"this layer holds weights of {self.dtype}, got {weight.dtype}: convert the weight first")

    def _check_member(self, frame: Tensor, coordinates: Tensor, anchor: Tensor, allowed: float) -> None:
        """Raise ValueError for a weight that would change: outside a partial family, or with too large coordinates."""
        kind = self.anchor.dtype
        again = self.chart.frame(coordinates.to(kind), anchor.to(kind), frame.shape[-2], self.size)
        distance = (again - frame).abs().max().item()
        if distance <= allowed:
            return
        if self.size is None:
            others = " or ".join(repr(name) for name in ("householder", "exponential") if name != self.map)
            raise ValueError(
                f"the coordinates of this weight for map {self.map!r} are too large for {kind}, which would move it by "
                f"{distance:.2g}: choose {others}"
            )
        raise ValueError(
            f"this layer holds a partial family ({self.extra_repr()}), and the weight is {distance:.2g} away from "
            "it: give the layer its full number of reflections or rotations to hold any orthonormal weight"
        )
