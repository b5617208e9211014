"""The spectrum of a batch: equal angles in the mean, spread by the finite width of the layers it went through."""

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from orthoscope.theory.sources import source

_NODES = 2000  # along the curve of the law: its mass, mean and mean logarithm come out to 1e-6
_LEAST_SPREAD = 1e-6  # below it, all values are 1 to three digits
_LARGEST_SPREAD = 1e6  # above it, all values but a few in a million are 0 to rounding
_DEPENDENT = 1e-12  # an eigenvalue that small beside the others is rounding


@source(
    "orthoscope",
    "free multiplicative law with S-transform exp(-yz)",
    assumes="many samples, few against the width; independent layers",
)
@lru_cache(maxsize=1024)
def spread_law(spread: float) -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
    r"""Values $\lambda$ and their probabilities under the law of mean 1 and variance $y$, the `spread`.

    A layer of $d$ Gaussian units multiplies the Gram matrix of $n$ samples by a Wishart one, whose
    S-transform is $(1 + zn/d)^{-1}$; $\ell$ layers give $(1 + zn/d)^{-\ell}$, which tends to $S(z) = e^{-yz}$
    with $y = \ell n/d$ as $n/d \to 0$. That law has $\mathbb{E}\log\lambda = -y/2$. Its density lies where
    $1/\lambda = zS(z)/(1+z)$ is real for a complex $z = a + ib$:

    $$ a = -\tfrac12 \pm \sqrt{\tfrac14 + b\cot(yb) - b^2}, \qquad
       \log\lambda = \log\frac{|1+z|}{|z|} + ya, \qquad \text{density of } \log\lambda = \frac{b}{\pi} $$
    """

    if not _LEAST_SPREAD / 2 < spread < _LARGEST_SPREAD:
        raise ValueError(f"the spread is {spread:g}: the law is computed from {_LEAST_SPREAD:g} to {_LARGEST_SPREAD:g}")

    def discriminant(height: float) -> float:
        return 0.25 + height / math.tan(spread * height) - height**2

    highest = brentq(discriminant, 1e-9 / spread, math.pi / spread * (1 - 1e-12))
    angle = (torch.arange(_NODES, dtype=torch.float64) + 0.5) / _NODES * (math.pi / 2)
    height = highest * angle.sin()
    root = (0.25 + height / (spread * height).tan() - height.square()).clamp_min(0.0).sqrt()
    real = torch.cat([-0.5 - root, (-0.5 + root).flip(0)])
    height = torch.cat([height, height.flip(0)])
    logs = (torch.hypot(1 + real, height) / torch.hypot(real, height)).log() + spread * real
    (steps,) = torch.gradient(logs)
    return logs.exp(), steps * height / math.pi


@source(
    "orthoscope",
    "equal angles in the mean and the spread law around them",
    assumes="samples that are exchangeable; many of them, few against the width",
)
def typical_spectrum(samples: int, overlap: float, spread: float) -> Float[Tensor, " samples"]:
    r"""Eigenvalues, of mean about 1, of the Gram matrix of $n$ samples with cosines $\rho$ in the mean:

    $$ \lambda_1 = 1 + (n-1)\rho, \qquad \lambda_k = (1-\rho)\,Q_y\big(\tfrac{k - 3/2}{n-1}\big), \quad k = 2 \dots n $$

    $Q_y$ is the quantile function of `spread_law`, $y$ the variance of all but the first over their squared mean.
    """
    if samples < 2:
        raise ValueError(f"a spectrum needs at least 2 samples, got {samples}")
    ranks = (torch.arange(samples - 1, dtype=torch.float64) + 0.5) / (samples - 1)
    rest = torch.ones_like(ranks)
    if spread >= _LARGEST_SPREAD:
        rest = torch.zeros_like(ranks)
    elif spread > _LEAST_SPREAD:
        values, weights = spread_law(spread)
        below = weights.cumsum(0) - weights / 2
        rest = values[torch.searchsorted(below, ranks).clamp_max(len(values) - 1)]
    first = torch.tensor([max(0.0, 1 + (samples - 1) * overlap)], dtype=torch.float64)
    return torch.cat([first, (1 - overlap) * rest])


@source("orthoscope", "entropy of the typical spectrum", assumes="those of typical_spectrum")
def effective_rank(samples: int, overlap: float, spread: float) -> float:
    r"""$\exp(-\sum_i p_i \log p_i)$ with $p_i = \sqrt{\lambda_i} / \sum_j \sqrt{\lambda_j}$ over `typical_spectrum`."""
    shares = typical_spectrum(samples, overlap, spread).sqrt()
    shares = shares / shares.sum()
    return math.exp(-torch.special.xlogy(shares, shares).sum().item())


@source("orthoscope", "second moment of the cosines", assumes="samples that are exchangeable and of equal length")
def gap_of_overlaps(samples: int, overlap: float, overlap_variance: float) -> float:
    r"""Orthogonality gap of samples whose cosines have that mean and variance $v$: $V^2 = (1 - 1/n)(\rho^2 + v)$."""
    return math.sqrt((1 - 1 / samples) * min(1.0, overlap**2 + overlap_variance))


@source("orthoscope", "logarithms of the typical spectrum", assumes="those of typical_spectrum")
def isometry_gap_of_overlaps(samples: int, overlap: float, spread: float) -> float:
    r"""Isometry gap $-\tfrac1n[\log(1 + (n-1)\rho) + (n-1)(\log(1-\rho) - y/2)]$, infinite for dependent samples."""
    rest = 1 - overlap
    first = 1 + (samples - 1) * overlap
    if first <= _DEPENDENT or rest <= 0 or math.isinf(spread):
        return math.inf
    return -(math.log(first) + (samples - 1) * (math.log(rest) - spread / 2)) / samples
