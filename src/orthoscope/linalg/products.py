r"""Sums of matrices with products and adjoints that keep the layout in memory, and the series that is made of them.

With $E = Y^\mathsf{H}Y - I$ the series of $Y(I + E)^{-1/2}$ makes a nearly orthonormal $Y$ orthonormal.
"""

import torch
from torch import Tensor

# ‖E‖_F up to which the series converges fast.
NEAR = 0.5


def add_product_(target: Tensor, left: Tensor, right: Tensor, alpha: float = 1.0) -> Tensor:
    r"""$T \leftarrow T + \alpha AB$ in place; `target` is `(m, n)` or `(batch, m, n)`, by rows or by columns."""
    add = target.addmm_ if target.ndim == 2 else target.baddbmm_
    return add(left, right, alpha=alpha)


def plus_adjoint(square: Tensor) -> Tensor:
    r"""$S + S^\mathsf{H}$."""
    # Copied first: a sum that reads one term by rows and the other by columns takes three times as long.
    return square.mH.clone(memory_format=torch.contiguous_format).add_(square)


def skew_part(square: Tensor) -> Tensor:
    r"""$\tfrac12(S - S^\mathsf{H})$."""
    return square.mH.clone(memory_format=torch.contiguous_format).sub_(square).mul_(-1 / 2)


def gram_excess(frame: Tensor) -> Tensor:
    r"""$E = Y^\mathsf{H}Y - I$, in the precision of $Y$."""
    excess = frame.mH @ frame
    excess.diagonal(dim1=-2, dim2=-1).sub_(1)
    return excess


def corrected(frame: Tensor, excess: Tensor, degree: int) -> Tensor:
    r"""$Y(I + E)^{-1/2}$ for $Y$ `(n, k)` or `(batch, n, k)`, by `inverse_root_series`; `excess` is overwritten.

    The identity is added last, which costs one rounding. The layout in memory is that of `frame`.
    """
    return add_product_(frame.clone(), frame, inverse_root_series(excess, degree))


def inverse_root_series(excess: Tensor, degree: int) -> Tensor:
    r"""$(I + E)^{-1/2} - I$ up to degree 1, 2 or 4: $-\tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 + \tfrac{35}{128}E^4$.

    `excess` is overwritten.
    """
    if degree == 1:
        return excess.mul_(-1 / 2)
    square = excess @ excess
    if degree == 4:
        # `sub_`, because torch 2.13 ignores the `alpha` of a sum with a product where it compiles for a CPU.
        tail = (square * (35 / 128)).sub_(excess, alpha=5 / 16)
        tail = add_product_(square * (3 / 8), square, tail)
    else:
        tail = square.mul_(3 / 8)
    return tail.sub_(excess, alpha=1 / 2)


def by_series(stack: Tensor, excess: Tensor) -> Tensor | None:
    r"""$Y(I + E)^{-1/2}$ to one rounding, or None if $\|E\|_F \ge \tfrac12$ for a matrix of the stack, or nan.

    With $r$ the largest length of a row of $E$, degrees 1, 2 and 4 leave, entry by entry and to leading order,

    $$ |W^\mathsf{H}W - I| \le \tfrac34 r^2, \qquad \tfrac58 r^2 \|E\|, \qquad \tfrac{63}{128} r^2 \|E\|^3. $$
    """
    while True:
        rows = torch.linalg.vector_norm(excess.detach(), dim=-1)
        row, norm = torch.stack([rows.max(), torch.linalg.vector_norm(rows, dim=-1).max()]).tolist()
        if not norm < NEAR:
            return None
        for degree, remainder in ((1, 3 / 4), (2, 5 / 8 * norm), (4, 63 / 128 * norm**3)):
            if remainder * row**2 <= torch.finfo(stack.dtype).eps:
                return corrected(stack, excess, degree)
        stack = corrected(stack, excess, 4)
        excess = gram_excess(stack)
