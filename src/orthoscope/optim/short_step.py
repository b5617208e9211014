"""A short step of gradient descent along the Stiefel manifold in three products instead of four."""

import torch
from torch import Tensor

from orthoscope.linalg.products import add_product_, plus_adjoint, scaled_skew_part
from orthoscope.linalg.symmetric import hermitian_product

# Rows for every column from which on products of columns x columns are cheap beside those with the frame.
_TALL = 3

# The largest part of a step, across the manifold, that is removed by a difference without harm.
_NORMAL = 1 / 32


def short_step_(x: Tensor, gradient: Tensor, overlap: Tensor, rate: float) -> bool:
    r"""Move the frame by $-\eta\xi$, $\xi = G - XS$, `overlap` $X^\mathsf{H}G = S + \Omega$; if that is short.

    False says that it is long, and that nothing was done. $S$ and $\Omega$ are the Hermitian and the skew part.
    Projection, move and retraction are one, in coordinates of the frame. For a square frame, where $\xi = X\Omega$,
    and for one at least three times as tall as wide,

    $$ X \leftarrow X(I - \eta\Omega + \tfrac12\eta^2\Omega^2), \qquad
       X \leftarrow X(I + \eta S - \tfrac12E + C) - \eta G, $$
    $$ E = \eta^2\xi^\mathsf{H}\xi = \eta^2\bigl(G^\mathsf{H}G - \tfrac12(B + B^\mathsf{H})\bigr), \quad
       B = S(S + 2\Omega), \qquad C = \tfrac14\eta(\Omega E - E\Omega) $$

    Both agree with the polar retraction to second order. They leave $X^\mathsf{H}X - I = \tfrac14(\eta\Omega)^4$ and,
    with $C$, $\eta(\Omega C - C\Omega) + (\tfrac12E - C)^2$. With $r$ the largest length of a row, no entry of these
    exceeds

    $$ \tfrac14\,r(\eta^2\Omega^2)^2, \qquad 2\,r(\eta\Omega)\,r(C) + r(\tfrac12E - C)^2, $$

    and a step for which that is more than half a rounding is long. $C$ is left out where
    $\tfrac14r(E)^2 + r(\eta\Omega)\,r(E)$ is at most half a rounding: that bounds every entry of what is left then,
    $(\tfrac12E)^2 - \tfrac12\eta(\Omega E - E\Omega)$. Long is also a step with $r(\eta S) > \tfrac1{32}$, because an
    excess $D$ that $X$ had before becomes $(I + \eta S)D(I + \eta S)$, and $E$ is a difference that loses
    $\varepsilon\|\eta S\|^2$; a square frame keeps its excess as it is.
    """
    rows, columns = x.shape[-2:]
    if rows != columns and rows < _TALL * columns:
        return False
    skew = scaled_skew_part(overlap, rate)
    limit = torch.finfo(x.dtype).eps / 2
    if rows == columns:
        # A diagonal entry of Ω² is the square of a row: too long for certain, before a product is spent on it.
        if not _largest_row(skew) ** 4 / 4 <= limit:
            return False
        square = hermitian_product(skew, skew)
        if not _largest_row(square) ** 2 / 4 <= limit:
            return False
        x.sub_(_product(x, skew.sub_(square, alpha=0.5)))
        return True
    hermitian = plus_adjoint(overlap).mul_(rate / 2)
    if not _largest_row(hermitian) <= _NORMAL:
        return False
    remainder = _remainder(_excess(gradient, hermitian, skew, rate), skew, limit)
    if remainder is None:
        return False
    # What is small is added up first: then the frame itself is rounded once.
    x.add_(_product(x, hermitian.add_(remainder)).sub_(gradient, alpha=rate))
    return True


def _excess(gradient: Tensor, hermitian: Tensor, skew: Tensor, rate: float) -> Tensor:
    """E, with `hermitian` ηS and `skew` ηΩ."""
    excess = hermitian_product(gradient.mH, gradient).mul_(rate**2)
    return excess.sub_(plus_adjoint(hermitian @ (hermitian + 2 * skew)), alpha=0.5)


def _remainder(excess: Tensor, skew: Tensor, limit: float) -> Tensor | None:
    """C - E/2, C only where it is felt; None if that leaves too much. `excess` is overwritten."""
    turn, size = _largest_row(skew), _largest_row(excess)
    if turn * size + size**2 / 4 <= limit:
        return excess.mul_(-0.5)
    correction = plus_adjoint(skew @ excess).mul_(0.25)  # (ΩE)ᴴ = -EΩ
    reach = 2 * turn * _largest_row(correction)
    remainder = correction.sub_(excess, alpha=0.5)
    return remainder if reach + _largest_row(remainder) ** 2 <= limit else None


def _product(frame: Tensor, square: Tensor) -> Tensor:
    """Laid out as the frame is, by rows or by columns: what is added across costs fifteen times as much."""
    return add_product_(torch.empty_like(frame), frame, square, beta=0.0)


def _largest_row(matrix: Tensor) -> float:
    """Over the batch too; nan if there is one."""
    return float(torch.linalg.vector_norm(matrix, dim=-1).max()) if matrix.numel() else 0.0
