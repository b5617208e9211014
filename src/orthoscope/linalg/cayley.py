"""The Cayley map onto orthonormal frames: one inverse, which the backward pass uses again."""

from typing import Any

import torch
from jaxtyping import Inexact
from torch import Tensor

from orthoscope.linalg.precision import full_precision, mapped_first, to_double


def cayley_frame(
    generator: Inexact[Tensor, "*batch rows columns"], signs: Inexact[Tensor, "*batch columns"] | None = None
) -> Inexact[Tensor, "*batch rows columns"]:
    r"""The first columns of $(I - A/2)^{-1}(I + A/2)$, orthonormal for every `generator` $X$; zero gives $I$.

    $$ A = \begin{pmatrix} L_1 - L_1^\mathsf{H} & -X_2^\mathsf{H} \\ X_2 & 0 \end{pmatrix}, \qquad
       Y = \bigl(2I - (L_1 - L_1^\mathsf{H}) + \tfrac12 X_2^\mathsf{H}X_2\bigr)^{-1}, \qquad
       Q = \begin{pmatrix} 4Y - I \\ 2X_2 Y \end{pmatrix} \operatorname{diag}(s) $$

    $X_2$ are the rows below the square part of $X$ (none, if $X$ is square) and $L_1$ is the strictly lower triangle of
    that part, for complex $X$ with the imaginary part of the diagonal; nothing else is read. $Y$ is a block of
    $(2I - A)^{-1}$, so only a columns x columns matrix is inverted, and the backward pass is products with $Y$.

    Args:
        generator: Real or complex matrices with at least as many rows as columns. nan gives nan.
        signs: $s$, $\pm1$ for every column, by default 1, for which rotations by exactly $\pi$ and determinant -1 are
            out of reach; `cayley_coordinates` finds the signs for a given frame. They have no gradient.

    Raises:
        ValueError: For a wide matrix.
    """
    _refuse_wide(generator)
    with full_precision(generator.device.type):
        frame, _ = _Cayley.apply(generator, signs)
        return frame


def cayley_coordinates(
    frame: Inexact[Tensor, "*batch rows columns"],
) -> tuple[Inexact[Tensor, "*batch rows columns"], Inexact[Tensor, "*batch columns"]]:
    r"""`(generator, signs)` with `frame = cayley_frame(generator, signs)`, for every orthonormal frame.

    $$ Q' = Q\operatorname{diag}(s), \qquad F = 2(Q'_1 + I)^{-1}, \qquad
       X_2 = Q'_2F, \qquad L_1 - L_1^\mathsf{H} = F^\mathsf{H} - F $$

    The sign $s_j$ is that of the real part of the $j$-th pivot while $Q_1 + \operatorname{diag}(s)$ is eliminated.
    Every pivot then has modulus at least 1 (Ballard et al., 2014, "Reconstructing Householder vectors"), so $F$ exists
    for every frame. A Householder QR of $Q$ meets the same pivots and leaves their signs in $R$.

    The norm of the generator is about a third of the size for uniformly random square frames (measured, 256 to 1024)
    and about 3 for tall ones. For special frames it grows by $\sqrt2$ with every column, as pivots can: at 48 columns
    such a generator is 2e7, and float32 cannot represent the frame. A rounding error of the generator changes the frame
    by at most twice as much. Computed in double precision, returned in the type of `frame`.

    Args:
        frame: Orthonormal columns, real or complex.

    Raises:
        ValueError: For a wide matrix.
    """
    _refuse_wide(frame)
    precise = to_double(frame.detach())
    signs = _pivot_signs(precise)
    square, below = _split(precise * signs.unsqueeze(-2))
    identity = torch.eye(frame.shape[-1], dtype=precise.dtype, device=precise.device)
    schur = 2 * torch.linalg.inv_ex(square + identity).inverse
    skew = schur.mH - schur
    # L - Lᴴ doubles an imaginary diagonal; a real one is zero.
    lower = skew.tril(-1) + torch.diag_embed(skew.diagonal(dim1=-2, dim2=-1) / 2)
    generator = torch.cat([lower, below @ schur], dim=-2)
    return generator.to(frame.dtype), signs.to(frame.dtype)


def _pivot_signs(frame: Tensor) -> Tensor:
    """±1 for each column: the sign of the pivot in a Householder QR."""
    triangle, reflections = torch.geqrf(frame)
    diagonal = triangle.diagonal(dim1=-2, dim2=-1).real
    # A reflection changes the pivot's sign, but LAPACK skips it (tau = 0) where the column is already zero below.
    pivots = torch.where(reflections == 0, diagonal, -diagonal)
    return torch.where(pivots < 0, -1.0, 1.0).to(diagonal.dtype)


def _refuse_wide(matrix: Tensor) -> None:
    if matrix.ndim < 2 or matrix.shape[-2] < matrix.shape[-1]:
        raise ValueError(
            f"a frame has at least as many rows as columns, got shape {tuple(matrix.shape)}: transpose a wide matrix"
        )


def _is_square(matrix: Tensor) -> bool:
    return matrix.shape[-2] == matrix.shape[-1]


def _split(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The square part of a tall matrix and the rows below it."""
    columns = matrix.shape[-1]
    return matrix[..., :columns, :], matrix[..., columns:, :]


def _lower(square: Tensor) -> Tensor:
    """The part of a square matrix that `cayley_frame` reads; a real part of the diagonal cancels in L - Lᴴ."""
    return square.tril(0 if square.is_complex() else -1)


def _skew(square: Tensor) -> Tensor:
    r"""$L - L^\mathsf{H}$."""
    lower = _lower(square)
    return lower - lower.mH


def _inverse(generator: Tensor) -> Tensor:
    r"""$Y$ of `cayley_frame`, by LU with pivots.

    $ZM = I$ is solved, from the right, which takes two thirds of the time of `torch.linalg.inv`. `_ex` does not wait
    for the device to report success, nor raise where nan should pass.
    """
    if _is_square(generator):
        adjoint = _skew(generator)
    else:
        # In double precision, a small part of the cost: in single precision a long X₂ would cost ε‖X₂‖² of
        # orthonormality.
        square, below = _split(to_double(generator))
        adjoint = _skew(square) + (below.mH / 2) @ below
    adjoint.diagonal(dim1=-2, dim2=-1).add_(2)
    # The adjoint is contiguous by rows, so what is factorized is contiguous by columns, as LAPACK needs it.
    factors, pivots, _ = torch.linalg.lu_factor_ex(adjoint.mH)
    identity = torch.eye(adjoint.shape[-1], dtype=adjoint.dtype, device=adjoint.device)
    return torch.linalg.lu_solve(factors, pivots, identity, left=False).to(generator.dtype)


def _times_four(matrix: Tensor, signs: Tensor | None) -> Tensor:
    return matrix * 4 if signs is None else matrix * (4 * signs).unsqueeze(-2)


def _pull_back(generator: Tensor, y: Tensor, frame_grad: Tensor, inverse_grad: Tensor | None) -> Tensor:
    r"""The gradient of the generator from $G$, four times the gradient of the unsigned frame.

    $$ D = Y^\mathsf{H}(G_1 + \tfrac12X_2^\mathsf{H}G_2)Y^\mathsf{H}, \qquad dL_1 = D - D^\mathsf{H}, \qquad
       dX_2 = \tfrac12G_2Y^\mathsf{H} - \tfrac12X_2(D + D^\mathsf{H}); $$

    a gradient of $Y$ itself is added to $G_1$.
    """
    adjoint = y.mH
    if _is_square(generator):
        d = adjoint @ (frame_grad if inverse_grad is None else frame_grad + inverse_grad) @ adjoint
        return _lower(d - d.mH)
    below, (square_grad, below_grad) = _split(generator)[1], _split(frame_grad)
    square_grad = square_grad + (below.mH / 2) @ below_grad
    d = adjoint @ (square_grad if inverse_grad is None else square_grad + inverse_grad) @ adjoint
    below_grad = below_grad @ (adjoint / 2) - below @ ((d + d.mH) / 2)
    return torch.cat([_lower(d - d.mH), below_grad], dim=-2)


class _Cayley(torch.autograd.Function):
    """Frame and inverse of generators.

    The inverse is an output, not a saved intermediate: the backward pass is then differentiable in its turn, and
    derivatives of every order are right.
    """

    @staticmethod
    def forward(generator: Tensor, signs: Tensor | None) -> tuple[Tensor, Tensor]:
        inverse = _inverse(generator)
        frame = _times_four(inverse, signs)
        if not _is_square(generator):
            frame = torch.cat([frame, _split(generator)[1] @ (frame / 2)], dim=-2)
        frame.diagonal(dim1=-2, dim2=-1).sub_(1 if signs is None else signs)
        return frame, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])
        ctx.save_for_forward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, frame: Tensor | None, inverse: Tensor | None) -> tuple[Tensor, None]:
        generator, signs, y = ctx.saved_tensors
        with full_precision(generator.device.type):
            frame = torch.zeros_like(generator) if frame is None else _times_four(frame, signs)
            return _pull_back(generator, y, frame, inverse), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> tuple[Tensor, Tensor]:
        r"""Push a tangent of the generator forward to the frame and to $Y$.

        $$ \dot Y = Y\bigl(\dot L_1 - \dot L_1^\mathsf{H} -
           \tfrac12(\dot X_2^\mathsf{H}X_2 + X_2^\mathsf{H}\dot X_2)\bigr)Y $$
        """
        generator, signs, y = ctx.saved_tensors
        if _is_square(generator):
            inverse = y @ _skew(tangent) @ y
            return _times_four(inverse, signs), inverse
        below, (square_tangent, below_tangent) = _split(generator)[1], _split(tangent)
        overlap = below.mH @ below_tangent
        inverse = y @ (_skew(square_tangent) - (overlap + overlap.mH) / 2) @ y
        columns = torch.cat([inverse, (below_tangent @ y + below @ inverse) / 2], dim=-2)
        return _times_four(columns, signs), inverse

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], generator: Tensor, signs: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        if signs is not None:
            signs = mapped_first(signs, in_dims[1], info.batch_size)
        return _Cayley.apply(mapped_first(generator, in_dims[0], info.batch_size), signs), (0, 0)
