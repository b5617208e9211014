"""The polar factor of a large matrix in single precision: what is ill-conditioned in double, the rest in single."""

import math

import torch
from torch import Tensor

from orthoscope.linalg.gram_series import corrected
from orthoscope.linalg.products import add_product_
from orthoscope.linalg.rational import halley_weights, next_gram, shifted_inverse

# Up to this ratio of singular values the Gram matrix in single precision still gives the polar factor to 1e-6, and a
# step of Newton's in double precision costs more than one of Halley's in single.
_WELL_CONDITIONED = 6.0

# Four terms of the series leave 4e-7 of an excess of this size.
_SERIES = 0.06

# A step takes the condition number to about half its root: five serve for 1e12 and for poor estimates of it.
_MAX_STEPS = 8

# Beyond this condition number double precision does not know the polar factor to single precision either.
_LARGEST_CONDITION = 1e9

_POWER_STEPS = 10


def newton_polar_factor(matrix: Tensor) -> Tensor | None:
    r"""The polar factor of a tall $(n, k)$ matrix to the rounding of float32; None if Newton's method cannot find it.

    $$ X \leftarrow \tfrac12(\zeta X + (\zeta X)^{-\top}), \qquad
       \zeta = \left(\frac{\|X^{-1}\|_1\|X^{-1}\|_\infty}{\|X\|_1\|X\|_\infty}\right)^{1/4} $$

    in float64, from $X = M$, or its triangle if $M$ is not square, until the singular values, which are at least 1
    after a step, are at most 6 (Higham, 1986). This is stable, so the error is $10^{-16}$ times the condition number.
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
        largest = _spectral_norm(current.float())
        if largest <= _WELL_CONDITIONED:
            frame = _finished(current.float(), largest)
            return frame if basis is None else basis.float() @ frame
    return None


def _inverse(matrix: Tensor) -> Tensor:
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.linalg.lu_solve(factors, pivots, identity, left=False)


def _norm_estimate(matrix: Tensor) -> float:
    r"""$\sqrt{\|X\|_1\|X\|_\infty} \ge \|X\|_2$."""
    size = matrix.abs()
    return float((size.sum(-1).amax() * size.sum(-2).amax()).sqrt())


def _spectral_norm(matrix: Tensor) -> float:
    """An estimate from below, by power iteration from the squared lengths of the columns."""
    vector = matrix.square().sum(-2)
    for _ in range(_POWER_STEPS):
        vector = matrix.mT @ (matrix @ (vector / torch.linalg.vector_norm(vector)))
    return float(torch.linalg.vector_norm(vector).sqrt())


def _finished(matrix: Tensor, largest: float) -> Tensor:
    r"""The polar factor of a matrix with singular values in $[1, \tau]$, by its Gram matrix.

    Halley steps with the weights for $[1/\tau, 1]$ and for what they leave, then $(I + E)^{-1/2}$ to fourth order.
    """
    matrix = matrix / largest
    gram = matrix.mT @ matrix
    smallest, factor = 1 / largest, None
    while factor is None or 1 - smallest**2 > _SERIES:
        a, b, c = halley_weights(smallest)
        alpha, beta = b / c, a - b / c
        inverse = shifted_inverse(gram, c)
        gram = next_gram(gram, inverse, alpha, beta, c)
        smallest *= (a + b * smallest**2) / (1 + c * smallest**2)
        if factor is None:
            factor = inverse.mul_(beta)
            factor.diagonal().add_(alpha)
        else:
            factor = add_product_(factor.clone(), factor, inverse, alpha=beta, beta=alpha)
    gram.diagonal().sub_(1)
    return matrix @ corrected(factor, gram, degree=4)
