r"""How far the Gram matrices of networks of finite width are from the fixed point of infinite width: chapter 3.

A layer is $x \mapsto \phi(\mathrm{BN}(Wx))$, $W$ Gaussian of variance $1/d$, and the Gram matrix is $G_\ell = x_\ell
x_\ell^\top/d$, samples by samples: (3.2) as printed has the transpose on the wrong factor (erratum
joudaki2024-equation-3.2).
"""

import math
import statistics
from collections.abc import Sequence
from functools import cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.theory import finite_width_gram_error, gram_fixed_point, linear_gram_error

Hidden = Float[Tensor, "*seeds samples units"]
Gram = Float[Tensor, "*seeds samples samples"]


def gram(hidden: Hidden) -> Gram:
    r"""$G = xx^\top/d$."""
    return hidden @ hidden.mT / hidden.shape[-1]


def distance(hidden: Hidden, target: Float[Tensor, "samples samples"]) -> Float[Tensor, "*seeds"]:
    r"""$\|G - G_*\|_F$."""
    return torch.linalg.matrix_norm(gram(hidden) - target)


def frame(batch: int, width: int) -> Float[Tensor, "samples units"]:
    r"""Orthogonal samples of length $\sqrt d$: $G_0 = I$."""
    return math.sqrt(width) * torch.eye(batch, width, dtype=torch.float64)


def deep_distances(activation: str, batch: int, width: int, depth: int, seeds: Sequence[int]) -> list[float]:
    r"""$\|G_L - G_*\|_F$ at the last layer of one network a seed, from orthogonal samples."""
    target = gram_fixed_point(activation, batch)
    found = simulate(
        frame(batch, width),
        Chain(width, activation=activation, norm="batch"),
        depth,
        seeds=seeds,
        record={"distance": partial(distance, target=target)},
        layers=[depth],
    )
    values: list[float] = found.values["distance"][:, 0].tolist()
    return values


@cache
def predicted_distance(activation: str, batch: int, width: int) -> float:
    r"""Root mean square of $\|G_\ell - G_*\|_F$ deep in the network, to first order in $1/d$; fitted to nothing."""
    if activation == "identity":
        return linear_gram_error(batch, width)
    generator = torch.Generator().manual_seed(0)
    return finite_width_gram_error(activation, batch, width, generator=generator).value


def root_mean_square(values: Sequence[float]) -> float:
    r"""$\sqrt{\operatorname{mean}(x^2)}$."""
    return math.sqrt(statistics.fmean(value**2 for value in values))


def power(across: Sequence[int | float], values: Sequence[float]) -> float:
    r"""The exponent $p$ of the least-squares line $\log y = p \log x + \text{const}$."""
    x, y = [math.log(value) for value in across], [math.log(value) for value in values]
    return statistics.linear_regression(x, y).slope
