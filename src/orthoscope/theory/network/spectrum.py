"""The spectrum of a batch: equal angles on average, spread by the finite width of the layers before."""

import math

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from orthoscope.theory.sources import source

_NODES = 2000  # along the curve of the law: its mass, mean and mean logarithm come out to 1e-6
_LEAST_SPREAD = 1e-6  # below it, all values are 1 to three digits
_LARGEST_SPREAD = 1e6  # above it, all values but a few in a million are 0 to rounding
_FEW, _MANY = 1e-9, 0.999  # samples per unit are clamped to this range, where the formulas are accurate
_PART = 0.05  # of a layer's spread
_SERIES = 1e-4  # samples per unit up to which four terms are exact to rounding
_DEPENDENT = 1e-12  # an eigenvalue that small beside the others is rounding


@source(
    "orthoscope",
    "free multiplicative law with S-transform (1 + cz)^(-y/c)",
    assumes="many samples, no more than units; independent layers, of Gaussian weights if samples are not few",
)
def spread_law(spread: float, share: float = 0.0) -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
    r"""Values $\lambda$ and their probabilities under the law of mean 1 and variance $y$, the `spread`.

    A layer of $d$ Gaussian units multiplies the Gram matrix of $n$ samples by a Wishart one, whose
    S-transform is $(1 + cz)^{-1}$ with $c = n/d$, the `share`; $\ell$ layers give $S(z) = (1 + cz)^{-y/c}$ with
    $y = \ell c$, and $e^{-yz}$ as $c \to 0$. The density lies where $1/\lambda = zS(z)/(1+z)$ is real for a complex
    $z = a + ib$. On the ray $1 + cz \propto e^{ich}$ that is where the interval from -1 to 0 is seen at an angle $yh$:
    a circle, and with $s = \sin(ch)/c$, $k = 1 - c/2$ and $C = \cos(ch)$,

    $$ a = -\tfrac{C^2}{2} - cs^2 + \tfrac{cs}{2}C\cot(yh) \pm C\sqrt\Delta, \qquad
       b = s\big(kC + \tfrac{c^2s}{2}\cot(yh) \pm c\sqrt\Delta\big), $$
    $$ \Delta = \tfrac14 - k^2s^2 + ksC\cot(yh) + \tfrac{c^2s^2}{4}\cot^2(yh), \qquad
       \log\lambda = \log\frac{|1+z|}{|z|} + \frac yc \log|1+cz|, \qquad \text{density of } \log\lambda = \frac b\pi $$

    Args:
        spread: Variance $y$ of the eigenvalues over their squared mean.
        share: $c$, samples per unit, at most 1.
    """
    if not _LEAST_SPREAD / 2 < spread < _LARGEST_SPREAD:
        raise ValueError(f"the spread is {spread:g}: the law is computed from {_LEAST_SPREAD:g} to {_LARGEST_SPREAD:g}")
    if not 0 <= share <= 1:
        raise ValueError(f"there are {share:g} samples a unit: the law is of at most 1")
    c = min(max(share, _FEW), _MANY)

    def discriminant(height: Tensor) -> Tensor:
        s, cosine, cotangent = (c * height).sin() / c, (c * height).cos(), 1 / (spread * height).tan()
        product = s * cotangent
        return 0.25 - ((1 - c / 2) * s).square() + (1 - c / 2) * cosine * product + (c * product).square() / 4

    # Seen from -1/c, the circle ends before the angles at the two ends of the interval make up a half turn.
    highest = brentq(
        lambda height: discriminant(torch.tensor(height, dtype=torch.float64)).item(),
        1e-9 / spread,
        math.pi / (c + spread),
    )
    angle = (torch.arange(_NODES, dtype=torch.float64) + 0.5) / _NODES * (math.pi / 2)
    height = highest * angle.sin()
    root = discriminant(height).clamp_min(0.0).sqrt()
    root = torch.cat([-root, root.flip(0)])
    height = torch.cat([height, height.flip(0)])
    s, cosine, cotangent = (c * height).sin() / c, (c * height).cos(), 1 / (spread * height).tan()
    real = cosine * (root - cosine / 2 + c * s * cotangent / 2) - c * s.square()
    imaginary = s * ((1 - c / 2) * cosine + c * (c * s * cotangent / 2 + root))
    size = 2 * real + c * (real.square() + imaginary.square())  # (|1 + cz|² - 1)/c
    logs = (torch.hypot(1 + real, imaginary) / torch.hypot(real, imaginary)).log() + spread / (2 * c) * (
        c * size
    ).log1p()
    (steps,) = torch.gradient(logs)
    return logs.exp(), steps * imaginary / math.pi


@source(
    "orthoscope",
    "equal angles in the mean and the spread law around them",
    assumes="samples that are exchangeable; many of them, few against the width",
)
def typical_spectrum(
    samples: int, overlap: float, spread: float, units: int | None = None
) -> Float[Tensor, " samples"]:
    r"""Eigenvalues, of mean about 1, of the Gram matrix of $n$ samples with mean cosine $\rho$.

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
        share = _share(samples, units)
        # So little of one layer is the same for any share, and hard to integrate near 1.
        values, weights = spread_law(spread, share if spread > _PART * share else 0.0)
        below = weights.cumsum(0) - weights / 2
        rest = values[torch.searchsorted(below, ranks).clamp_max(len(values) - 1)]
    first = torch.tensor([max(0.0, 1 + (samples - 1) * overlap)], dtype=torch.float64)
    return torch.cat([first, (1 - overlap) * rest])


@source("orthoscope", "entropy of the typical spectrum", assumes="those of typical_spectrum")
def effective_rank(samples: int, overlap: float, spread: float, units: int | None = None) -> float:
    r"""$\exp(-\sum_i p_i \log p_i)$ with $p_i = \sqrt{\lambda_i} / \sum_j \sqrt{\lambda_j}$ over `typical_spectrum`."""
    shares = typical_spectrum(samples, overlap, spread, units).sqrt()
    shares = shares / shares.sum()
    return math.exp(-torch.special.xlogy(shares, shares).sum().item())


@source("orthoscope", "second moment of the cosines", assumes="samples that are exchangeable and of equal length")
def gap_of_overlaps(samples: int, overlap: float, overlap_variance: float) -> float:
    r"""Orthogonality gap of samples whose cosines have that mean and variance $v$: $V^2 = (1 - 1/n)(\rho^2 + v)$."""
    return math.sqrt((1 - 1 / samples) * min(1.0, overlap**2 + overlap_variance))


@source("orthoscope", "logarithms of the spread law", assumes="those of typical_spectrum")
def isometry_gap_of_overlaps(samples: int, overlap: float, spread: float, units: int | None = None) -> float:
    r"""Isometry gap $-\tfrac1n[\log(1 + (n-1)\rho) + (n-1)(\log(1-\rho) + \mathbb{E}\log\lambda)]$, by `spread_law`.

    $$ \mathbb{E}\log\lambda = -\int_0^1 \log S(-t)\,dt = -\frac{y}{c^2}\big(c + (1-c)\log(1-c)\big), \qquad c = n/d $$

    for $d$ `units`, which is $-y/2$ as $c \to 0$ and $-y$ for $c = 1$. Infinite for dependent samples.
    """
    rest = 1 - overlap
    first = 1 + (samples - 1) * overlap
    if first <= _DEPENDENT or rest <= 0 or math.isinf(spread):
        return math.inf
    return -(math.log(first) + (samples - 1) * (math.log(rest) - spread * _half(_share(samples, units)))) / samples


def _half(share: float) -> float:
    r"""$(c + (1-c)\log(1-c))/c^2 = \sum_{k \ge 0} \frac{c^k}{(k+1)(k+2)}$, which is a half at 0."""
    if share == 1:
        return 1.0
    if share < _SERIES:
        return 1 / 2 + share / 6 + share**2 / 12 + share**3 / 20
    return (share + (1 - share) * math.log1p(-share)) / share**2


def _share(samples: int, units: int | None) -> float:
    """Samples a unit, 0 for many units."""
    if units is None:
        return 0.0
    if samples > units:
        raise ValueError(f"{samples} samples are dependent in {units} dimensions: no spectrum is known")
    return samples / units
