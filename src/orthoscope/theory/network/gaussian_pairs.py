"""Quadrature over two correlated Gaussian variables, split along the lines where an activation is not smooth."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.quadrature import legendre_nodes, standard_density

REACH = 9.0  # beyond 9 standard deviations a Gaussian holds 2e-19
_PANELS = 5  # of 24 nodes each: exact to rounding for what varies on the scale of a standard deviation
# Where the standard deviation is larger, the panels are cut around 0, where activations vary on the scale of 1.
_LARGE_DEVIATION = 3.0
_AROUND_ZERO = (0.0, 4.0, 30.0)


@dataclass(frozen=True)
class Pairs:
    r"""Nodes $(x_k, y_k)$ and weights with $\mathbb{E} f(X, Y) = \sum_k w_k f(x_k, y_k)$."""

    first: Float[Tensor, " nodes"]
    second: Float[Tensor, " nodes"]
    weights: Float[Tensor, " nodes"]

    def mean(self, values: Float[Tensor, " nodes"]) -> float:
        return float(self.weights @ values)


def gaussian_pairs(variance: float, overlap: float, kinks: tuple[float, ...] = (), *, bends: bool = True) -> Pairs:
    r"""Nodes for $X, Y \sim \mathcal{N}(0, q)$ with correlation $\rho$, in the sum and the difference of the two:

    $$ X = \sqrt{q}\,(cU + sV), \; Y = \sqrt{q}\,(cU - sV), \quad c^2 = \tfrac{1+\rho}{2}, \; s^2 = \tfrac{1-\rho}{2} $$

    with $U, V$ independent and standard. The plane is cut where $X$ or $Y$ is at a kink, so that a function
    that is smooth between kinks, and varies on the scale of 1 around 0 or on that of $\sqrt{q}$, is integrated
    to rounding; without `bends` it has to be linear between kinks. Because $X - Y = 2\sqrt{q}\,sV$, differences
    keep their digits when the overlap is close to 1.
    """
    along = math.sqrt(variance * max(0.0, 1 + overlap) / 2)
    across = math.sqrt(variance * max(0.0, 1 - overlap) / 2)
    lines, corners = cut_points(variance, kinks, bends), torch.tensor(kinks, dtype=torch.float64)
    # Two kink lines cross where X is at one kink and Y at the other: there the inner integral has a kink.
    meeting = torch.cat([(corners[:, None] - corners).flatten() / 2, lines[len(corners) :]])
    v, v_weights = gaussian_panels(meeting / across if across > 0 else lines[:0])
    # At given V, U is cut where X or Y is at a kink.
    shift = across * v[:, None]
    cuts = torch.cat([lines - shift, lines + shift], -1) / along if along > 0 else v.new_zeros(len(v), 0)
    u, u_weights = gaussian_panels(cuts)
    weights = u_weights * v_weights[:, None]
    return Pairs((along * u + shift).flatten(), (along * u - shift).flatten(), weights.flatten())


def cut_points(variance: float, kinks: tuple[float, ...], bends: bool) -> Float[Tensor, " cuts"]:
    """The kinks, and for what bends between them points around 0 if the variance is large."""
    around = _AROUND_ZERO if bends and variance > _LARGE_DEVIATION**2 else ()
    return torch.tensor([*kinks, *around, *(-point for point in around[1:])], dtype=torch.float64)


@lru_cache(maxsize=128)
def bends(activation: Nonlinearity) -> bool:
    """Whether the activation is anything but linear between its kinks."""
    points = torch.linspace(-40, 40, 1601, dtype=torch.float64) + 0.0123  # off round numbers, where kinks are
    slopes = activation.derivative(points)
    part = torch.searchsorted(torch.tensor(activation.kinks, dtype=torch.float64), points)
    return any(bool((slopes[part == index] != slopes[part == index][0]).any()) for index in part.unique())


def gaussian_panels(
    cuts: Float[Tensor, "*rows cuts"],
) -> tuple[Float[Tensor, "*rows nodes"], Float[Tensor, "*rows nodes"]]:
    r"""Nodes and weights with $\mathbb{E} f(Z) = \sum_k w_k f(z_k)$ for a standard Gaussian $Z$, split at the cuts."""
    grid = torch.linspace(-REACH, REACH, _PANELS + 1, dtype=torch.float64).expand(*cuts.shape[:-1], -1)
    edges = torch.cat([grid, cuts.clamp(-REACH, REACH)], -1).sort(-1).values
    nodes, weights = legendre_nodes(edges[..., :-1], edges[..., 1:])
    return nodes.flatten(-2), (weights * standard_density(nodes)).flatten(-2)
