"""The module that torch calls to turn coordinates into an orthonormal weight, and a weight into coordinates."""

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from orthoscope.layers.charts import CHARTS, Chart
from orthoscope.layers.layout import Layout
from orthoscope.layers.rounding import computing_dtype, rounding_tolerance
from orthoscope.linalg import orthonormality_error, polar_factor
from orthoscope.linalg.nearest_frame import nearest_frame
from orthoscope.linalg.precision import full_precision


@final
class OrthogonalParametrization(nn.Module):
    r"""$W = \text{frame}(\text{coordinates}, \text{anchor})$, made by `orthoscope.layers.orthogonal`.

    The coordinates are torch's `original` and belong to the optimizer. The anchor is a buffer: no optimizer and no
    weight decay reaches it. `map` is the map in use, `determinants` the component of the orthogonal group.
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
        """`size` is that of a partial family, None for all frames; `chosen` says that "auto" took the map.

        `path` leads from the layer to this module, for messages.
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
        return CHARTS[self.map]

    @property
    def anchor_name(self) -> str:
        """With the map in it: coordinates of one map, loaded into another, would be a wrong weight without a word."""
        return f"{self.map}_anchor"

    @property
    def anchor(self) -> Tensor:
        anchor: Tensor = getattr(self, self.anchor_name)
        return anchor

    @anchor.setter
    def anchor(self, value: Tensor) -> None:
        setattr(self, self.anchor_name, value)

    def forward(self, coordinates: Tensor) -> Tensor:
        dtype = computing_dtype(coordinates.dtype)
        with full_precision(coordinates.device.type):
            rows = self.layout.frame_shape[-2]
            frame = self.chart.frame(coordinates.to(dtype), self.anchor.to(dtype), rows, self.size)
        return self.layout.weight(frame).to(coordinates.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """The coordinates of an orthonormal weight; moves the anchor with them. ValueError for any other weight."""
        coordinates, anchor = self.coordinates(weight)
        self.anchor.copy_(anchor)
        return coordinates

    @torch.no_grad()
    def coordinates(self, weight: Tensor, tolerance: float | None = None) -> tuple[Tensor, Tensor]:
        """Coordinates and anchor of a weight that is orthonormal up to `tolerance`, by default rounding.

        That of the coarser of two types, the weight's and the layer's.
        """
        self._check_kind(weight)
        if weight.is_meta:
            *batch, rows, columns = self.layout.frame_shape
            shape = (*batch, *self.chart.coordinates_shape(rows, columns, self.size))
            return torch.empty(shape, dtype=self.dtype, device="meta"), torch.empty_like(self.anchor, device="meta")
        frame = self.layout.frame(weight.detach())
        frame = frame.to(torch.promote_types(frame.dtype, torch.float64))
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
        # The rounding of the given type is undone, or an anchor would keep it.
        frame = nearest_frame(frame.reshape(-1, *frame.shape[-2:])).view_as(frame)
        if self.size is not None:
            # Whether a frame is in a partial family is judged by the precision it comes in.
            frame = frame.to(self.anchor.dtype)
        coordinates, anchor = self.chart.coordinates(frame, self.size)
        self._check_member(frame, coordinates, anchor, tolerance)
        return coordinates.to(self.dtype).contiguous(), anchor.to(self.anchor.dtype)

    @torch.no_grad()
    def nearest(self, weight: Tensor) -> Tensor:
        """The orthonormal weight nearest to a given one, in the sense of this layer (a matrix a group, say)."""
        return self.layout.weight(polar_factor(self.layout.frame(weight.detach())))

    @property
    def determinants(self) -> Tensor | None:
        """+1 or -1 for every matrix of the weight, which training cannot change; None if not square and real."""
        rows, columns = self.layout.frame_shape[-2:]
        if rows != columns or self.dtype.is_complex or self.anchor.is_meta:
            return None
        return self.chart.determinant(self.anchor, self.size).round().int()

    def extra_repr(self) -> str:
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
        """Another device or type. The anchor stays at full precision: rounded, it would not be orthonormal."""
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
        """Refuse a weight that would change: not in a partial family, or with coordinates too large for their type."""
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
