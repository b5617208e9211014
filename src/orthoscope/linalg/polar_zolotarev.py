"""The polar factor of a large matrix in single precision, by best rational functions: the first in double precision."""

from functools import cache
from typing import NamedTuple

import torch
from scipy.special import ellipj, ellipkm1
from torch import Tensor

from orthoscope.linalg.core_products import Cores, cores_for
from orthoscope.linalg.gram_series import corrected, inverse_root_series
from orthoscope.linalg.rough_products import rough_inverse
from orthoscope.linalg.spectral_norm import spectral_norm_estimate

# What the first step is the best for. The Gram matrix squares the condition number: at 2e4 the 1e-16 of double
# precision become 4e-8, and at 5e4 more than single precision has.
SMALLEST = 5e-5

# Two poles a function, one for each of two cores: in double precision they raise 5e-5 to 0.40, and from there those in
# single precision leave 0.9999 to 1.
_POLES = 2

# Excess up to which the series of degree 1, 2 and 4 leave less than 5e-7.
_SERIES = {1: 0.001, 2: 0.0116, 4: 0.06}

# The norm is estimated from below, and this much is added. The functions take 1.1 to 1.001 all the same, and what is
# left of the excess is seen.
_MARGIN = 1.03
_STEPS = 8


class Zolotarev(NamedTuple):
    r"""$f(x) = m x \bigl(1 + \sum_j a_j/(x^2 + c_j)\bigr)$."""

    scale: float
    weights: tuple[float, ...]
    poles: tuple[float, ...]
    largest: float = 1.0  # the largest x for which it is meant

    def stretched(self, largest: float) -> "Zolotarev":
        r"""$f(x/s)$ with the $s$ by which it is meant for $x$ up to `largest`."""
        square = (largest / self.largest) ** 2
        weights, poles = (tuple(square * value for value in values) for values in (self.weights, self.poles))
        return Zolotarev(self.scale * self.largest / largest, weights, poles, largest)

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
    r"""The polar factor of a tall $(n, k)$ float32 matrix to its rounding; None beyond conditions of about 3e4.

    $$ X \leftarrow m X\Bigl(I + \sum_j a_j (X^\top X + c_jI)^{-1}\Bigr) $$

    twice from $X = M/\|M\|$: with the function for $[5\cdot10^{-5}, 1]$ in float64, where the Gram matrix still knows
    the smallest singular values, and with the one for what that leaves in float32. Then $X(X^\top X)^{-1/2}$ by its
    series. What is left of the excess is seen, not only expected: None if it is too much, also for matrices that lost
    rank.
    """
    with cores_for(matrix) as cores:
        size = _MARGIN * spectral_norm_estimate(matrix, _STEPS)
        if not 0 < size < torch.inf:
            return None
        frame = _nearly_orthonormal(cores.copied(matrix, torch.float64), size, cores)
        excess = cores.gram(frame)
        excess.diagonal().sub_(1)
        found = spectral_norm_estimate(excess, _STEPS // 2)
        degree = next((degree for degree, limit in _SERIES.items() if found <= limit), None)
        if degree == 1:
            return cores.add_product_(cores.copied(frame), frame, inverse_root_series(excess, degree))
    return None if degree is None else corrected(frame, excess, degree)


def _nearly_orthonormal(current: Tensor, size: float, cores: Cores) -> Tensor:
    """Both functions of a matrix whose norm is at most `size`, or a little more."""
    first = zolotarev(_POLES, SMALLEST)
    second = zolotarev(_POLES, first(SMALLEST))
    current = cores.product(current, _factor(cores.gram(current), first.stretched(size), 1.0, cores))
    current = cores.copied(current, torch.float32)
    # Half way between the largest and the smallest value: the series goes both ways.
    centre = (1 + second(first(SMALLEST))) / 2
    return cores.product(current, _factor(cores.gram(current), second, 1 / centre, cores))


def _factor(gram: Tensor, function: Zolotarev, scale: float, cores: Cores) -> Tensor:
    r"""$s\,m\bigl(I + \sum_j a_j(S + c_jI)^{-1}\bigr)$; $S$ is overwritten."""
    scale *= function.scale
    # Memory is taken here: a thread that takes its own gives it back to the system, which clears it every time.
    shifted = [gram, *(cores.copied(gram) for _ in function.poles[1:])]
    for matrix, pole in zip(shifted, function.poles, strict=True):
        matrix.diagonal().add_(pole)

    def inverse(j: int) -> Tensor:
        return rough_inverse(shifted[j], condition=1 + function.largest**2 / function.poles[j])

    tasks = range(len(shifted))
    if gram.device.type == "cpu":
        factor, *others = cores.each(inverse, tasks, len(gram) ** 3)
    else:
        # A worker would not know the stream that is current here.
        factor, *others = map(inverse, tasks)

    def combine(rows: slice) -> None:
        factor[rows].mul_(scale * function.weights[0])
        for other, weight in zip(others, function.weights[1:], strict=True):
            factor[rows].add_(other[rows], alpha=scale * weight)

    cores.by_rows(combine, len(factor))
    factor.diagonal().add_(scale)
    return factor
