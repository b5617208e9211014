"""Hermite polynomials, normalized under the standard Gaussian, and the expansion of an activation in them."""

from math import factorial, sqrt

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Choice, nonlinearity
from orthoscope.theory.quadrature import GaussianRule, gaussian_rule
from orthoscope.theory.sources import source

# he_k has waves of length 2π/√k: a panel of 15/√k holds 2.4 of them, and 24 nodes resolve these and the function.
_PANEL = 15.0


@source("joudaki2024", "Definition 5.4, Table 5.1", assumes="nothing")
def hermite_table(orders: int = 5) -> tuple[tuple[tuple[int, ...], float], ...]:
    r"""Table 5.1: integer coefficients of $\mathrm{He}_k$, lowest power first, and $1/\sqrt{k!}$.

    $$ \mathrm{He}_0 = 1, \quad \mathrm{He}_1 = x, \quad \mathrm{He}_{k+1} = x\,\mathrm{He}_k - k\,\mathrm{He}_{k-1},
    \quad \mathrm{he}_k = \mathrm{He}_k/\sqrt{k!} $$
    """
    _require_orders(orders)
    rows: list[list[int]] = [[1], [0, 1]]
    for k in range(1, orders - 1):
        shifted = [0, *rows[k]]
        lower = [*rows[k - 1], 0, 0]
        rows.append([high - k * low for high, low in zip(shifted, lower, strict=True)])
    return tuple((tuple(row), 1 / sqrt(factorial(k))) for k, row in enumerate(rows[:orders]))


@source("joudaki2024", "Definition 5.4", assumes="nothing")
def hermite_polynomials(points: Float[Tensor, "*shape"], orders: int) -> Float[Tensor, "orders *shape"]:
    r"""$\mathrm{he}_0(x), \dots, \mathrm{he}_{K-1}(x)$, orthonormal under the standard Gaussian.

    $$ \sqrt{k+1}\,\mathrm{he}_{k+1}(x) = x\,\mathrm{he}_k(x) - \sqrt{k}\,\mathrm{he}_{k-1}(x) $$

    Args:
        points: $x$.
        orders: Number $K$ of Hermite polynomials.
    """
    _require_orders(orders)
    points = points.double()
    found = [torch.ones_like(points), points]
    for k in range(1, orders - 1):
        found.append((points * found[k] - sqrt(k) * found[k - 1]) / sqrt(k + 1))
    return torch.stack(found[:orders])


@source("joudaki2024", "Definition 5.5", assumes="E φ(X)² finite")
def hermite_coefficients(activation: Choice, orders: int) -> Float[Tensor, " orders"]:
    r"""$c_k = \mathbb{E}\,\phi(X)\,\mathrm{he}_k(X)$ for $k < K$, of $\phi$ itself and not of $\phi/C$.

    Absolute error about 1e-15 of $\sqrt{\mathbb{E}\phi^2}$ up to order 400.
    """
    _require_orders(orders)
    phi = nonlinearity(activation)
    return coefficients_on(gaussian_rule(phi), phi, orders)


def coefficients_on(rule: GaussianRule, phi: Choice, orders: int) -> Float[Tensor, " orders"]:
    """The coefficients by a given rule, which is refined to resolve the polynomials."""
    function = nonlinearity(phi)
    fine = rule.refined(_PANEL / sqrt(orders))
    # Half of the density to each factor: he_k and 1/density overflow alone, their product with its root does not.
    half = torch.exp(-fine.nodes.square() / 4)
    weighted = fine.weights / half * function(fine.nodes)
    return _weighted_polynomials(fine.nodes, half, orders) @ weighted


def _weighted_polynomials(points: Tensor, weight: Tensor, orders: int) -> Tensor:
    """The same recursion times a weight; in numpy, for torch's overhead would be most of a few hundred short steps."""
    found = np.empty((orders, len(points)))
    x, found[0] = points.numpy(), weight.numpy()
    scratch = np.empty_like(x)
    if orders > 1:
        np.multiply(x, found[0], out=found[1])
    for k in range(1, orders - 1):
        np.multiply(x, found[k], out=found[k + 1])
        np.multiply(found[k - 1], sqrt(k), out=scratch)
        found[k + 1] -= scratch
        found[k + 1] *= 1 / sqrt(k + 1)
    return torch.from_numpy(found)


def _require_orders(orders: int) -> None:
    if orders < 1:
        raise ValueError(f"the number of Hermite orders is {orders}, but must be at least 1")
