"""Where a function of one number, its slope or its curvature jumps: bisection of every cell of a fine grid."""

from collections.abc import Callable

import torch
from torch import Tensor

SEARCHED = 20.0  # |x| beyond this has Gaussian probability 6e-89
CELLS = 8000
# A jump smaller than this share of the largest value is not seen, and would move no integral by more.
SMALLEST_JUMP = 1e-9
BISECTIONS = 46  # cells of 5e-3 down to 7e-17


def slope_of(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    r"""$\phi'$ by automatic differentiation, itself differentiable; 0 for what does not depend on its argument."""

    def slope(points: Tensor) -> Tensor:
        differentiated_again = points.requires_grad
        with torch.enable_grad():
            argument = points if differentiated_again else points.detach().requires_grad_(True)
            # A clone: a function that works in place may not write on a leaf.
            values = function(argument.clone())
            if not values.requires_grad:
                return torch.zeros_like(points)
            (found,) = torch.autograd.grad(
                values.sum(), argument, create_graph=differentiated_again, allow_unused=True, materialize_grads=True
            )
        return found.to(points.dtype)

    return slope


def kinks_of(function: Callable[[Tensor], Tensor]) -> tuple[float, ...]:
    """Points of [-20, 20] where the function, its slope or its curvature jumps, to rounding.

    Every cell of the grid is halved towards its larger change: where the function is smooth the
    change vanishes with the width, where it jumps it does not. Two jumps in one cell (0.005 wide) show as one.
    """
    # The grid is shifted so that round numbers, the usual kinks, are inside the cells.
    grid = torch.linspace(-SEARCHED, SEARCHED, CELLS + 1, dtype=torch.float64) + 1.23456e-3
    found: list[float] = []
    for derivative in (function, slope_of(function), slope_of(slope_of(function))):
        found += _jumps(derivative, grid)
    return tuple(sorted(set(found)))


def _jumps(function: Callable[[Tensor], Tensor], grid: Tensor) -> list[float]:
    at = function(grid.clone()).detach()
    scale = at[at.isfinite()].abs().max()
    left, right, at_left, at_right = grid[:-1], grid[1:], at[:-1], at[1:]
    for _ in range(BISECTIONS):
        middle = (left + right) / 2
        at_middle = function(middle.clone()).detach()
        go_left = (at_middle - at_left).abs() >= (at_right - at_middle).abs()
        left, right = torch.where(go_left, left, middle), torch.where(go_left, middle, right)
        at_left, at_right = torch.where(go_left, at_left, at_middle), torch.where(go_left, at_middle, at_right)
        jumps = (at_right - at_left).abs() > SMALLEST_JUMP * scale
        left, right, at_left, at_right = left[jumps], right[jumps], at_left[jumps], at_right[jumps]
    return [_rounded(point) for point in ((left + right) / 2).tolist()]


def _rounded(point: float) -> float:
    """The nearest number of twelve digits if it is as good: the kinks people write are round."""
    short = round(point, 12) + 0.0
    return short if abs(short - point) <= 1e-15 * max(1.0, abs(point)) else point
