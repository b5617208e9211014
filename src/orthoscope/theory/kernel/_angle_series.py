"""Smooth functions of an angle in [0, π]: Chebyshev interpolation to rounding, with as many points as it needs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

FEWEST, MOST = 32, 512  # interpolation points
ROUNDING = 2e-14  # relative to the largest coefficient
# Doubling the points at least squares the unresolved part: if it is larger than this power, 512 points do not suffice.
HOPELESS = 1e-5


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
