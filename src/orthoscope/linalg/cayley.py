"""The Cayley chart of orthonormal frames: one inverse, which the backward pass uses again."""

from typing import Any

import torch
from jaxtyping import Inexact
from torch import Tensor

from orthoscope.linalg.block_inverse import accretive_inverse
from orthoscope.linalg.precision import full_precision


def cayley_frame(
    generator: Inexact[Tensor, "*batch rows columns"], signs: Inexact[Tensor, "*batch columns"] | None = None
) -> Inexact[Tensor, "*batch rows columns"]:
    r"""The first columns of $(I - A/2)^{-1}(I + A/2)$, orthonormal for every `generator` $X$; zero gives $I$.

    $$ A = \begin{pmatrix} L_1 - L_1^\mathsf{H} & -X_2^\mathsf{H} \\ X_2 & 0 \end{pmatrix}, \qquad
       Y = \bigl(I - \tfrac12(L_1 - L_1^\mathsf{H}) + \tfrac14 X_2^\mathsf{H}X_2\bigr)^{-1}, \qquad
       Q = \begin{pmatrix} 2Y - I \\ X_2 Y \end{pmatrix} \operatorname{diag}(s) $$

    $X_2$ are the rows below the square part of $X$ (none, if $X$ is square) and $L_1$ is the strictly lower
    triangle of that part, for complex $X$ with the imaginary part of the diagonal; nothing else is read. $Y$
    is a block of $(I - A/2)^{-1}$, so only a columns x columns matrix is inverted, and the backward pass
    is products with $Y$. A rotation by exactly $\pi$ and determinant -1 are out of reach of $s = 1$, the default:
    `cayley_coordinates` gives the column `signs` that bring every frame within. They take no gradient.
    """
    _refuse_wide(generator)
    # Products in half precision would not be orthonormal.
    with full_precision(generator.device.type):
        frame, _ = _Cayley.apply(generator, signs)
        return frame


def cayley_coordinates(
    frame: Inexact[Tensor, "*batch rows columns"],
) -> tuple[Inexact[Tensor, "*batch rows columns"], Inexact[Tensor, "*batch columns"]]:
    r"""`(generator, signs)` with `frame = cayley_frame(generator, signs)`, for every frame.

    $$ Q' = Q\operatorname{diag}(s), \qquad F = 2(Q'_1 + I)^{-1}, \qquad
       X_2 = Q'_2F, \qquad L_1 - L_1^\mathsf{H} = F^\mathsf{H} - F $$

    The sign $s_j$ is that of the real part of the $j$-th pivot while $Q_1 + \operatorname{diag}(s)$ is eliminated.
    Every pivot then has modulus at least 1 (Ballard et al., 2014, "Reconstructing Householder vectors"), so $F$
    exists whatever the frame. A Householder QR of $Q$ meets the same pivots and leaves their signs in $R$.
    How large the generator becomes: for uniformly random square frames its norm is about a third of the size
    (measured, 256 to 1024), for tall ones about 3; the only bound known is exponential in the columns, as for
    the growth of pivots. A rounding error of the generator moves the frame by at most as much. Computed in
    double precision and returned in the type of `frame`.
    """
    _refuse_wide(frame)
    precise = frame.detach().to(torch.promote_types(frame.dtype, torch.float64))
    signs = _pivot_signs(precise)
    square, below = _halves(precise * signs.unsqueeze(-2))
    identity = torch.eye(frame.shape[-1], dtype=precise.dtype, device=precise.device)
    schur = 2 * torch.linalg.inv_ex(square + identity).inverse
    skew = schur.mH - schur
    # L - Lᴴ doubles an imaginary diagonal; a real one is zero.
    lower = skew.tril(-1) + torch.diag_embed(skew.diagonal(dim1=-2, dim2=-1) / 2)
    generator = lower if below is None else torch.cat([lower, below @ schur], dim=-2)
    return generator.to(frame.dtype), signs.to(frame.dtype)


def _pivot_signs(frame: Tensor) -> Tensor:
    """±1 for each column: the sign of the pivot that a Householder QR meets there."""
    triangle, reflections = torch.geqrf(frame)
    diagonal = triangle.diagonal(dim1=-2, dim2=-1).real
    # A reflection turns the pivot's sign over, but LAPACK skips it (tau = 0) where there is nothing to clear.
    pivots = torch.where(reflections == 0, diagonal, -diagonal)
    return torch.where(pivots < 0, -1.0, 1.0).to(diagonal.dtype)


def _refuse_wide(matrix: Tensor) -> None:
    if matrix.ndim < 2 or matrix.shape[-2] < matrix.shape[-1]:
        raise ValueError(
            f"a frame has at least as many rows as columns, got shape {tuple(matrix.shape)}: transpose a wide matrix"
        )


def _halves(matrix: Tensor) -> tuple[Tensor, Tensor | None]:
    """The square part of a tall matrix and the rows below it, None if there are none."""
    columns = matrix.shape[-1]
    if matrix.shape[-2] == columns:
        return matrix, None
    return matrix[..., :columns, :], matrix[..., columns:, :]


def _triangle(matrix: Tensor) -> Tensor:
    """The part of a square matrix that `cayley_frame` reads; a real part of the diagonal cancels in L - Lᴴ."""
    return matrix.tril(0 if matrix.is_complex() else -1)


def _schur_complement(generator: Tensor) -> Tensor:
    r"""$I - \tfrac12(L_1 - L_1^\mathsf{H}) + \tfrac14 X_2^\mathsf{H}X_2$."""
    square, below = _halves(generator)
    lower = _triangle(square)
    schur = lower.mH.sub(lower).mul_(0.5)
    schur.diagonal(dim1=-2, dim2=-1).add_(1)
    return schur if below is None else schur.add_(below.mH @ below, alpha=0.25)


def _pull_back(generator: Tensor, y: Tensor, frame_grad: Tensor | None, inverse_grad: Tensor | None) -> Tensor:
    r"""$D = Y^\mathsf{H}(G_1 + \tfrac12X_2^\mathsf{H}G_2)Y^\mathsf{H}$ gives $L_1$ the gradient $D - D^\mathsf{H}$, and
    $X_2$ the gradient $G_2Y^\mathsf{H} - \tfrac12X_2(D + D^\mathsf{H})$; half a gradient of $Y$ adds to $G_1$."""
    _, below = _halves(generator)
    square_grad, below_grad = _halves(torch.zeros_like(generator) if frame_grad is None else frame_grad)
    if below is not None:
        square_grad = torch.add(square_grad, below.mH @ below_grad, alpha=0.5)
    if inverse_grad is not None:
        square_grad = square_grad + inverse_grad / 2
    d = y.mH @ square_grad @ y.mH
    lower = _triangle(d - d.mH)
    if below is None:
        return lower
    return torch.cat([lower, torch.sub(below_grad @ y.mH, below @ (d + d.mH), alpha=0.5)], dim=-2)


class _Cayley(torch.autograd.Function):
    """Frame and inverse of generators.

    The inverse is an output, not a saved intermediate: what the backward pass does with it is then
    differentiated in its turn, and derivatives of every order are right.
    """

    @staticmethod
    def forward(generator: Tensor, signs: Tensor | None) -> tuple[Tensor, Tensor]:
        _, below = _halves(generator)
        inverse = accretive_inverse(_schur_complement(generator))
        square = inverse * (2 if signs is None else 2 * signs.unsqueeze(-2))
        square.diagonal(dim1=-2, dim2=-1).sub_(1 if signs is None else signs)
        return square if below is None else torch.cat([square, _signed(below @ inverse, signs)], dim=-2), inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, frame: Tensor | None, inverse: Tensor | None) -> tuple[Tensor, None]:
        generator, signs, y = ctx.saved_tensors
        with full_precision(generator.device.type):
            return _pull_back(generator, y, None if frame is None else _signed(frame, signs), inverse), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> tuple[Tensor, Tensor]:
        r"""$\dot Y = Y\bigl(\tfrac12(\dot L_1 - \dot L_1^\mathsf{H}) -
        \tfrac14(\dot X_2^\mathsf{H}X_2 + X_2^\mathsf{H}\dot X_2)\bigr)Y$."""
        generator, signs, y = ctx.saved_tensors
        _, below = _halves(generator)
        square_tangent, below_tangent = _halves(tangent)
        lower = _triangle(square_tangent)
        change = (lower - lower.mH) / 2
        if below is None:
            inverse = y @ change @ y
            return _signed(2 * inverse, signs), inverse
        overlap = below.mH @ below_tangent
        inverse = y @ (change - (overlap + overlap.mH) / 4) @ y
        return _signed(torch.cat([2 * inverse, below_tangent @ y + below @ inverse], dim=-2), signs), inverse

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], generator: Tensor, signs: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        moved = (generator, signs)
        first, second = (
            x if x is None else x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(moved, in_dims, strict=True)
        )
        return _Cayley.apply(first, second), (0, 0)


def _signed(matrix: Tensor, signs: Tensor | None) -> Tensor:
    return matrix if signs is None else matrix * signs.unsqueeze(-2)
