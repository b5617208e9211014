"""Functions of an angle in [0, π]: Chebyshev interpolation to rounding, and tables for iterating a map of angles.

`angle_series` interpolates a smooth function with as many points as it needs. `angle_table` tabulates the angle after
one layer, so that many pairs can be followed through many layers at the cost of a lookup.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

FEWEST, MOST = 32, 512  # interpolation points
ROUNDING = 2e-14  # relative to the largest coefficient
# Doubling the points at least squares the unresolved part: if it is larger than this power, 512 points do not suffice.
HOPELESS = 1e-5
CELLS, MAX_CELLS = 16384, 262144  # of a table
ACCURACY = 1e-13  # of the overlap after one layer


@dataclass(frozen=True)
class AngleSeries:
    r"""$f(\theta) = \sum_k a_k T_k(1 - 2\theta/\pi)$ on $[0, \pi]$."""

    coefficients: Float[Tensor, " terms"]
    unresolved: float  # the largest of the last coefficients: the error of the interpolation

    def __call__(self, angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Clenshaw's recursion."""
        x = 1 - angle * (2 / math.pi)
        doubled = 2 * x
        later, latest = torch.zeros_like(x), torch.zeros_like(x)
        for coefficient in reversed(self.coefficients[1:].tolist()):
            later, latest = latest, torch.addcmul(coefficient - later, doubled, latest)
        return float(self.coefficients[0]) + x * latest - later

    def at_zero(self, order: int) -> float:
        r"""The derivative $f^{(m)}(0)$, $m \le 2$: $T_k'(1) = k^2$ and $T_k''(1) = k^2(k^2-1)/3$."""
        squares = torch.arange(len(self.coefficients), dtype=torch.float64).square()
        slopes = (torch.ones_like(squares), squares, squares * (squares - 1) / 3)[order]
        return float((-2 / math.pi) ** order * (self.coefficients * slopes).sum())


def angle_series(function: Callable[[Tensor], Tensor]) -> AngleSeries:
    """Interpolate at Chebyshev points, doubled until the last coefficients are rounding errors or 512 are too few."""
    points = FEWEST
    values = function(_angles(points))
    while True:
        coefficients = _coefficients(values)
        largest = float(coefficients.abs().max())
        unresolved = float(coefficients[-points // 8 :].abs().max())
        if unresolved <= ROUNDING * largest or points == MOST or unresolved > largest * HOPELESS ** (points / MOST):
            needed = (coefficients.abs() > ROUNDING * largest / 100).nonzero()
            return AngleSeries(coefficients[: int(needed[-1]) + 1 if len(needed) else 1], unresolved)
        points *= 2
        finer = torch.empty(points + 1, dtype=torch.float64)
        finer[::2], finer[1::2] = values, function(_angles(points)[1::2])
        values = finer


def _angles(points: int) -> Tensor:
    # Half-angle form: angles near 0 have full relative precision.
    return math.pi * torch.sin(torch.arange(points + 1, dtype=torch.float64) * (math.pi / 2 / points)).square()


def _coefficients(values: Tensor) -> Tensor:
    """Cosine transform of the values at the points, by the real Fourier transform of their even extension."""
    points = len(values) - 1
    coefficients = torch.fft.rfft(torch.cat([values, values[1:-1].flip(0)])).real / points
    coefficients[0] /= 2
    coefficients[-1] /= 2
    return coefficients


@dataclass(frozen=True)
class AngleTable:
    """The angle after a layer, as a parabola in each of many equal cells of [0, π]."""

    parabolas: tuple[Tensor, Tensor, Tensor]  # coefficients by power, with one more cell for π itself

    def iterate(self, angle: Float[Tensor, " pairs"], depth: int) -> Float[Tensor, "layers pairs"]:
        """Overlaps (cosines) after 0, 1, …, depth layers."""
        cells = len(self.parabolas[0]) - 1
        positions = torch.from_numpy(np.empty((depth + 1, len(angle))))
        # In units of cells: the table maps a position to a position. Buffers are allocated once, not per layer, and
        # numpy's `take` gathers faster than torch's indexing.
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
        # One call for all layers: the overhead of a call per layer would dominate.
        return positions.mul_(math.pi / cells).cos_()


def angle_table(angle_after: Callable[[Tensor], Tensor]) -> AngleTable:
    """Tabulate a map of angles, refined until overlaps are accurate to 1e-13 between its points."""
    cells = CELLS
    while True:
        table = _table(angle_after, cells)
        # Between the interpolation points, where the error of a parabola is largest.
        checked = (torch.arange(cells, dtype=torch.float64) + 0.21) * (math.pi / cells)
        error = (table.iterate(checked, 1)[1] - torch.cos(angle_after(checked))).abs().max()
        if error <= ACCURACY or cells >= MAX_CELLS:
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
