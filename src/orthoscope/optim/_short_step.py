"""A short step of gradient descent on the Stiefel manifold with three products of frame size instead of four."""

import torch
from torch import Tensor

from orthoscope.optim._batching import frame_product

# Rows per column from which products of k x k matrices are cheap beside those with the n x k frame.
_TALL = 3

# Largest normal part of a step, as a row norm, that the cancellation in E tolerates.
_NORMAL = 1 / 32


def short_step_(x: Tensor, gradient: Tensor, overlap: Tensor, rate: float) -> bool:
    r"""Move frames in place by $-\eta\xi$, $\xi = G - XS$ the Riemannian gradient, if that is a short step.

    With $X^\mathsf{H}G = S + \Omega$, Hermitian plus skew, projection, move and retraction become one product with the
    frame. For a square frame, where $\xi = X\Omega$, and for one at least three times as tall as wide,

    $$ X \leftarrow X(I - \eta\Omega + \tfrac12\eta^2\Omega^2), \qquad
       X \leftarrow X(I + \eta S - \tfrac12E + C) - \eta G, $$
    $$ E = \eta^2\xi^\mathsf{H}\xi = \eta^2\bigl(G^\mathsf{H}G - \tfrac12(B + B^\mathsf{H})\bigr), \quad
       B = S(S + 2\Omega), \qquad C = \tfrac14\eta(\Omega E - E\Omega). $$

    Both agree with the polar retraction to second order. They leave $X^\mathsf{H}X - I = \tfrac14(\eta\Omega)^4$ and
    $\eta(\Omega C - C\Omega) + (\tfrac12E - C)^2$. With $r$ the largest norm of a row, the entries of these are at most

    $$ \tfrac14\,r(\eta^2\Omega^2)^2, \qquad 2\,r(\eta\Omega)\,r(C) + r(\tfrac12E - C)^2, $$

    and a step is short if this bound is below $\varepsilon/2$. $C$ is omitted where
    $r(\eta\Omega)\,r(E) + \tfrac14r(E)^2 \le \varepsilon/2$, a bound of what is left then,
    $(\tfrac12E)^2 - \tfrac12\eta(\Omega E - E\Omega)$. A step with $r(\eta S) > \tfrac1{32}$ is not short either: an
    earlier deviation $D$ of $X$ becomes $(I + \eta S)D(I + \eta S)$, and $E$ is a difference that loses
    $\varepsilon\|\eta S\|^2$. A square frame keeps $D$ as it is.

    Args:
        x: Frames `(n, k)` or `(batch, n, k)`, overwritten if the step is short.
        gradient: The ambient gradient $G$.
        overlap: $X^\mathsf{H}G$.
        rate: The step length $\eta$.

    Returns:
        True if the step was taken; False if a frame has another shape or its step is not short, and `x` is unchanged.
    """
    rows, columns = x.shape[-2:]
    if rows != columns and rows < _TALL * columns:
        return False
    limit = torch.finfo(x.dtype).eps / 2
    skew = (overlap - overlap.mH) * (rate / 2)
    if rows == columns:
        # A diagonal entry of Ω² is a squared row norm of Ω: this bound needs no product.
        if not _largest_row(skew) ** 4 / 4 <= limit:
            return False
        square = skew @ skew
        if not _largest_row(square) ** 2 / 4 <= limit:
            return False
        x.sub_(frame_product(x, skew - square / 2))
        return True
    hermitian = (overlap + overlap.mH) * (rate / 2)
    if not _largest_row(hermitian) <= _NORMAL:
        return False
    correction = retraction_term(tangent_gram(gradient, hermitian, skew, rate), skew, limit)
    if correction is None:
        return False
    # The small terms are added first, so that the frame is rounded only once.
    x.add_(frame_product(x, hermitian + correction).sub_(gradient, alpha=rate))
    return True


def tangent_gram(gradient: Tensor, hermitian: Tensor, skew: Tensor, rate: float) -> Tensor:
    r"""$E = \eta^2\xi^\mathsf{H}\xi$ from `hermitian` $\eta S$ and `skew` $\eta\Omega$, without forming $\xi$."""
    cross = hermitian @ (hermitian + 2 * skew)
    return (gradient.mH @ gradient) * rate**2 - (cross + cross.mH) / 2


def retraction_term(gram: Tensor, skew: Tensor, limit: float) -> Tensor | None:
    r"""$C - \tfrac12E$ from $E$ and $\eta\Omega$, without $C$ where it is negligible; None if the step is not short."""
    turn, size = _largest_row(skew), _largest_row(gram)
    if turn * size + size**2 / 4 <= limit:
        return -gram / 2
    product = skew @ gram
    c = (product + product.mH) / 4  # (ΩE)ᴴ = -EΩ
    term = c - gram / 2
    return term if 2 * turn * _largest_row(c) + _largest_row(term) ** 2 <= limit else None


def _largest_row(matrix: Tensor) -> float:
    """The largest norm of a row in the whole batch; nan if there is one."""
    return float(torch.linalg.vector_norm(matrix, dim=-1).max()) if matrix.numel() else 0.0
