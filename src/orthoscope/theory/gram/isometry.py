r"""Isometry of Gram matrices: normalization never lowers it, and finite width leaves a gap.

The isometry $\mathcal{I}$ rises when vectors are divided by their norms (`isometry_gain`), whatever their angles. The
norms are those of samples for RMS normalization; of samples about their own mean for layer normalization ($G$ is then
of the centered samples); of units over the batch for batch normalization without centering ($G$ is then the Gram matrix
of the units, at most as many as samples). `gaussian_isometry_gap` is the gap after one Gaussian layer of finite width,
`isometry_gap_floor` that of a deep network with layer normalization.
"""

import math

import torch
from jaxtyping import Float
from scipy.special import digamma
from torch import Tensor

from orthoscope.activations import Choice, nonlinearity
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.quadrature import gaussian_rule
from orthoscope.theory.sources import source

# A rate this close to 1 is that of a linear activation, up to the error of its quadrature.
LINEAR = 1e-12
_ASYMPTOTIC = 200.0  # the first term left out, 1/(240 x⁸), is then 2e-21


@source("joudaki2024", "Definition 4.1 and Lemma 4.2 (corrected)", assumes="positive semi-definite, not zero")
def gram_isometry(gram: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    r"""$\mathcal{I}(M) = \det(M)^{1/n}/(\tfrac1n \operatorname{tr} M)$: 1 only if $M = cI$, 0 if it is singular.

    Args:
        gram: A Gram matrix, or a batch of them.
    """
    eigenvalues = torch.linalg.eigvalsh(gram.double())
    largest = eigenvalues[..., -1:]
    rounding = gram.shape[-1] * torch.finfo(torch.float64).eps
    if bool((largest <= 0).any()) or bool((eigenvalues < -rounding * largest).any()):
        raise ValueError("isometry is defined for positive semi-definite matrices other than 0")
    # What is 0 but for rounding is 0: a determinant of 1e-16 to the power 1/n is not small.
    relative = torch.where(eigenvalues > rounding * largest, eigenvalues / largest, 0.0)
    return relative.log().mean(-1).exp() / relative.mean(-1)


@source(
    "joudaki2024",
    "Theorem 4.3 as an identity; Corollaries 4.4 and 4.5 (corrected)",
    assumes="lengths of the vectors that are normalized: samples (RMS), samples about their mean (layer), "
    "or units over the batch, not centered and no more than samples (batch)",
)
def isometry_gain(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch"]:
    r"""$\mathcal{I}(\tilde G)/\mathcal{I}(G) = \operatorname{mean}(a^2)/\operatorname{GM}(a)^2 \ge 1$ for lengths $a$.

    GM is the geometric mean. $G = D\tilde G D$ with $D = \operatorname{diag}(a)$, so angles do not matter at all.
    """
    lengths = _positive(norms)
    return lengths.square().mean(-1) / (2 * lengths.log().mean(-1)).exp()


@source(
    "joudaki2024",
    "Theorem 4.3, (4.3); Corollaries 4.4 and 4.5 (corrected); Lemmas 6.2 and C.1",
    assumes="lengths as for isometry_gain; equal to it only if all lengths are equal",
)
def isometry_gain_bound(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch"]:
    r"""The lower bound $1 + \operatorname{var}(a)/\bar a^2 = \operatorname{mean}(a^2)/\bar a^2$ of `isometry_gain`.

    It keeps the arithmetic mean where the identity has the geometric one: for small spread it is half of the rise.
    A rotation before batch norm changes the lengths of the units and not $\mathcal{I}(G)$ (Lemma 6.2).
    """
    lengths = _positive(norms)
    return 1 + lengths.var(-1, correction=0) / lengths.mean(-1).square()


def _positive(norms: Float[Tensor, "*batch vectors"]) -> Float[Tensor, "*batch vectors"]:
    lengths = norms.double()
    if not bool(((lengths > 0) & lengths.isfinite()).all()):
        raise ValueError("lengths must be positive numbers: a vector of length 0 cannot be normalized")
    return lengths


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
    assumes="deep, wide (batch well below width), weights of variance 1/width, no bias, layer normalization after the "
    "activation: the mean-field overlap is then 0; first order in 1/width",
)
def isometry_gap_floor(batch: int, width: int, *, activation: Choice = "relu", gain: int | float = 1.0) -> float:
    r"""Mean isometry gap deep in a network with layer normalization after the activation, $\frac{n-1}{2d(1-\mu^2)}$.

    Normalized samples have equal lengths, so the gap is half the sum of the $n-1$ squared overlaps of a sample; a layer
    multiplies an overlap by $\mu$, the `overlap_rate`, and adds a noise of variance $1/d$.
    Too small where $\mu$ is close to 1 (a smooth activation at a small gain) unless $d(1-\mu^2)$ is well above $n$.
    """
    _require_units(batch, width, least=2)
    rate = overlap_rate(activation, gain=gain)
    if 1 - rate < LINEAR:
        raise ValueError("a linear network has no floor: overlaps of layer-normalized samples diffuse without limit")
    return (batch - 1) / (2 * width * (1 - rate**2))


@source(
    "joudaki2024",
    "equation (5.15) (corrected)",
    assumes="infinite width, weights of variance 1/width, no bias, layer normalization after the activation",
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
        raise ValueError("a constant activation leaves nothing to normalize")
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
