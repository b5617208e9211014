"""Rational functions that drive all singular values towards 1 from below: two Cholesky factors replace five steps."""

import math

import torch
from torch import Tensor

from orthoscope.linalg.products import plus_scaled_
from orthoscope.linalg.rough_products import rough_hermitian_product, rough_inverse, rough_product

# Singular values from here to 1 are what the weights are optimal for. Not lower: the Gram matrix in single precision
# knows nothing about values below 3e-4 of the norm, and I + cS loses its definiteness (seen at 1e-4).
SMALLEST = 1e-3

# Rounding can leave the Gram matrix with eigenvalues of minus a few roundings; this many are added to all.
_SHIFT = 4


def halley_weights(smallest: float) -> tuple[float, float, float]:
    r"""$(a, b, c)$ with which $x(a + bx^2)/(1 + cx^2)$ maps $[\ell, 1]$ to $[\ell', 1]$ with the largest $\ell'$.

    $$ d = \sqrt[3]{4(1-\ell^2)/\ell^4}, \quad a = \sqrt{1+d} + \tfrac12\sqrt{8 - 4d +
       8(2-\ell^2)/(\ell^2\sqrt{1+d})}, \quad b = \tfrac14(a-1)^2, \quad c = a + b - 1 $$

    Nakatsukasa, Bai & Gygi (2010).
    """
    square = smallest**2
    d = (4 * (1 - square)) ** (1 / 3) / square ** (2 / 3)
    root = math.sqrt(1 + d)
    a = root + math.sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
    b = (a - 1) ** 2 / 4
    return a, b, a + b - 1


def halley_schedule(steps: int, smallest: float = SMALLEST) -> tuple[tuple[float, float, float], ...]:
    """The weights of each step: the interval of one is what the one before leaves."""
    schedule = []
    for _ in range(steps):
        a, b, c = halley_weights(smallest)
        schedule.append((a, b, c))
        # Rounding may pass 1, for which there are no weights.
        smallest = min(1.0, smallest * (a + b * smallest**2) / (1 + c * smallest**2))
    return tuple(schedule)


def rational_response(singular_values: Tensor, steps: int) -> Tensor:
    r"""What `rational_orthogonalization` does to $\sigma/\sqrt{\|M^\top M\|_F}$, but for the shift."""
    values = singular_values
    for a, b, c in halley_schedule(steps):
        square = values.square()
        values = values * (a + b * square) / (1 + c * square)
    return values


def rational_orthogonalization(frame: Tensor, steps: int) -> Tensor:
    r"""$X \leftarrow X(aI + bS)(I + cS)^{-1}$ with $S = X^\top X$, `steps` times from $X = M/\sqrt{\|M^\top M\|_F}$.

    Everything happens on the small side. With $W = (I + cS)^{-1}$, $\alpha = b/c$ and $\beta = a - b/c$ one has
    $SW = (I - W)/c$, so a step multiplies $X$ by $\alpha I + \beta W$ and

    $$ S \leftarrow \alpha^2S + \tfrac{2\alpha\beta}{c}(I - W) + \tfrac{\beta^2}{c}(W - W^2). $$

    $M$ itself is used twice, in $S$ and in the last product. `frame` is tall, $(n, k)$ or $(\text{batch}, n, k)$,
    of a norm between 1e-6 and 1e6, or with entries at most about 1 in size. A zero matrix stays zero, nan stays within
    its matrix.
    """
    gram = rough_hermitian_product(frame.mT, frame)
    norm = torch.linalg.vector_norm(gram, dim=(-2, -1), keepdim=True)
    norm = torch.where(norm == 0, 1, norm)
    gram.div_(norm)
    gram.diagonal(dim1=-2, dim2=-1).add_(_SHIFT * torch.finfo(gram.dtype).eps)
    schedule = halley_schedule(steps)
    factor = None
    for step, (a, b, c) in enumerate(schedule):
        alpha, beta = b / c, a - b / c
        inverse = shifted_inverse(gram, c)
        if step + 1 < len(schedule):
            gram = next_gram(gram, inverse, alpha, beta, c)
        factor = next_factor(factor, inverse, alpha, beta)
    assert factor is not None, "there is at least one step"
    return rough_product(frame, factor.mul_(norm.rsqrt()))


def shifted_inverse(gram: Tensor, c: float) -> Tensor:
    r"""$(I + cS)^{-1}$ for $S$ with eigenvalues from 0 to about 1."""
    matrix = gram * c
    matrix.diagonal(dim1=-2, dim2=-1).add_(1)
    return rough_inverse(matrix, condition=1 + c)


def next_factor(factor: Tensor | None, inverse: Tensor, alpha: float, beta: float) -> Tensor:
    r"""$F(\alpha I + \beta W)$, and without a factor so far $\alpha I + \beta W$; both are overwritten."""
    if factor is None:
        factor = inverse.mul_(beta)
        factor.diagonal(dim1=-2, dim2=-1).add_(alpha)
        return factor
    # Both are functions of S, so their product is symmetric.
    turned = rough_hermitian_product(factor, inverse)
    return plus_scaled_(factor.mul_(alpha), turned, beta)


def next_gram(gram: Tensor, inverse: Tensor, alpha: float, beta: float, c: float) -> Tensor:
    r"""The Gram matrix after a step, in place of the one before it.

    $$ \alpha^2S + \tfrac{2\alpha\beta}{c}(I - W) + \tfrac{\beta^2}{c}(W - W^2) $$
    """
    following = gram.mul_(alpha**2).add_(inverse, alpha=(beta**2 - 2 * alpha * beta) / c)
    following.diagonal(dim1=-2, dim2=-1).add_(2 * alpha * beta / c)
    return plus_scaled_(following, rough_hermitian_product(inverse, inverse), -(beta**2) / c)
