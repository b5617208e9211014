"""Quadrature over two correlated Gaussian variables, split along the lines where an activation is not smooth."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.panels import EVEN, REACH, panels
from orthoscope.theory.quadrature import ORDER, legendre_nodes, standard_density

MOST_NODES = 6_000_000


@dataclass(frozen=True)
class Pairs:
    r"""Nodes $(x_k, y_k)$ and weights with $\mathbb{E} f(X, Y) = \sum_k w_k f(x_k, y_k)$."""

    first: Float[Tensor, " nodes"]
    second: Float[Tensor, " nodes"]
    weights: Float[Tensor, " nodes"]

    def mean(self, values: Float[Tensor, " nodes"]) -> float:
        return float(self.weights @ values)


def gaussian_pairs(activation: Nonlinearity, variance: float, overlap: float) -> Pairs:
    r"""Nodes for $X, Y \sim \mathcal{N}(0, q)$ with correlation $\rho$, in the sum and the difference of the two:

    $$ X = \sqrt{q}\,(cU + sV), \; Y = \sqrt{q}\,(cU - sV), \quad c^2 = \tfrac{1+\rho}{2}, \; s^2 = \tfrac{1-\rho}{2} $$

    with $U, V$ independent and standard. The plane is cut where $X$ or $Y$ is at a kink or in the narrow `panels`
    of a steep activation, so that products of two of $\phi(X), \phi'(X), \phi(Y), \phi'(Y)$ are integrated to about
    1e-11, of four to 1e-9, and to rounding what is linear between kinks. Because $X - Y = 2\sqrt{q}\,sV$, differences
    keep their digits near overlap 1.
    """
    along = math.sqrt(variance * max(0.0, 1 + overlap) / 2)
    across = math.sqrt(variance * max(0.0, 1 - overlap) / 2)
    fine, corners = panels(activation, variance), torch.tensor(activation.kinks, dtype=torch.float64)
    # Two kink lines cross where X is at one kink and Y at the other: there the inner integral has a kink.
    meeting = torch.cat([(corners[:, None] - corners).flatten() / 2, fine.meetings, fine.edges])
    v, v_weights = gaussian_panels(meeting / across if across > 0 else corners[:0], _ratio(fine.width, across))
    # At given V, U is cut where X or Y is at a kink.
    shift, lines = across * v[:, None], torch.cat([corners, fine.edges])
    cuts = torch.cat([lines - shift, lines + shift], -1) / along if along > 0 else v.new_zeros(len(v), 0)
    width = _ratio(fine.width, along)
    if len(v) * ORDER * (cuts.shape[-1] + even_panels(width)) > MOST_NODES:
        raise ValueError(
            f"activation {activation.name} is too steep, or oscillates too fast, for inputs of variance {variance:.3g}"
            f": expectations over two of them take more than {MOST_NODES:.0e} points"
        )
    u, u_weights = gaussian_panels(cuts, width)
    weights = u_weights * v_weights[:, None]
    return Pairs((along * u + shift).flatten(), (along * u - shift).flatten(), weights.flatten())


def _ratio(width: float, deviation: float) -> float:
    return width / deviation if deviation > 0 else math.inf


def even_panels(width: float) -> int:
    """How many panels of at most this width, in standard deviations, cover a Gaussian."""
    return math.ceil(2 * REACH / min(width, EVEN))


def gaussian_panels(
    cuts: Float[Tensor, "*rows cuts"], width: float = EVEN
) -> tuple[Float[Tensor, "*rows nodes"], Float[Tensor, "*rows nodes"]]:
    r"""Nodes and weights with $\mathbb{E} f(Z) = \sum_k w_k f(z_k)$ for a standard Gaussian $Z$, split at the cuts."""
    grid = torch.linspace(-REACH, REACH, even_panels(width) + 1, dtype=torch.float64).expand(*cuts.shape[:-1], -1)
    edges = torch.cat([grid, cuts.clamp(-REACH, REACH)], -1).sort(-1).values
    nodes, weights = legendre_nodes(edges[..., :-1], edges[..., 1:])
    return nodes.flatten(-2), (weights * standard_density(nodes)).flatten(-2)
