"""The inverse of a matrix whose Hermitian part is positive definite, by halves: products instead of pivots."""

import torch
from torch import Tensor

from orthoscope.linalg.leaf_inverse import LARGEST, SAFE_DISTANCE, is_for_leaves, leaf_inverse
from orthoscope.linalg.products import add_product_

# Up to this size a library's inverse is at least as fast; larger matrices are halved until they have the size of a
# leaf. Batched, libraries are slower on small matrices. Measured on a CPU, sizes 32 to 2048.
_WHOLE = 128
_LEAF = 64
_BATCHED_LEAF = 32


def accretive_inverse(matrix: Tensor) -> Tensor:
    r"""$M^{-1}$ for batches of square $M$ whose Hermitian part $(M + M^\mathsf{H})/2$ is at least $2I$.

    $$ \begin{pmatrix} A & B \\ C & D \end{pmatrix}^{-1} =
       \begin{pmatrix} A^{-1} + A^{-1}B\,S^{-1}CA^{-1} & -A^{-1}B\,S^{-1} \\ -S^{-1}CA^{-1} & S^{-1} \end{pmatrix},
       \qquad S = D - CA^{-1}B $$

    The Hermitian parts of $A$ and $S$ are at least $2I$ again: $A$ is a block of $M$, and with
    $w = -A^{-1}Bv$ one has $v^\mathsf{H}Sv = (w, v)^\mathsf{H} M (w, v)$. So every inverse on the way has
    norm at most 1/2 and nothing is singular. The error without pivots still grows with $\|M\|^2$; where
    $\|M - 2I\|_F > 128$ for any matrix of the batch, all are inverted by LU with pivots.
    A transposed view is as good as a plain matrix, or better; the result is laid out by rows.
    """
    size, count = matrix.shape[-1], matrix.shape[:-2].numel()
    whole, leaf = (_WHOLE, _LEAF) if count < 4 else (_BATCHED_LEAF, _BATCHED_LEAF)
    if is_for_leaves(matrix):
        leaf = LARGEST
    if size <= whole or count == 0:
        return _whole(matrix)
    if not _near_identity(matrix):
        return _with_pivots(matrix)
    if matrix.ndim == 2:
        return _by_halves(matrix, leaf)
    return _by_halves(matrix.reshape(-1, size, size), leaf).view(matrix.shape)


def _near_identity(matrix: Tensor) -> bool:
    r"""Whether $\|M - 2I\|_F^2 = \|M\|_F^2 - 4\operatorname{Re}\operatorname{tr} M + 4n \le 128^2$; nan is not."""
    trace = matrix.diagonal(dim1=-2, dim2=-1).real.sum(-1)
    distance = torch.linalg.matrix_norm(matrix).square() - 4 * trace + 4 * matrix.shape[-1]
    return bool((distance <= SAFE_DISTANCE**2).all())


def _whole(matrix: Tensor) -> Tensor:
    inverse = leaf_inverse(matrix)
    return _with_pivots(matrix) if inverse is None else inverse


def _with_pivots(matrix: Tensor) -> Tensor:
    """LU, then YM = I: solving from the right takes two thirds of the time of `inv`, which solves MY = I.

    Nor does this ask the device whether it succeeded, or raise where nan should pass.
    """
    factors, pivots, _ = torch.linalg.lu_factor_ex(matrix)
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return torch.linalg.lu_solve(factors, pivots, identity, left=False)


def _by_halves(matrix: Tensor, leaf: int) -> Tensor:
    """The block formula of `accretive_inverse`, applied again to A and to S until they are small."""
    half = matrix.shape[-1] // 2
    if matrix.shape[-1] <= leaf:
        return _whole(matrix)
    top, bottom = matrix[..., :half, :], matrix[..., half:, :]
    upper_right, lower_left = top[..., half:], bottom[..., :half]
    corner = _by_halves(top[..., :half], leaf)
    right, left = corner @ upper_right, lower_left @ corner
    schur = _by_halves(add_product_(bottom[..., half:].clone(), lower_left, right, alpha=-1.0), leaf)
    inverse = matrix.new_empty(matrix.shape)
    inverse[..., :half, :half], inverse[..., half:, half:] = corner, schur
    minus_right = add_product_(inverse[..., :half, half:], right, schur, alpha=-1.0, beta=0.0)
    add_product_(inverse[..., half:, :half], schur, left, alpha=-1.0, beta=0.0)
    add_product_(inverse[..., :half, :half], minus_right, left, alpha=-1.0)
    return inverse
