r"""The effect of $\phi \circ \mathrm{BN}$ on small deviations of angles and on gradients: averages over a sphere.

One unit's values on the batch are $h \sim \mathcal{N}(0, G)$, $G$ of diagonal 1 and $\rho$ off it, and become a point
$y$ of a sphere; $r = (1 + (n-1)\rho)/(1-\rho)$ is its eigenvalue along the mean over those across it. With
$D_y = y^\top G^{-1} y$ the law of $y$ has density $\propto D_y^{-n/2}$, whose derivative with $G$ gives all rates.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.gram.dynamics import eigenvalue_ratio, pair_law
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import Map, gradient_map, map_of_mean_squares
from orthoscope.theory.gram.sphere import LEAST, PairLaw, split_rule, stretched
from orthoscope.theory.network._layer_moments import sphere_difference_noise

_NEGLIGIBLE = 1e-10  # weight of a node relative to the largest: all of these together are less than 1e-7
FEWEST = 4  # samples for two disjoint differences


class SphereLayer(NamedTuple):
    r"""Deviations of angles through one layer, and gradients back through it, $\rho$ being the overlap before it."""

    noise: float  # of the cosine of two samples, times the width
    common_slope: float  # dρ′/dρ, when all cosines change as one
    rate: float  # of the cosine of two differences; nan, as the next two, below four samples
    overlap_rate: float  # deviation of a cosine of samples after it, over that of the cosine of two differences before
    difference_noise: float
    # Of the mean square of a gradient, and of that of its sum over the batch divided by √n; None if there is none.
    gradient: Map | None = None


@lru_cache(maxsize=32)
def centered_layer(phi: Nonlinearity, samples: int) -> SphereLayer:
    r"""Centered: what all cosines have in common is forgotten at once, whatever the overlap was.

    With $\mu_2$ the rate, $A$ and $B$ of `gram_response`, and $\rho' = 1 - S/q$, deviations without a direction in
    $\mathbf{1}^\perp$ give cosines of samples the variance, relative to that of cosines of differences before,

    $$ \frac{n-3}{n-1}\,(1-\rho')^2\mu_2^2 + \Big(\frac{n-1}{n}\,\frac{B - \rho' A/2}{q}\Big)^2 $$

    The first part is of single pairs, the second of all pairs of one sample.
    """
    law = pair_law(phi, samples, centered=True)
    first, second = phi(law.first), phi(law.second)
    noise = _cosine_noise(law, first, second)
    if samples < FEWEST:
        return SphereLayer(noise, 0.0, math.nan, math.nan, math.nan)
    n, square, product = samples, law.average(first.square()), first * second
    rate, after = gram_response(phi, n).pair_rate, law.average(product) / square
    third_square = (n - law.first.square() - law.second.square()) / (n - 2)
    of_squares = law.average(first.square() * (law.first.square() - law.second.square()))
    of_products = law.average(product * (law.first.square() - third_square))
    single = (n - 3) / (n - 1) * ((1 - after) * rate) ** 2
    shared = ((n - 1) / n * (of_products - after / 2 * of_squares) / square) ** 2
    return SphereLayer(noise, 0.0, rate, math.sqrt(single + shared), sphere_difference_noise(phi, n, 0.0))


def uncentered_layer(phi: Nonlinearity, samples: int, overlap: float, uniform: PairLaw) -> SphereLayer:
    r"""Rates and noise without centering.

    With $q = E\phi_1^2$, $S = \tfrac12 E(\phi_1 - \phi_2)^2$ and $T = \sum_{i > 2} y_i$,

    $$ \text{rate} = \frac{n}{(1-\rho)S}\,E\Big[\frac{\phi_1\phi_2}{D_y}
       \Big(y_1y_2 - \frac{(y_1+y_2)T}{n-2} + \frac{T^2 - (n - y_1^2 - y_2^2)}{(n-2)(n-3)}\Big)\Big], \qquad
       \frac{d\rho'}{d\rho} = \frac{S\dot q - \dot Sq}{q^2} $$

    where dots are averages with $\tfrac{n}{(1-\rho)^2}\big(\tfrac{\bar y^2}{2r^2(1 - \bar y^2 + \bar y^2/r)/n}
    - \tfrac{1}{2r}\big)$, the change of the log-density with $\rho$. The rate at overlap 0 is
    $E\phi_1\phi_2y_1y_2/E\phi_1^2$ for odd activations.
    """
    ratio = eigenvalue_ratio(overlap, samples)
    law = stretched(uniform, samples, ratio)
    heavy = law.weight > _NEGLIGIBLE * law.weight.max()
    law = PairLaw(*(part[heavy] for part in law))
    first, second = phi(law.first), phi(law.second)
    mean_square = law.mean.square()
    density = 1 - mean_square + mean_square / ratio  # (1 - ρ) D_y / n
    score = (samples * mean_square / (ratio * density) - 1) / (2 * ratio) * samples / (1 - overlap) ** 2
    halved = (first - second).square() / 2
    square, spread = law.average(first.square()), law.average(halved)
    changes = law.average(score * first.square()), law.average(score * halved)
    noise = _cosine_noise(law, first, second)
    common_slope = (spread * changes[0] - square * changes[1]) / square**2
    gradient = gradient_map(law, phi, samples, density / (1 - overlap)) if samples > 2 else None
    if samples < FEWEST:
        return SphereLayer(noise, common_slope, math.nan, math.nan, math.nan, gradient)
    rest = samples * law.mean - law.first - law.second
    squares = samples - law.first.square() - law.second.square()
    crossed = law.first * law.second - (law.first + law.second) * rest / (samples - 2)
    crossed = crossed + (rest.square() - squares) / ((samples - 2) * (samples - 3))
    rate = law.average(first * second * crossed / density) / spread
    overlap_rate = rate * spread / square
    return SphereLayer(noise, common_slope, rate, overlap_rate, sphere_difference_noise(phi, samples, ratio), gradient)


@lru_cache(maxsize=128)
def linear_layer(samples: int, overlap: float) -> SphereLayer:
    r"""Not centered, linear: one integral, over $\bar y = \sin\alpha$ with $\tan\alpha = \sqrt r\tan\beta$.

    $\beta$ has density $\cos^{n-2}\beta$. Across the mean $y - \bar y$ has no direction and the length $\sqrt{nw}$, so
    with $m = n-1$ and $w = 1 - \bar y^2$: $S = nEw/m$, rate $\tfrac{n}{m+2}\,E[w^2/(w + \bar y^2/r)]/Ew$, noise
    of differences $\tfrac{m}{m+2}\,Ew^2/(Ew)^2$, and $f = y_1y_2 - \tfrac{\rho'}{2}(y_1^2 + y_2^2)$ a quadratic form.
    """
    ratio = max(0.0, eigenvalue_ratio(overlap, samples))
    beta, weight = split_rule(torch.empty(0, dtype=torch.float64), math.sqrt(samples), samples - 2, LEAST)
    weight = weight / weight.sum()
    tangent = beta.tan().square()
    across = 1 / (1 + ratio * tangent)  # w
    along = ratio * tangent * across  # ȳ²
    density = across * (1 + tangent)

    def average(values: Tensor) -> float:
        return float(weight @ values)

    n, m = samples, samples - 1
    mean, squared = average(across), average(across.square())
    after = 1 - n / m * mean
    common_slope = n / m * average(tangent * across.square()) * n / (1 - overlap) ** 2
    # f = aᵀy with y = ȳ1 + g: the trace and the square of its matrix on the complement of 1.
    trace = -after - (1 - after) / n
    trace_square = (1 + after**2) / 2 - (1 - after) ** 2 / n + ((1 - after) / n) ** 2
    noise = (1 - after) ** 2 * average(along.square() + along * across * n / m * (2 - 4 / n))
    noise += 2 * (1 - after) * trace * n / m * average(along * across)
    noise += (2 * trace_square + trace**2) * n**2 / (m * (m + 2)) * squared
    rate = n / (m + 2) * average(across.square() / density) / mean
    gradient = None
    if samples > 2:
        # tr QQ = n - 1, tr Q11ᵀQ = 1ᵀQQ1 = nw and 1ᵀQ11ᵀQ1 = n²w²: no other coordinate is needed.
        shrink = n / (n - 2) / (1 - overlap) * density
        sums = [shrink * m / n, shrink * across, shrink * across, n * shrink * across.square()]
        gradient = map_of_mean_squares([average(values) for values in sums], n)
    return SphereLayer(noise, common_slope, rate, rate * (1 - after), m / (m + 2) * squared / mean**2, gradient)


def _cosine_noise(law: PairLaw, first: Tensor, second: Tensor) -> float:
    r"""$E f^2/(E\phi^2)^2$ with $f = \phi_1\phi_2 - \tfrac{\rho'}{2}(\phi_1^2 + \phi_2^2)$ and $\rho'$ the overlap."""
    square, halved = law.average(first.square()), (first - second).square() / 2
    if not square > 0:
        return 0.0
    deviation = law.average(halved) / square * (first.square() + second.square()) / 2 - halved
    return law.average(deviation.square()) / square**2
