"""Products and inverses that are known to be Hermitian: half of the result is computed, the other half copied."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.linalg.products import add_product_
from orthoscope.linalg.transformed import is_transformed

# Rows of a strip. A matrix below four of them, or on an accelerator, is faster in one product.
_STRIP = 128
_SMALLEST = 4 * _STRIP

# Up to this size a factorisation is faster than products of halves.
_FACTORISED = 128

# Roundings times condition number up to which halves may be used. Their error is not that of a matrix nearby: at 1e-3
# the inverse of a Gram matrix in single precision was too rough to go on with, where the factor's was not.
_SAFE = 1e-4


def hermitian_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    r"""$AB$, in `out`, where it is known to be Hermitian: $Y^\mathsf{H}Y$, or the square of a Hermitian or skew matrix.

    Large ones on a CPU strip by strip, each from the diagonal on, at 5/8 of the cost of a product: 0.55 to 0.8 of its
    time for 512 to 2048 columns.
    """
    size = left.shape[-2]
    if is_transformed(left) or is_transformed(right):
        # Torch cannot follow what is written to a place.
        return left @ right if out is None else out.copy_(left @ right)
    if size < _SMALLEST or left.device.type != "cpu":
        return torch.matmul(left, right, out=out)
    result = left.new_empty(*left.shape[:-1], size) if out is None else out
    count = left.shape[:-2].numel()
    stacks = (matrix.reshape(count, *matrix.shape[-2:]) for matrix in (left, right, result))
    for one, other, place in zip(*stacks, strict=True):
        fill_by_strips_(place, one, other)
    return result


def fill_by_strips_(
    place: Tensor,
    left: Tensor,
    right: Tensor,
    multiply: Callable[..., Tensor] = torch.mm,
    strip: int = _STRIP,
    run: Callable[[Callable[[int], Tensor], range], object] | None = None,
) -> None:
    """The Hermitian product of two matrices in a place: strips, the longest first, in turn or as `run` does."""

    def fill(start: int) -> Tensor:
        return multiply(left[start : start + strip], right[:, start:], out=place[start : start + strip, start:])

    strips = range(0, len(place), strip)
    if run is None:
        for start in strips:
            fill(start)
    else:
        run(fill, strips)
    _copy_to_lower_(place, strip)


def _copy_to_lower_(hermitian: Tensor, strip: int = _STRIP) -> None:
    """What strips have left out below the diagonal."""
    for start in range(strip, len(hermitian), strip):
        hermitian[start:, start - strip : start] = hermitian[start - strip : start, start:].mH


def positive_inverse(matrix: Tensor, condition: float) -> Tensor:
    r"""$P^{-1}$ of symmetric positive definite $P$, real, with at most that condition number; `matrix` is given up.

    From the Cholesky factor if $P$ is small, one of a stack or ill-conditioned, else with $P = (A, B; B^\top, C)$, and
    $T = A^{-1}B$, $D = (C - B^\top T)^{-1}$,

    $$ P^{-1} = \begin{pmatrix} A^{-1} + TDT^\top & -TD \\ -DT^\top & D \end{pmatrix}, $$

    which is all products, in the memory of `matrix`: 0.6 to 0.85 of the time at 1024 rows. nan, or numbers without
    meaning, if it is not positive definite.
    """
    by_products = matrix.ndim == 2 and len(matrix) >= _SMALLEST and matrix.device.type == "cpu"
    if by_products and is_safe_for_halves(matrix, condition) and not is_transformed(matrix):
        return invert_by_halves_(matrix, Products(torch.mm, add_product_, _STRIP))
    return _from_factor(matrix)


def is_safe_for_halves(matrix: Tensor, condition: float) -> bool:
    """Whether `invert_by_halves_` is as accurate for a matrix of this type and condition number as a factorisation."""
    return torch.finfo(matrix.dtype).eps * condition <= _SAFE


class Products(NamedTuple):
    r"""How to multiply: `product(A, B, out=...)`, `add_product_(T, A, B, alpha)`, and in strips of so many rows."""

    product: Callable[..., Tensor]
    add_product_: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    strip: int


def invert_by_halves_(matrix: Tensor, by: Products) -> Tensor:
    """In its own memory: a block is written when it is not read any more. Below the diagonal nothing is read."""
    if len(matrix) <= _FACTORISED:
        return matrix.copy_(_from_factor(matrix))
    half = len(matrix) // 2
    upper, beside, lower = matrix[:half, :half], matrix[:half, half:], matrix[half:, half:]
    invert_by_halves_(upper, by)
    turned = by.product(upper, beside)
    _add_hermitian_product_(lower, beside.mT, turned, -1.0, by)
    invert_by_halves_(lower, by)
    corner = by.product(turned, lower, out=beside)
    _add_hermitian_product_(upper, corner, turned.mT, 1.0, by)
    _copy_to_lower_(upper)  # by narrow strips, whatever was added by
    matrix[half:, :half] = corner.neg_().mT
    return matrix


def _add_hermitian_product_(target: Tensor, left: Tensor, right: Tensor, alpha: float, by: Products) -> None:
    r"""$P \leftarrow P + \alpha AB$ where $AB$ is symmetric: from the diagonal on, and some entries below."""
    strip = by.strip if len(target) >= 2 * by.strip else len(target)
    for start in range(0, len(target), strip):
        by.add_product_(target[start : start + strip, start:], left[start : start + strip], right[:, start:], alpha)


def _from_factor(matrix: Tensor) -> Tensor:
    # `_ex`: a matrix that is not finite must neither raise nor touch the others.
    return torch.cholesky_inverse(torch.linalg.cholesky_ex(matrix, upper=True).L, upper=True)
