"""RA4: the largest singular value of block i falls as 1/i."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Leading = Float[Tensor, "*batch blocks"]
# Blocks this far below the strongest are dead: weight decay or a zero-initialised branch made them so, and their 1/σ
# is no point of any line.
DEAD = 1e-6


class DepthLaw(NamedTuple):
    r"""A line through $1/\sigma_1(J_i)$ over $i = 1, 2, \dots$, and the exponent of $\sigma_1 \propto i^{\,p}$."""

    slope: Tensor
    intercept: Tensor
    r_squared: Tensor
    exponent: Tensor


def dead_blocks(leading: Leading) -> Bool[Tensor, "*batch blocks"]:
    """Blocks that do nothing: a largest singular value of zero, or a millionth of the largest there is."""
    return ~(leading > DEAD * leading.amax(-1, keepdim=True))


def depth_law(leading: Leading) -> DepthLaw:
    r"""Least squares of $1/\sigma_1(J_i)$ on depth $i$ from 1, dead blocks left out; nan with fewer than three others.

    Slope 1 is what an aligned network with equally spaced representations has (`theory.equispacing_singular_values`),
    exponent $-1$ is the law $1/i$, 0 is the unconstrained Jacobians model.
    """
    values = leading.double()
    alive = ~dead_blocks(leading)
    depth = torch.arange(1, values.shape[-1] + 1, dtype=torch.float64, device=values.device).expand_as(values)
    safe = torch.where(alive, values, 1.0)
    slope, intercept, r_squared = _line(depth, 1 / safe, alive)
    exponent, _, _ = _line(depth.log(), safe.log(), alive)
    return DepthLaw(slope, intercept, r_squared, exponent)


def _line(x: Tensor, y: Tensor, counted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Slope, intercept and $R^2 = 1 - \sum(y - \hat y)^2/\sum(y - \bar y)^2$ over the points that count."""
    weight = counted.double()
    number = weight.sum(-1, keepdim=True)
    mean_x, mean_y = ((weight * value).sum(-1, keepdim=True) / number for value in (x, y))
    across, up = weight * (x - mean_x), weight * (y - mean_y)
    slope = (across * up).sum(-1) / across.square().sum(-1)
    residual = up - slope.unsqueeze(-1) * across
    r_squared = 1 - residual.square().sum(-1) / up.square().sum(-1)
    intercept = mean_y.squeeze(-1) - slope * mean_x.squeeze(-1)
    unknown = torch.where(number.squeeze(-1) < 3, torch.nan, 0.0)
    return slope + unknown, intercept + unknown, r_squared + unknown
