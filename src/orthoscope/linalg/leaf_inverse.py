"""The inverse of a small matrix on one core: at 128 rows torch's own takes twice as long, mostly to wake threads."""

import numpy
import torch
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from torch import Tensor

from orthoscope.linalg.transformed import is_transformed

# Up to this size products and factorisations of scipy stay on one core, and are faster than torch's.
LARGEST = 128

# The largest ‖M - 2I‖_F at which pivots are not missed: up to here the measured error is that of an LU inverse.
SAFE_DISTANCE = 128.0

# From this size on halves are faster than a factorisation.
_HALVED = 64

_ROUTINES = {
    torch.float32: (blas.sgemm, lapack.sgetrf, lapack.sgetri),
    torch.float64: (blas.dgemm, lapack.dgetrf, lapack.dgetri),
}


def leaf_inverse(matrix: Tensor) -> Tensor | None:
    r"""$M^{-1}$ by the formula of `accretive_inverse`, laid out by rows, under the same conditions.

    None for what is not one real matrix of at most 128 rows in the memory of the CPU, for a tensor that torch has to
    follow, where a pivot is zero, and where $\|M\|_F^2 - 4n$, which is at least $\|M - 2I\|_F^2$, is too large.
    """
    is_plain = type(matrix) is Tensor and matrix.device.type == "cpu" and matrix.ndim == 2
    if not is_plain or matrix.dtype not in _ROUTINES or len(matrix) > LARGEST or is_transformed(matrix):
        return None
    # Of the transpose: scipy lays out by columns, which are the rows of the result.
    transposed = matrix.detach().mT.numpy()
    if not numpy.linalg.norm(transposed) ** 2 - 4 * len(matrix) <= SAFE_DISTANCE**2:
        return None
    inverse = _inverse(transposed, matrix.dtype)
    return None if inverse is None else torch.from_numpy(inverse).mT


def _inverse(matrix: NDArray[numpy.floating], dtype: torch.dtype) -> NDArray[numpy.floating] | None:
    product, factorise, invert = _ROUTINES[dtype]
    if len(matrix) <= _HALVED:
        factors, pivots, _ = factorise(matrix)
        inverse, failed = invert(factors, pivots, lwork=_HALVED**2, overwrite_lu=True)
        return None if failed else inverse
    half = len(matrix) // 2
    beside, below = matrix[:half, half:], matrix[half:, :half]
    corner = _inverse(matrix[:half, :half], dtype)
    if corner is None:
        return None
    right, left = product(1.0, corner, beside), product(1.0, below, corner)
    schur = _inverse(product(-1.0, below, right, 1.0, matrix[half:, half:]), dtype)
    if schur is None:
        return None
    inverse = numpy.empty_like(matrix, order="F")
    minus_right = product(-1.0, right, schur)
    inverse[:half, :half] = product(-1.0, minus_right, left, 1.0, corner, overwrite_c=True)
    inverse[:half, half:] = minus_right
    inverse[half:, :half] = product(-1.0, schur, left)
    inverse[half:, half:] = schur
    return inverse
