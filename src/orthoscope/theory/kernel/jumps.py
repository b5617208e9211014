r"""What the jumps of an activation add to the slope of its kernel map: $\phi'$ has a point mass at each of them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.kernel.overlap_loss import GaussianPair
from orthoscope.theory.quadrature import BULK, legendre_nodes, standard_density


def jump_slope(pair: GaussianPair, angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Terms of $\mathbb{E}\,\phi'(X)\phi'(Y)$ with a jump $v_i$ at $a_i$, where $\psi$ is the slope off the jumps.

    $$ 2\sum_i v_i\,p(a_i)\,\mathbb{E}[\psi(Y) \mid X = a_i] + \sum_{ij} v_i v_j\,p_\rho(a_i, a_j) $$

    with $p$ the density of one, $p_\rho$ of two standard Gaussians. Infinite at 0; at $\pi$ if jumps lie opposite.
    """
    total = torch.zeros_like(angle)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    for kink, jump in pair.jumps:
        weight = jump * float(standard_density(torch.tensor(kink, dtype=torch.float64)))
        total = total + 2 * weight * _conditional_mean(pair.slope, kink * cosine, sine)
        for other, other_jump in pair.jumps:
            # x² - 2ρxy + y² = (x-y)² (1+ρ)/2 + (x+y)² (1-ρ)/2, over sin² = (1-ρ)(1+ρ): nothing cancels at either end.
            near, far = 2 * torch.sin(angle / 2).square(), 2 * torch.cos(angle / 2).square()
            exponent = _quotient((kink - other) ** 2, 2 * near) + _quotient((kink + other) ** 2, 2 * far)
            density = torch.exp(-exponent / 2) / (2 * math.pi * sine)
            total = total + jump * other_jump * torch.where(exponent.isinf(), 0.0, density)
    return total


def _quotient(numerator: float, denominator: Tensor) -> Tensor:
    return numerator / denominator if numerator else torch.zeros_like(denominator)


def _conditional_mean(pair: GaussianPair, mean: Tensor, deviation: Tensor) -> Tensor:
    """E ψ(mean + deviation·Z), split where the argument meets an edge of a panel of ψ."""
    even = torch.linspace(-BULK, BULK, 7, dtype=torch.float64).expand(*mean.shape, -1)
    cuts = ((pair.rule.edges - mean[..., None]) / deviation[..., None].clamp(min=1e-300)).clamp(-BULK, BULK)
    edges = torch.cat([even, cuts], dim=-1).sort(dim=-1).values
    nodes, weights = legendre_nodes(edges[..., :-1], edges[..., 1:])
    values = pair.phi(mean[..., None, None] + deviation[..., None, None] * nodes)
    return (weights * standard_density(nodes) * values).sum((-2, -1))
