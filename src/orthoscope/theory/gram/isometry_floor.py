r"""The isometry gap that finite width leaves: of one Gaussian layer, and deep in a network with layer normalisation."""

import math

import torch
from scipy.special import digamma

from orthoscope.theory.activations import Choice, nonlinearity
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.quadrature import gaussian_rule
from orthoscope.theory.sources import source

# A rate this close to 1 is that of a linear activation, up to the error of its quadrature.
LINEAR = 1e-12
_ASYMPTOTIC = 200.0  # the first term left out, 1/(240 x⁸), is then 2e-21


@source(
    "orthoscope",
    "mean log-determinant of a Wishart matrix",
    assumes="Gaussian weights, samples orthogonal and of one length before the layer, no more samples than units",
)
def gaussian_isometry_gap(batch: int, width: int) -> float:
    r"""Mean isometry gap of $n$ isometric samples after a Gaussian layer of $d$ units; $\Psi$ is the digamma function.

    $$ E\psi = \Psi\big(\tfrac{nd}{2}\big) - \log n - \frac1n \sum_{i=1}^n \Psi\big(\tfrac{d-i+1}{2}\big)
             = \frac{(n-1)(n+2)}{2nd} + O(d^{-2}) $$
    """
    _require_units(batch, width, least=1)
    half = width / 2
    shortfalls = [_log_minus_digamma(half - i / 2) - math.log1p(-i / width) for i in range(batch)]
    return math.fsum(shortfalls) / batch - _log_minus_digamma(batch * half)


@source(
    "orthoscope",
    "linear response of overlaps at 0",
    assumes="deep, wide (batch well below width), weights of variance 1/width, no bias, layer normalisation after the "
    "activation: the mean-field overlap is then 0; first order in 1/width",
)
def isometry_gap_floor(batch: int, width: int, *, activation: Choice = "relu", gain: int | float = 1.0) -> float:
    r"""Mean isometry gap deep in a network with layer normalisation after the activation, $\frac{n-1}{2d(1-\mu^2)}$.

    Normalised samples have equal lengths, so the gap is half the sum of the $n-1$ squared overlaps of a sample; a layer
    multiplies an overlap by $\mu$, the `overlap_rate`, and adds a noise of variance $1/d$.
    Too small where $\mu$ is close to 1 (a smooth activation at a small gain) unless $d(1-\mu^2)$ is well above $n$.
    """
    _require_units(batch, width, least=2)
    rate = overlap_rate(activation, gain=gain)
    if 1 - rate < LINEAR:
        raise ValueError("a linear network has no floor: overlaps of layer-normalised samples wander without return")
    return (batch - 1) / (2 * width * (1 - rate**2))


@source(
    "joudaki2024",
    "equation (5.15) (corrected)",
    assumes="infinite width, weights of variance 1/width, no bias, layer normalisation after the activation",
)
def overlap_rate(activation: Choice, *, gain: int | float = 1.0) -> float:
    r"""What a layer multiplies small overlaps by, $\mu = \kappa'(0)/(\kappa(1)-\kappa(0))$; 1 if linear.

    $$ \mu = \frac{(E\,x\phi(x))^2}{E\big(\phi(x) - E\phi(x)\big)^2}, \qquad x \sim \mathcal{N}(0, 1) $$
    """
    phi = nonlinearity(activation, gain)
    rule = gaussian_rule(phi)
    values = phi(rule.nodes)
    mean = float(rule.weights @ values)
    spread = float(rule.weights @ (values - mean).square())
    if spread <= torch.finfo(torch.float64).eps * mean**2:
        raise ValueError("a constant activation leaves nothing to normalise")
    return min(1.0, float(rule.weights @ (rule.nodes * values)) ** 2 / spread)


def _log_minus_digamma(x: float) -> float:
    r"""$\log x - \Psi(x)$: the two agree to $1/2x$, so that for large $x$ only their asymptotic series has digits.

    $$ \frac1{2x} + \frac1{12x^2} - \frac1{120x^4} + \frac1{252x^6} - \dots $$
    """
    if x < _ASYMPTOTIC:
        return math.log(x) - float(digamma(x))
    return 1 / (2 * x) + (1 / 12 - (1 / 120 - 1 / (252 * x**2)) / x**2) / x**2


def _require_units(batch: int, width: int, least: int) -> None:
    require_batch(batch, least)
    if width < batch:
        raise ValueError(f"{batch} samples in {width} units are dependent: the isometry gap is infinite")
