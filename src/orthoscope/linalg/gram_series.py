"""How far a frame is from orthonormal, and the series that takes it there."""

from torch import Tensor

from orthoscope.linalg.products import add_product_, sum_with_product
from orthoscope.linalg.symmetric import hermitian_product


def gram_excess(frame: Tensor) -> Tensor:
    r"""$E = Y^\mathsf{H}Y - I$, in the precision of $Y$."""
    excess = hermitian_product(frame.mH, frame)
    excess.diagonal(dim1=-2, dim2=-1).sub_(1)
    return excess


def corrected(frame: Tensor, excess: Tensor, degree: int, out: Tensor | None = None) -> Tensor:
    r"""$Y(I + E)^{-1/2}$ by `inverse_root_series`; `excess` is overwritten.

    The identity is added last: adding small to large costs one rounding, a product many.
    """
    return sum_with_product(frame, frame, inverse_root_series(excess, degree), out)


def inverse_root_series(excess: Tensor, degree: int) -> Tensor:
    r"""$(I + E)^{-1/2} - I$ up to degree 1, 2 or 4: $-\tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 + \tfrac{35}{128}E^4$.

    `excess` is overwritten.
    """
    if degree == 1:
        return excess.mul_(-1 / 2)
    square = hermitian_product(excess, excess)
    if degree == 4:
        # `sub_`: of a sum with a product that was just made torch 2.13's compiler forgets `alpha`.
        tail = (square * (35 / 128)).sub_(excess, alpha=5 / 16)
        tail = add_product_(square * (3 / 8), square, tail)
    else:
        tail = square.mul_(3 / 8)
    return tail.sub_(excess, alpha=1 / 2)
