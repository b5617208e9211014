"""Products and inverses for what is approximate, or corrected later: by oneDNN where that is much faster.

There a product has up to twice the rounding of a plain one, elsewhere they are the plain ones. One matrix at a time:
stacks are always plain.
"""

import torch
from torch import Tensor

from orthoscope.linalg.onednn import onednn_product, suits
from orthoscope.linalg.products import add_product_, sum_with_product
from orthoscope.linalg.symmetric import (
    Products,
    fill_by_strips_,
    hermitian_product,
    invert_by_halves_,
    is_safe_for_halves,
    positive_inverse,
)

# Rows of a strip of a Hermitian product: of smaller matrices the whole is as fast.
_STRIP = 512

# Up to this size a factorisation is as fast as products of halves.
_FACTORISED = 64


def rough_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """$AB$, in `out` if given."""
    return onednn_product(left, right, out) if suits(left, right) else torch.matmul(left, right, out=out)


def add_rough_product_(target: Tensor, left: Tensor, right: Tensor, alpha: float = 1.0) -> Tensor:
    r"""$T \leftarrow T + \alpha AB$."""
    if not suits(left, right):
        return add_product_(target, left, right, alpha)
    return target.add_(onednn_product(left, right), alpha=alpha)


def sum_with_rough_product(
    addend: Tensor, left: Tensor, right: Tensor, out: Tensor, alpha: float = 1.0, beta: float = 1.0
) -> Tensor:
    r"""$\beta C + \alpha AB$, in `out`, which is none of the three."""
    if not suits(left, right):
        return sum_with_product(addend, left, right, out, alpha, beta)
    return torch.mul(addend, beta, out=out).add_(onednn_product(left, right), alpha=alpha)


def rough_hermitian_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """$AB$, in `out`, where it is known to be Hermitian."""
    if not suits(left, right):
        return hermitian_product(left, right, out)
    size = len(left)
    if size <= _STRIP:
        return onednn_product(left, right, out)
    result = left.new_empty(size, size) if out is None else out
    # Laid out so that rows of the one and columns of the other are contiguous: once, not for every strip.
    rows = left.contiguous()
    is_gram = right.data_ptr() == left.data_ptr() and right.stride() == left.mT.stride()
    fill_by_strips_(result, rows, rows.mT if is_gram else right.mT.contiguous().mT, rough_product, _STRIP)
    return result


def rough_inverse(matrix: Tensor, condition: float) -> Tensor:
    r"""$P^{-1}$ of symmetric positive definite $P$, real, with at most that condition number; `matrix` is given up.

    As `positive_inverse`, but an ill-conditioned one by its inverse root $R$, upper triangular, $R^\top P R = I$: with
    $P = (A, B; B^\top, C)$ and $R_A^\top AR_A = I$,

    $$ U = R_A^\top B, \qquad R_D^\top(C - U^\top U)R_D = I, \qquad
       R = \begin{pmatrix} R_A & -R_AUR_D \\ 0 & R_D \end{pmatrix}, \qquad P^{-1} = RR^\top. $$

    Its relative error is at most about the condition number times a rounding, where that of a Cholesky factorisation,
    which solves instead of multiplying, can be much less: thirty times for $I + c\mathbf{1}\mathbf{1}^\top$.
    """
    if not suits(matrix, matrix):
        return positive_inverse(matrix, condition)
    if is_safe_for_halves(matrix, condition):
        return invert_by_halves_(matrix, Products(rough_product, add_rough_product_, _STRIP))
    root = _to_inverse_root_(matrix)
    return rough_hermitian_product(root, root.mT)


def _to_inverse_root_(matrix: Tensor) -> Tensor:
    """R in place of P, as `rough_inverse` has it."""
    if len(matrix) <= _FACTORISED:
        factor = torch.linalg.cholesky_ex(matrix, upper=True).L
        identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
        return matrix.copy_(torch.linalg.solve_triangular(factor, identity, upper=True))
    half = len(matrix) // 2
    beside = matrix[:half, half:]
    corner = _to_inverse_root_(matrix[:half, :half])
    turned = rough_product(corner.mT, beside)
    rest = _to_inverse_root_(add_rough_product_(matrix[half:, half:], turned.mT, turned, alpha=-1.0))
    rough_product(rough_product(corner, turned), rest, beside).neg_()
    matrix[half:, :half] = 0
    return matrix
