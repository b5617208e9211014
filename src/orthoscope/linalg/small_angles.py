"""The inverse that the Cayley map needs, where all angles are small: five products instead of a factorisation."""

import math
from functools import cache

import numpy
import torch
from torch import Tensor

from orthoscope.linalg.products import add_product_
from orthoscope.linalg.transformed import is_transformed

_DEGREE = 6

# The smallest size of one matrix, and the largest of any, for which products are faster on a CPU: below, the
# factorisation of one matrix is quick, though not that of many; above, its inverse by halves is.
_ALONE, _LARGEST = 96, 192


def small_angle_inverse(skew: Tensor) -> Tensor | None:
    r"""$(2I - A)^{-1}$ for stacks of skew-Hermitian $A$; None where a norm is not small, or nothing would be gained.

    $$ (2I - A)^{-1} = (2I + A)\,(4I + S)^{-1}, \quad S = -A^2, \qquad
       (4I + S)^{-1} \approx p(S) = q_0(S) + S^3 q_1(S) $$

    with the polynomial $p$ of degree 6 for which $1 - (4+u)\,p(u)$ is at most one rounding of single precision for
    $0 \le u \le 1.8$: norms of $A$ up to 1.3 are small. The largest eigenvalue of $S$ is at most $\|S^3\|_F^{1/3}$, and
    that decides. In double precision only norms up to 0.28 would be, and a factorisation is more precise.
    """
    size, count = skew.shape[-1], skew.shape[:-2].numel()
    is_slow = (_ALONE if count == 1 else 1) <= size <= _LARGEST and skew.dtype in (torch.float32, torch.complex64)
    if not is_slow or count == 0 or skew.device.type != "cpu" or is_transformed(skew):
        return None
    if skew.ndim > 3:
        inverse = small_angle_inverse(skew.flatten(0, -3))
        return inverse if inverse is None else inverse.view(skew.shape)
    reach, p = _polynomial()
    # The mean eigenvalue of S: of matrices without structure a quarter of the largest. No product is spent on others.
    if not _largest_norm(skew) ** 2 <= size * reach / 3:
        return None
    minus = skew @ skew  # -S
    square = minus @ minus
    cube = minus @ square  # -S³
    if not _largest_norm(cube) <= reach**3:
        return None
    low = (square * p[2]).sub_(minus, alpha=p[1])
    high = (square * p[5]).sub_(minus, alpha=p[4]).sub_(cube, alpha=p[6])
    low.diagonal(dim1=-2, dim2=-1).add_(p[0])
    high.diagonal(dim1=-2, dim2=-1).add_(p[3])
    inverse = add_product_(low, cube, high, alpha=-1.0)
    return add_product_(inverse.clone(), skew, inverse, beta=2.0)


def _largest_norm(stack: Tensor) -> float:
    """Frobenius; nan if there is one."""
    return float(torch.linalg.vector_norm(stack, dim=(-2, -1)).max())


@cache
def _polynomial() -> tuple[float, tuple[float, ...]]:
    r"""$c$ and the coefficients of $p(u) = \bigl(1 - R(u)\bigr)/(4 + u)$, $R(u) = T_7(1 - 2u/c)\,/\,T_7(1 + 8/c)$.

    Chebyshev's $T_7$ is at most 1 for $0 \le u \le c$, and $c$ is such that $T_7(1 + 8/c)$ is one over the rounding.
    """
    rounding, count = torch.finfo(torch.float32).eps, _DEGREE + 1
    reach = 8 / (math.cosh(math.acosh(1 / rounding) / count) - 1)
    chebyshev = numpy.polynomial.Chebyshev.basis(count, domain=[reach, 0]).convert(kind=numpy.polynomial.Polynomial)
    quotient, _ = divmod(1 - rounding * chebyshev, numpy.polynomial.Polynomial([4, 1]))
    return reach, tuple(quotient.coef.tolist())
