"""The inverse of a small matrix on one core: at 128 rows torch's own takes twice as long, mostly to wake threads.

In single precision only. In double scipy's library wakes threads at this size too, which then fight with torch's: what
comes next takes three times as long.
"""

import numpy
import torch
from numpy.typing import NDArray
from scipy.linalg.blas import sgemm
from scipy.linalg.lapack import sgetrf, sgetri
from torch import Tensor

from orthoscope.linalg.transformed import is_transformed

# Up to this size scipy's products and factorisations stay on one core, and are faster than torch's.
LARGEST = 128

# The largest ‖M - 2I‖_F at which pivots are not missed: up to here the measured error is that of an LU inverse.
SAFE_DISTANCE = 128.0

# From this size on halves are faster than a factorisation.
_HALVED = 64


def is_for_leaves(matrix: Tensor) -> bool:
    """Whether this is one float32 matrix in the memory of the CPU that torch does not have to follow."""
    return (
        type(matrix) is Tensor
        and matrix.device.type == "cpu"
        and matrix.ndim == 2
        and matrix.dtype == torch.float32
        and not is_transformed(matrix)
    )


def leaf_inverse(matrix: Tensor) -> Tensor | None:
    r"""$M^{-1}$ by the formula of `accretive_inverse`, laid out by rows, under the same conditions.

    None for more than 128 rows and what is not `is_for_leaves`, where a pivot is zero, and where $\|M\|_F^2 - 4n$,
    which is at least $\|M - 2I\|_F^2$, is too large.
    """
    if not 0 < len(matrix) <= LARGEST or not is_for_leaves(matrix):
        return None
    # Of the transpose: scipy lays out by columns, which are the rows of the result.
    transposed = matrix.detach().mT.numpy()
    if not numpy.linalg.norm(transposed) ** 2 - 4 * len(matrix) <= SAFE_DISTANCE**2:
        return None
    inverse = _inverse(transposed)
    return None if inverse is None else torch.from_numpy(inverse).mT


def _inverse(matrix: NDArray[numpy.float32]) -> NDArray[numpy.float32] | None:
    if len(matrix) <= _HALVED:
        factors, pivots, _ = sgetrf(matrix)
        inverse, failed = sgetri(factors, pivots, lwork=_HALVED**2, overwrite_lu=True)
        return None if failed else inverse
    half = len(matrix) // 2
    beside, below = matrix[:half, half:], matrix[half:, :half]
    corner = _inverse(matrix[:half, :half])
    if corner is None:
        return None
    right, left = sgemm(1.0, corner, beside), sgemm(1.0, below, corner)
    schur = _inverse(sgemm(-1.0, below, right, 1.0, matrix[half:, half:]))
    if schur is None:
        return None
    inverse = numpy.empty_like(matrix, order="F")
    minus_right = sgemm(-1.0, right, schur)
    inverse[:half, :half] = sgemm(-1.0, minus_right, left, 1.0, corner, overwrite_c=True)
    inverse[:half, half:] = minus_right
    inverse[half:, :half] = sgemm(-1.0, schur, left)
    inverse[half:, half:] = schur
    return inverse
