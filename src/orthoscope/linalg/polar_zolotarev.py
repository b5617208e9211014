"""The polar factor of a large matrix in single precision, by best rational functions: the first in double precision."""

from functools import cache
from typing import NamedTuple

import torch
from scipy.special import ellipj, ellipkm1
from torch import Tensor

from orthoscope.linalg.gram_series import corrected, gram_excess
from orthoscope.linalg.parallel import balanced_over_cores
from orthoscope.linalg.rational import shifted_inverse
from orthoscope.linalg.symmetric import hermitian_product

# What the first step is the best for. The Gram matrix squares the condition number: at 2e4 the 1e-16 of double
# precision become 4e-8, and at 5e4 more than single precision has.
SMALLEST = 5e-5

# Two poles a function in double precision, which raise 5e-5 to 0.40; there one in single precision leaves 0.989 to 1.
_POLES = (2, 1)

# Excess up to which the series of degree 2, and of degree 4, leave less than 5e-7.
_SERIES = {2: 0.0125, 4: 0.06}

# The largest eigenvalue is estimated from below, and this much is added. Values a little above 1 do no harm.
_MARGIN = 1.05
_POWER_STEPS = 5
_POWER_VECTORS = 4


class Zolotarev(NamedTuple):
    r"""$f(x) = m x \bigl(1 + \sum_j a_j/(x^2 + c_j)\bigr)$."""

    scale: float
    weights: tuple[float, ...]
    poles: tuple[float, ...]

    def __call__(self, x: float) -> float:
        return self.scale * x * (1 + sum(a / (x**2 + c) for a, c in zip(self.weights, self.poles, strict=True)))


@cache
def zolotarev(poles: int, smallest: float) -> Zolotarev:
    r"""The odd function with $r$ pairs of poles that maps $[\ell, 1]$ to $[\ell', 1]$ with the largest $\ell'$.

    $$ f(x) = m x \prod_{j=1}^r \frac{x^2 + c_{2j}}{x^2 + c_{2j-1}}, \qquad
       c_i = \ell^2 \frac{\operatorname{sn}^2}{\operatorname{cn}^2}
       \Bigl(\frac{iK}{2r+1}; \sqrt{1-\ell^2}\Bigr), \qquad f(1) = 1 $$

    with $K$ the complete elliptic integral. With one pair this is the dynamically weighted Halley step.
    Nakatsukasa & Freund (2016), section 3.
    """
    period = float(ellipkm1(smallest**2))
    points = [i * period / (2 * poles + 1) for i in range(1, 2 * poles + 1)]
    sine, cosine, _, _ = ellipj(points, 1 - smallest**2)
    c = ((smallest * sine / cosine) ** 2).tolist()
    odd, even = c[::2], c[1::2]
    weights = []
    for j, pole in enumerate(odd):
        weight = 1.0
        for k in range(poles):
            weight *= (even[k] - pole) / (odd[k] - pole if k != j else 1.0)
        weights.append(weight)
    unscaled = Zolotarev(1.0, tuple(weights), tuple(odd))
    return Zolotarev(1 / unscaled(1.0), tuple(weights), tuple(odd))


def zolotarev_polar_factor(matrix: Tensor) -> Tensor | None:
    r"""The polar factor of a tall $(n, k)$ float32 matrix to its rounding; None if the condition number exceeds 2e4.

    $$ X \leftarrow m X\Bigl(I + \sum_j a_j (X^\top X + c_jI)^{-1}\Bigr) $$

    twice from $X = M/\|M\|$: with the function for $[5\cdot10^{-5}, 1]$ in float64, where the Gram matrix still knows
    the smallest singular values, and with the one for what that leaves in float32. Then $X(X^\top X)^{-1/2}$ by its
    series. What is left of the excess is seen, not only expected: None if it is too much, also for matrices that lost
    rank.
    """
    current = matrix.double()
    gram = hermitian_product(current.mT, current)
    largest = _MARGIN * _largest_eigenvalue(gram)
    if not 0 < largest < torch.inf:
        return None
    first = zolotarev(_POLES[0], SMALLEST)
    second = zolotarev(_POLES[1], first(SMALLEST))
    current = (current @ _factor(gram.div_(largest), first).mul_(largest**-0.5)).float()
    # Half way between the largest and the smallest value: the series goes both ways.
    centre = (1 + second(first(SMALLEST))) / 2
    current @= _factor(hermitian_product(current.mT, current), second).div_(centre)
    excess = gram_excess(current)
    size = _largest_eigenvalue(excess)
    for degree, limit in _SERIES.items():
        if size <= limit:
            return corrected(current, excess, degree)
    return None


def _factor(gram: Tensor, function: Zolotarev) -> Tensor:
    r"""$m\bigl(I + \sum_j a_j(S + c_jI)^{-1}\bigr)$."""

    def term(j: int) -> Tensor:
        pole = function.poles[j]
        return shifted_inverse(gram, 1 / pole).mul_(function.scale * function.weights[j] / pole)

    factor, *others = balanced_over_cores(term, range(len(function.poles)), [len(gram) ** 3] * len(function.poles))
    for other in others:
        factor.add_(other)
    factor.diagonal().add_(function.scale)
    return factor


def _largest_eigenvalue(symmetric: Tensor) -> float:
    """The size of it, an estimate from below by power iteration from several random vectors; nan if there is one."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(len(symmetric), _POWER_VECTORS, generator=generator).to(symmetric)
    for _ in range(_POWER_STEPS):
        vectors = symmetric @ torch.nn.functional.normalize(vectors, dim=0)
    return float(torch.linalg.vector_norm(vectors, dim=0).max())
