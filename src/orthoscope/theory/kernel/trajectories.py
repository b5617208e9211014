"""Iterating a map of overlaps over many layers, for many pairs at once: a table of the angle after one layer."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

CELLS, MOST_CELLS = 16384, 262144
ACCURACY = 1e-13  # of the overlap after one layer


@dataclass(frozen=True)
class AngleTable:
    """The angle after a layer as a parabola in each of many equal cells of [0, π]."""

    parabolas: tuple[Tensor, Tensor, Tensor]  # coefficients by power, with one more cell for π itself

    def iterate(self, angle: Float[Tensor, " pairs"], depth: int) -> Float[Tensor, "layers pairs"]:
        """Overlaps (cosines) after 0, 1, …, depth layers."""
        cells = len(self.parabolas[0]) - 1
        # numpy asks for large pages: half the time of touching new memory.
        positions = torch.from_numpy(np.empty((depth + 1, len(angle))))
        # In units of cells: the table maps a position to a position. Every buffer is made once (the allocation
        # of one costs more than what is done with it), and gathers are numpy's, which take half the time of torch's.
        torch.mul(angle, cells / math.pi, out=positions[0])
        inside, value, coefficient = (torch.empty_like(positions[0]) for _ in range(3))
        cell = torch.empty_like(inside, dtype=torch.int64)
        indices, values, coefficients = cell.numpy(), value.numpy(), coefficient.numpy()
        constant, slope, curvature = (table.numpy() for table in self.parabolas)
        for before, after in pairwise(positions):
            cell.copy_(before)
            torch.frac(before, out=inside)
            curvature.take(indices, out=values, mode="clip")
            slope.take(indices, out=coefficients, mode="clip")
            torch.addcmul(coefficient, value, inside, out=value)
            constant.take(indices, out=coefficients, mode="clip")
            torch.addcmul(coefficient, value, inside, out=after)
        # All cosines in one go: a call a layer would wake the other threads every time.
        return positions.mul_(math.pi / cells).cos_()


def angle_table(angle_after: Callable[[Tensor], Tensor]) -> AngleTable:
    """The table of a map of angles, refined until overlaps are right to 1e-13 between its points."""
    cells = CELLS
    while True:
        table = _table(angle_after, cells)
        # Between the points of interpolation, where the error of a parabola is largest.
        checked = (torch.arange(cells, dtype=torch.float64) + 0.21) * (math.pi / cells)
        error = (table.iterate(checked, 1)[1] - torch.cos(angle_after(checked))).abs().max()
        if error <= ACCURACY or cells >= MOST_CELLS:
            return table
        cells *= 4


def _table(angle_after: Callable[[Tensor], Tensor], cells: int) -> AngleTable:
    angles = torch.linspace(0.0, math.pi, 2 * cells + 1, dtype=torch.float64)
    values = angle_after(angles) * (cells / math.pi)
    # The parabola through the values at both ends and in the middle of a cell.
    left, middle, right = values[:-1:2], values[1::2], values[2::2]
    curvature = 2 * (left - 2 * middle + right)
    slope = right - left - curvature
    last = torch.zeros(1, dtype=torch.float64)
    return AngleTable((torch.cat([left, values[-1:]]), torch.cat([slope, last]), torch.cat([curvature, last])))
