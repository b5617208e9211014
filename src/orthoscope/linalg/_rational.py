"""The dynamically weighted Halley iteration: rational functions that raise all singular values to 1 from below."""

import math

import torch
from torch import Tensor

# The weights are optimal for singular values between this and 1. In float32 it must not be lower: the Gram matrix
# does not resolve values below 3e-4 of the norm, and I + cS is then no longer positive definite (observed at 1e-4).
_SMALLEST = 1e-3

# Rounding can make eigenvalues of the Gram matrix negative by a few eps; this many are added to all of them.
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


def halley_schedule(steps: int, smallest: float = _SMALLEST) -> tuple[tuple[float, float, float], ...]:
    """The weights of each step: the interval of a step is the image of the one before."""
    schedule = []
    for _ in range(steps):
        a, b, c = halley_weights(smallest)
        schedule.append((a, b, c))
        # Rounding may exceed 1, for which there are no weights.
        smallest = min(1.0, smallest * (a + b * smallest**2) / (1 + c * smallest**2))
    return tuple(schedule)


def rational_response(singular_values: Tensor, steps: int) -> Tensor:
    r"""The image of $\sigma/\sqrt{\|M^\top M\|_F}$ under `rational_orthogonalization`, without its diagonal shift."""
    values = singular_values
    for a, b, c in halley_schedule(steps):
        square = values.square()
        values = values * (a + b * square) / (1 + c * square)
    return values


def rational_orthogonalization(frame: Tensor, steps: int) -> Tensor:
    r"""$X \leftarrow X(aI + bS)(I + cS)^{-1}$ with $S = X^\top X$, `steps` times from $X = M/\sqrt{\|M^\top M\|_F}$.

    All steps are taken on the small side. With $W = (I + cS)^{-1}$, $\alpha = b/c$ and $\beta = a - b/c$ one has
    $SW = (I - W)/c$, so a step multiplies $X$ by $\alpha I + \beta W$ and

    $$ S \leftarrow \alpha^2S + \tfrac{2\alpha\beta}{c}(I - W) + \tfrac{\beta^2}{c}(W - W^2). $$

    Args:
        frame: Tall real matrices $M$ `(batch, n, k)` in float32 or float64, scaled so that fourth powers of entries do
            not overflow. A zero matrix stays zero, nan stays within its matrix.
        steps: Number of steps, at least 1.
    """
    gram = frame.mT @ frame
    norm = torch.linalg.vector_norm(gram, dim=(-2, -1), keepdim=True)
    norm = torch.where(norm == 0, 1, norm)
    gram.div_(norm).diagonal(dim1=-2, dim2=-1).add_(_SHIFT * torch.finfo(gram.dtype).eps)
    factor = identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device).expand_as(gram)
    for step, (a, b, c) in enumerate(halley_schedule(steps), start=1):
        alpha, beta = b / c, a - b / c
        triangle = shifted_cholesky(gram, c)
        # All matrices are symmetric: transposed, because solves are faster by columns and sums by rows.
        solved = times_inverse(factor.mT, triangle).mT
        if step < steps:
            inverse = solved if step == 1 else times_inverse(identity, triangle).mT
            gram.mul_(alpha**2).add_(inverse, alpha=(beta**2 - 2 * alpha * beta) / c)
            gram.diagonal(dim1=-2, dim2=-1).add_(2 * alpha * beta / c)
            gram.baddbmm_(inverse, inverse, alpha=-(beta**2) / c)
        factor = solved.mul_(beta).add_(factor, alpha=alpha)
    return frame @ factor.mul_(norm.rsqrt())


def shifted_cholesky(gram: Tensor, c: float) -> Tensor:
    r"""The lower triangular $L$ with $LL^\top = I + cS$; not finite where it does not exist."""
    shifted = gram * c
    shifted.diagonal(dim1=-2, dim2=-1).add_(1)
    # `_ex`: a matrix that is not finite must neither raise nor affect the others of its batch.
    return torch.linalg.cholesky_ex(shifted).L


def times_inverse(matrix: Tensor, triangle: Tensor) -> Tensor:
    r"""$X(LL^\top)^{-1}$, laid out by columns, by two solves from the right: half the time of solves from the left."""
    half = torch.linalg.solve_triangular(triangle.mT, matrix, upper=True, left=False)
    return torch.linalg.solve_triangular(triangle, half, upper=False, left=False)
