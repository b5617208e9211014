r"""Averages over Gaussian samples after batch normalization, which are points of a sphere: two coordinates suffice.

One unit's values on a batch of $n$ samples, $h \sim \mathcal{N}(0, G)$ with $G$ exchangeable (one number on the
diagonal, one off it), are normalized to $y \in \mathbb{R}^n$, $\|y\|^2 = n$. Every average the theory needs is of a
function of two coordinates and the mean of all: $E f(y_1, y_2, \bar y)$, which is at most three integrals.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

Nodes = Float[Tensor, " nodes"]

# Nodes on a piece, and its length in a coordinate's deviations: what varies on the scale of 1 is exact to rounding.
NODES, PIECE = 24, 2.0
# A coordinate is close to a standard Gaussian: beyond so many deviations finite averages have no mass.
DEVIATIONS = 13.0
# Pieces of a small sphere, which a stretched law needs and the uniform one does not.
LEAST = 6
MOST_NODES = 20_000_000
# Probability that a stretched law may lose to the fixed nodes before it is refused.
TOLERANCE = 1e-6


class PairLaw(NamedTuple):
    r"""The joint law of $(y_1, y_2, \bar y)$ as nodes and weights, which sum to 1."""

    first: Nodes
    second: Nodes
    mean: Nodes
    weight: Nodes

    def average(self, values: Nodes) -> float:
        r"""$E f(y_1, y_2, \bar y)$ from the values of $f$ at the nodes."""
        return float((self.weight * values).sum())


def centered_pair(
    batch: int, kinks: tuple[float, ...] = (), *, edges: tuple[float, ...] = (), width: float = math.inf
) -> PairLaw:
    r"""Two coordinates of $y$ uniform on the sphere of radius $\sqrt n$ in $\mathbf{1}^\perp$: centered, any $G$.

    For $h \sim \mathcal{N}(0, (a-b) I + b \mathbf{1}\mathbf{1}^\top)$ the centered $h - \bar h = \sqrt{a-b}\,Pz$ has no
    preferred direction. A coordinate is $y_1 = \sqrt{n-1}\,\sin\alpha$ with density $\cos^{n-3}\alpha$, and given it,
    with $\rho = -1/(n-1)$ the correlation of two coordinates and $\beta$ of density $\cos^{n-4}\beta$,

    $$ y_2 = \sqrt{n-1}\,\big(\rho \sin\alpha + \sqrt{1-\rho^2}\,\cos\alpha\,\sin\beta\big). $$

    The integrals are split where either coordinate passes a kink, or one of the edges of narrow panels, and into
    pieces no longer than the width. $n = 2$ has two points, $n = 3$ is a circle.
    """
    require_batch(batch, 2)
    if batch == 2:
        signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
        return PairLaw(signs, -signs, 0 * signs, torch.full_like(signs, 0.5))
    radius, overlap = math.sqrt(batch - 1), -1 / (batch - 1)
    turn = math.acos(overlap)
    inside = [kink for kink in (*kinks, *edges) if abs(kink) < radius]
    if batch == 3:
        return _circle(radius, turn, inside, width)
    # A line y₂ = kink enters and leaves the disc at these y₁: there the inner integral is not smooth.
    ends = [radius * math.cos(math.acos(kink / radius) + sign * turn) for kink in inside for sign in (1, -1)]
    outer = torch.tensor(
        [math.asin(max(-1.0, min(1.0, value / radius))) for value in inside + ends], dtype=torch.float64
    )
    alpha, alpha_weight = split_rule(outer, radius, batch - 3, width=width)
    first = radius * alpha.sin()
    height = radius * math.sin(turn) * alpha.cos()
    inner = (torch.tensor(inside, dtype=torch.float64) - overlap * first[:, None]) / height[:, None]
    _require_few(len(first) * NODES * (len(inside) + _count(radius, width)))
    beta, beta_weight = split_rule(inner.clamp(-1, 1).asin(), radius, batch - 4, width=width)
    second = overlap * first[:, None] + height[:, None] * beta.sin()
    return _law(first[:, None].expand_as(second), second, torch.zeros_like(second), alpha_weight[:, None] * beta_weight)


def uncentered_pair(
    batch: int, kinks: tuple[float, ...] = (), *, edges: tuple[float, ...] = (), width: float = math.inf
) -> PairLaw:
    r"""Two coordinates and the mean of $y$ uniform on the sphere of radius $\sqrt n$: not centered, $G = I$.

    $$ y_1 = \sqrt n\,\sin\alpha, \quad y_2 = \sqrt n\,\cos\alpha\,\sin\beta, \quad
       n\bar y = y_1 + y_2 + \sqrt{n(n-2)}\,\cos\alpha\,\cos\beta\,\sin\gamma $$

    with densities $\cos^{n-2}\alpha$, $\cos^{n-3}\beta$ and $\cos^{n-4}\gamma$. Any other exchangeable $G$ is a change
    of weights: see `stretched`.
    """
    require_batch(batch, 2)
    radius = math.sqrt(batch)
    inside = [kink for kink in (*kinks, *edges) if abs(kink) < radius]
    if batch == 2:
        return _circle(radius, math.pi / 2, inside, width)
    ends = [sign * math.sqrt(batch - kink**2) for kink in kinks if abs(kink) < radius for sign in (1, -1)]
    outer = torch.tensor([math.asin(value / radius) for value in inside + ends], dtype=torch.float64)
    alpha, alpha_weight = split_rule(outer, radius, batch - 2, LEAST, width)
    first = radius * alpha.sin()
    height = radius * alpha.cos()
    inner = torch.tensor(inside, dtype=torch.float64) / height[:, None]
    rest, rest_weight = _mean_of_the_rest(batch)
    _require_few(len(first) * NODES * (len(inside) + max(LEAST, _count(radius, width))) * len(rest))
    beta, beta_weight = split_rule(inner.clamp(-1, 1).asin(), radius, batch - 3, LEAST, width)
    second = height[:, None] * beta.sin()
    reach = math.sqrt(batch - 2) * height[:, None] * beta.cos()
    mean = ((first[:, None] + second)[..., None] + reach[..., None] * rest) / batch
    return _law(
        first[:, None, None].expand_as(mean),
        second[..., None].expand_as(mean),
        mean,
        (alpha_weight[:, None] * beta_weight)[..., None] * rest_weight,
    )


def stretched(law: PairLaw, batch: int, ratio: float) -> PairLaw:
    r"""The uncentered law where the eigenvalue of $G$ along $\mathbf{1}$ is `ratio` times the others, from that of 1.

    The direction of $h \sim \mathcal{N}(0, G)$ has the angular central Gaussian density: with $r$ the ratio, relative
    to the uniform law on the sphere,

    $$ r^{-1/2}\,\big(1 - \bar y^2 + \bar y^2/r\big)^{-n/2}. $$
    """
    if not ratio > 0:
        raise ValueError(f"the eigenvalue along the mean is {ratio} times the others, but must be positive")
    log_density = -0.5 * math.log(ratio) - batch / 2 * (1 + law.mean.square() * (1 / ratio - 1)).log()
    weight = law.weight * log_density.exp()
    missed = abs(float(weight.sum()) - 1)
    if missed > TOLERANCE:
        raise ValueError(
            f"the samples are too alike, or too dependent: with one eigenvalue {ratio:.3g} times the others "
            f"the quadrature misses {missed:.1g} of the probability"
        )
    return law._replace(weight=weight)


def split_rule(
    cuts: Float[Tensor, "*points cuts"], radius: float, power: int, least: int = 1, width: float = math.inf
) -> tuple[Float[Tensor, "*points nodes"], Float[Tensor, "*points nodes"]]:
    r"""Angles and weights of $\int_{-\pi/2}^{\pi/2} \cos^p\theta\,d\theta$, split at the cuts and into short pieces.

    A piece is mapped by $\theta = \sin(\pi t/2)$ and integrated in $t$ by Gauss and Legendre: where a line of kinks
    leaves the sphere the integrand ends in a half-integer power of the distance, which the map makes analytic.
    """
    limit = min(math.pi / 2, DEVIATIONS / radius)
    count = max(least, _count(radius, width))
    grid = torch.linspace(-limit, limit, count + 1, dtype=torch.float64).expand(*cuts.shape[:-1], -1)
    angles, weights = pieces(torch.cat([grid, cuts.clamp(-limit, limit)], -1))
    return angles, weights * angles.cos() ** power


def _count(radius: float, width: float) -> int:
    return math.ceil(min(math.pi * radius, 2 * DEVIATIONS) / min(PIECE, width))


def _require_few(nodes: int) -> None:
    if nodes > MOST_NODES:
        raise ValueError(
            f"the activation is too steep, or oscillates too fast: an average over the sphere takes {nodes:.1g} points"
        )


def pieces(
    edges: Float[Tensor, "*points edges"],
) -> tuple[Float[Tensor, "*points nodes"], Float[Tensor, "*points nodes"]]:
    """Nodes and weights of the integral from the least to the largest edge, broken at the others, in any order."""
    legendre, legendre_weights = np.polynomial.legendre.leggauss(NODES)
    turned = math.pi / 2 * torch.from_numpy(legendre)
    unit_weight = math.pi / 2 * turned.cos() * torch.from_numpy(legendre_weights)
    edges = edges.sort(-1).values
    half = (edges[..., 1:] - edges[..., :-1]) / 2
    middle = (edges[..., 1:] + edges[..., :-1]) / 2
    nodes = middle[..., None] + half[..., None] * turned.sin()
    return nodes.flatten(-2), (half[..., None] * unit_weight).flatten(-2)


def require_batch(batch: int, least: int) -> None:
    """A batch too small for the quantity is the user's mistake."""
    if isinstance(batch, bool) or batch < least:
        raise ValueError(f"batch is {batch}, but this quantity needs at least {least} samples")


def _law(first: Tensor, second: Tensor, mean: Tensor, weight: Tensor) -> PairLaw:
    return PairLaw(first.flatten(), second.flatten(), mean.flatten(), (weight / weight.sum()).flatten())


def _circle(radius: float, turn: float, kinks: list[float], width: float) -> PairLaw:
    """Two coordinates of a uniform point of a circle, whose axes are `turn` apart."""
    angles = [sign * math.acos(kink / radius) + shift for kink in kinks for sign in (1, -1) for shift in (0.0, turn)]
    cuts = torch.tensor([math.remainder(angle, 2 * math.pi) for angle in angles], dtype=torch.float64)
    count = max(16, 2 * _count(radius, width))
    angle, weight = pieces(torch.cat([cuts, torch.linspace(-math.pi, math.pi, count + 1, dtype=torch.float64)]))
    first, second = radius * angle.cos(), radius * (angle - turn).cos()
    # On the circle of 1⊥ in three dimensions the mean is 0; on that of the plane it is of these two.
    mean = (first + second) / 2 if turn == math.pi / 2 else torch.zeros_like(first)
    return _law(first, second, mean, weight)


def _mean_of_the_rest(batch: int) -> tuple[Nodes, Nodes]:
    r"""$\sin\gamma$, the mean of the other $n-2$ coordinates as a fraction of the largest it can be."""
    if batch == 3:
        return torch.tensor([1.0, -1.0], dtype=torch.float64), torch.full((2,), 0.5, dtype=torch.float64)
    # No kinks in this direction, only the peak of a stretched law: fewer nodes do.
    count = 16 + 8 * math.ceil(math.sqrt(batch))
    legendre, weight = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(count))
    gamma = math.pi / 2 * legendre
    return gamma.sin(), weight * gamma.cos() ** (batch - 4)
