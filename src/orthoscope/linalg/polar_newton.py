"""The polar factor of a large matrix in single precision: what is ill-conditioned in double, the rest in single."""

import math

import torch
from torch import Tensor

from orthoscope.linalg.gram_series import corrected
from orthoscope.linalg.rational import halley_weights, next_factor, next_gram, shifted_inverse
from orthoscope.linalg.spectral_norm import spectral_norm_estimate
from orthoscope.linalg.symmetric import hermitian_product

# Up to this ratio of singular values the Gram matrix in single precision, wrong by its square times 6e-8, still gives
# the polar factor to 1e-6.
_WELL_CONDITIONED = 4.0

# Four terms of the series leave 4e-7 of an excess of this size.
_SERIES = 0.06

# A step takes the condition number to about half its root: five serve for 1e12 and for poor estimates of it.
_MAX_STEPS = 8

# Beyond this condition number double precision does not know the polar factor to single precision either.
_LARGEST_CONDITION = 1e9


def newton_polar_factor(matrix: Tensor) -> Tensor | None:
    r"""The polar factor of a tall $(n, k)$ matrix to the rounding of float32; None if Newton's method cannot find it.

    $$ X \leftarrow \tfrac12(\zeta X + (\zeta X)^{-\top}), \qquad
       \zeta = \left(\frac{\|X^{-1}\|_1\|X^{-1}\|_\infty}{\|X\|_1\|X\|_\infty}\right)^{1/4} $$

    in float64, from $X = M$, or its triangle if $M$ is not square, until the singular values, which are at least 1
    after a step, are at most 4 (Higham, 1986). This is stable, so the error is $10^{-16}$ times the condition number.
    The rest, `_finished`, is well conditioned and in float32. None means a rank that is not full, in float64, or an
    entry that is not finite: singular values can tell.
    """
    current = matrix.double()
    basis = None
    if matrix.shape[0] > matrix.shape[1]:
        basis, current = torch.linalg.qr(current)
    for _ in range(_MAX_STEPS):
        inverse = _inverse(current)
        size, inverse_size = _norm_estimate(current), _norm_estimate(inverse)
        # False for nan as well.
        if not size * inverse_size <= _LARGEST_CONDITION * current.shape[-1]:
            return None
        scale = math.sqrt(inverse_size / size)
        current.mul_(scale / 2).add_(inverse.mT, alpha=0.5 / scale)
        largest = spectral_norm_estimate(current.float())
        if largest <= _WELL_CONDITIONED:
            frame = _finished(current.float(), largest)
            return frame if basis is None or frame is None else basis.float() @ frame
    return None


def _inverse(matrix: Tensor) -> Tensor:
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.linalg.lu_solve(factors, pivots, identity, left=False)


def _norm_estimate(matrix: Tensor) -> float:
    r"""$\sqrt{\|X\|_1\|X\|_\infty} \ge \|X\|_2$."""
    size = matrix.abs()
    return float((size.sum(-1).amax() * size.sum(-2).amax()).sqrt())


def _finished(matrix: Tensor, largest: float) -> Tensor | None:
    r"""The polar factor of a matrix with singular values in about $[1, \tau]$, by its Gram matrix.

    Halley steps with the weights for $[1/\tau, 1]$ and for what they leave, until the Gram matrix is $I + E$ with small
    $E$, then $(I + E)^{-1/2}$ to fourth order. A Halley step brings values above 1, of a $\tau$ that is too small, to 1
    as well.
    """
    matrix = matrix / largest
    gram = hermitian_product(matrix.mT, matrix)
    smallest, factor = 1 / largest, None
    for _ in range(_MAX_STEPS):
        a, b, c = halley_weights(smallest)
        alpha, beta = b / c, a - b / c
        inverse = shifted_inverse(gram, c)
        gram = next_gram(gram, inverse, alpha, beta, c)
        smallest = min(1.0, smallest * (a + b * smallest**2) / (1 + c * smallest**2))
        factor = next_factor(factor, inverse, alpha, beta)
        if 1 - smallest**2 <= _SERIES:
            excess = gram.clone()
            excess.diagonal().sub_(1)
            # Seen, not only expected: the largest singular value was an estimate.
            if spectral_norm_estimate(excess) <= 1.25 * _SERIES:
                return matrix @ corrected(factor, excess, degree=4)
    return None
