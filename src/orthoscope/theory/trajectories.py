"""Iterating a map of overlaps over many layers, for many pairs at once: a table of the angle after one layer."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

CELLS, MOST_CELLS = 4096, 65536
ACCURACY = 1e-13  # of the overlap after one layer


@dataclass(frozen=True)
class AngleTable:
    """The angle after a layer as a cubic in each of many equal cells of [0, π]."""

    cubics: tuple[Tensor, Tensor, Tensor, Tensor]  # coefficients by power, and one constant cell for π itself

    def iterate(self, angle: Float[Tensor, " pairs"], depth: int) -> Float[Tensor, "layers pairs"]:
        """Overlaps (cosines) after 0, 1, …, depth layers."""
        cells = len(self.cubics[0]) - 1
        overlaps = torch.empty(depth + 1, len(angle), dtype=torch.float64)
        torch.cos(angle, out=overlaps[0])
        # In units of cells: the table maps a position to a position. Every buffer is made once (the allocation
        # of one costs more than what is done with it), and gathers are numpy's, which take half the time of torch's.
        position = angle * (cells / math.pi)
        inside, gathered = torch.empty_like(position), torch.empty_like(position)
        cell = torch.empty_like(position, dtype=torch.int64)
        indices, highest, others = cell.numpy(), position.numpy(), gathered.numpy()
        tables = [table.numpy() for table in self.cubics]
        for overlap in overlaps[1:]:
            cell.copy_(position)
            torch.frac(position, out=inside)
            tables[3].take(indices, out=highest, mode="clip")
            for table in tables[2::-1]:
                table.take(indices, out=others, mode="clip")
                torch.addcmul(gathered, position, inside, out=position)
            torch.mul(position, math.pi / cells, out=overlap).cos_()
        return overlaps


def angle_table(angle_after: Callable[[Tensor], Tensor]) -> AngleTable:
    """The table of a map of angles, refined until overlaps are right to 1e-13 between its points."""
    cells = CELLS
    while True:
        table = _table(angle_after, cells)
        # Between the points of interpolation, where the error of a cubic is largest.
        checked = (torch.arange(cells, dtype=torch.float64) + 0.13) * (math.pi / cells)
        error = (table.iterate(checked, 1)[1] - torch.cos(angle_after(checked))).abs().max()
        if error <= ACCURACY or cells >= MOST_CELLS:
            return table
        cells *= 4


def _table(angle_after: Callable[[Tensor], Tensor], cells: int) -> AngleTable:
    angles = torch.linspace(0.0, math.pi, 3 * cells + 1, dtype=torch.float64)
    values = angle_after(angles) * (cells / math.pi)
    # The cubic through four equally spaced values of a cell, by Newton's forward differences in thirds.
    first, second, third, fourth = values[:-1:3], values[1::3], values[2::3], values[3::3]
    one = second - first
    two = third - 2 * second + first
    three = fourth - 3 * third + 3 * second - first
    linear = 3 * (one - two / 2 + three / 3)
    last = torch.zeros(1, dtype=torch.float64)
    powers = (linear, 4.5 * (two - three), 4.5 * three)
    return AngleTable((torch.cat([first, values[-1:]]), *(torch.cat([power, last]) for power in powers)))
