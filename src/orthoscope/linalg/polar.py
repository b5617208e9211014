"""The polar factor: the matrix with orthonormal columns that is nearest to a given one."""

from typing import Any

import torch
from jaxtyping import Inexact
from torch import Tensor

from orthoscope.linalg._rational import halley_schedule, shifted_cholesky, times_inverse
from orthoscope.linalg.precision import full_precision, has_plain_values, in_full_precision, mapped_first, to_double
from orthoscope.linalg.products import NEAR, by_series, corrected, gram_excess

# From this size of the small side on, the Halley iteration in float64 is faster than a decomposition.
_ITERATIVE_SIDE = 256

# Three Halley steps take singular values from this, relative to ‖MᵀM‖_F^(1/2), to 1 - 2e-4. Not lower: the Gram matrix
# in float64 has an error of 1e-16, which at condition number 5e4 is 3e-7 of its smallest eigenvalue.
_SMALLEST = 2e-5

# The iteration has converged if ‖XᵀX - I‖_F is below this. Half of _SMALLEST, which is still accurate, ends at 0.1.
_CONVERGED = 0.1

# ‖YᵀY - I‖ up to which scaling and series beat a decomposition.
_FAR = 8.0

# Condition numbers for which a float64 decomposition is refined: below, its error is at most 1e-11; above, one Newton
# step is not enough.
_REFINED = (1e4, 1e11)


def polar_factor(matrix: Tensor) -> Tensor:
    r"""The nearest matrix with orthonormal columns (rows, if wide): $UV^\mathsf{H}$ for $M = U\Sigma V^\mathsf{H}$.

    Large float32 matrices are solved by the dynamically weighted Halley iteration in float64, all others, and those
    whose condition number exceeds about $3\cdot10^4$, by a singular value decomposition in float64. For real float64
    matrices of condition number $10^4$ to $10^{11}$ one Newton step removes the error of the decomposition.

    Args:
        matrix: Real or complex matrices `(..., rows, columns)`.

    Returns:
        A contiguous tensor of the shape and type of `matrix`. Up to condition number $10^8$ the error of an entry is
        below $10^{-6}$ in float32 and below $10^{-10}$ in float64 (complex, and where a derivative is taken: $10^{-16}$
        times the condition number). Of a rank-deficient matrix one of the nearest matrices is returned. A matrix with
        nan or infinite entries gives nan and does not affect the others of its batch.

        Differentiable to any order, in both modes, where the matrix has full rank; singular values may be equal.

    Raises:
        TypeError: If `matrix` is no dense floating-point or complex tensor.
        ValueError: If it has fewer than two dimensions.

    Example:
        >>> orthoscope.linalg.polar_factor(torch.diag(torch.tensor([2.0, -3.0]))).diagonal()
        tensor([ 1., -1.])
    """
    check_matrices(matrix)
    if not (matrix.is_floating_point() or matrix.is_complex()):
        raise TypeError(f"needs floating or complex matrices, got {matrix.dtype}: convert it with .float()")
    if matrix.shape[-2] < matrix.shape[-1]:
        return polar_factor(matrix.mT).mT.contiguous()
    with full_precision(matrix.device.type):
        if not has_plain_values(matrix):
            return _PolarFactor.apply(to_double(matrix)).to(matrix.dtype)
        is_double = matrix.dtype in (torch.float64, torch.complex128)
        if is_double or matrix.is_complex() or matrix.shape[-1] < _ITERATIVE_SIDE or matrix.numel() == 0:
            return _by_decomposition(to_double(matrix), refine=is_double).to(matrix.dtype)
        frames = [_by_iteration(each) for each in matrix.reshape(-1, *matrix.shape[-2:])]
        return torch.stack(frames).view(matrix.shape).to(matrix.dtype)


@in_full_precision
def nearest_frame(frame: Tensor) -> Tensor:
    r"""The polar factor of a nearly orthonormal tall matrix $Y$, by as few matrix products as suffice.

    $$ Y(Y^\mathsf{H}Y)^{-1/2} = Y(I+E)^{-1/2} = Y\left(I - \tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 +
       \tfrac{35}{128}E^4 - \dots\right), \qquad E = Y^\mathsf{H}Y - I $$

    The degree is the least of 1, 2 and 4 that leaves an error of one rounding; where degree 4 is not enough it is
    applied and $E$ is computed again. A matrix with $\|E\|_F \ge \tfrac12$ is scaled first, one with $\|E\| \ge 8$
    passed to `polar_factor`. $E$ is computed from $Y$ itself, so roundings of earlier calls do not add up.

    Args:
        frame: Matrices `(..., n, k)` with $n \ge k$. One that is not finite gives nan and does not affect the others.

    Returns:
        A new tensor with the memory layout of `frame`, accurate to a few roundings.
    """
    if frame.numel() == 0:
        return frame.clone()
    stack = frame.reshape(-1, *frame.shape[-2:])
    excess = gram_excess(stack)
    found = by_series(stack, excess)
    if found is not None:
        return found.view(frame.shape)
    # ‖E‖⁴ ≤ ‖E²‖_F² is closer than the Frobenius norm by a fourth root of the size.
    norms = torch.linalg.matrix_norm(excess.detach() @ excess.detach()).sqrt()
    far = ~(norms < _FAR)
    if bool(far.any()):
        found = torch.empty_like(stack)
        found[far] = polar_factor(stack[far])
        found[~far] = nearest_frame(stack[~far])
        return found.view(frame.shape)
    # After a tangent step eigenvalues of YᴴY are in [1, 1 + ‖E‖]: this puts them around 1.
    scaled = stack * torch.where(norms < NEAR, 1, (1 + norms / 2).rsqrt())[..., None, None]
    scaled = corrected(scaled, gram_excess(scaled), 4)
    found = by_series(scaled, gram_excess(scaled))
    return (polar_factor(stack) if found is None else found).view(frame.shape)


def orthonormality_error(matrix: Tensor) -> Tensor:
    r"""$\max_{ij} |W^\mathsf{H}W - I|_{ij}$ on the smaller side of $W$, in double precision; nan if $W$ has one.

    Args:
        matrix: One matrix, or a batch of them.
    """
    frame = to_double(matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT)
    identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
    return (frame.mH @ frame - identity).abs().amax((-2, -1))


def require_orthonormal(frame: Tensor, tolerance: float) -> None:
    """Raise ValueError for columns that are not orthonormal to the tolerance."""
    error = orthonormality_error(frame)
    if not bool((error <= tolerance).all()):  # nan too
        raise ValueError(
            f"the columns are not orthonormal (max |QᵀQ - I| is {float(error.max()):.1e}, at most {tolerance:.1e} "
            "is accepted): project them with polar_factor first"
        )


def check_matrices(matrix: Tensor) -> None:
    """Raise TypeError or ValueError for anything but a dense tensor `(*batch, rows, columns)`."""
    if not torch.is_tensor(matrix):
        raise TypeError(f"needs a tensor, got {type(matrix).__name__}: convert it with torch.as_tensor")
    if matrix.layout != torch.strided:
        raise TypeError(f"needs dense matrices, got {matrix.layout}: convert it with .to_dense()")
    if matrix.ndim < 2:
        raise ValueError(f"needs matrices (*batch, rows, columns), got shape {tuple(matrix.shape)}: reshape it")


def _by_iteration(matrix: Tensor) -> Tensor:
    r"""The polar factor of one tall real matrix, in float32; by decomposition where the iteration does not converge.

    $$ X \leftarrow X(aI + bS)(I + cS)^{-1} = \tfrac bcX + (a - \tfrac bc)X(I + cS)^{-1}, \qquad S = X^\top X $$

    three times from $X = M/\|M^\top M\|_F^{1/2}$ (Nakatsukasa, Bai & Gygi, 2010), then the series of `nearest_frame`.
    """
    # In float64 no square of a float32 number overflows or vanishes; by columns, as `times_inverse` returns it.
    current = to_double(matrix).mT.contiguous().mT
    gram = current.mT @ current
    norm = torch.linalg.vector_norm(gram)
    current, gram = current * norm.rsqrt(), gram / norm
    # After two steps the condition number is 1.3, and float32 is accurate enough.
    types = (current.dtype, torch.float32, torch.float32)
    for (a, b, c), dtype in zip(halley_schedule(len(types), _SMALLEST), types, strict=True):
        solved = times_inverse(current, shifted_cholesky(gram, c))
        current = (current * (b / c)).add_(solved, alpha=a - b / c).to(dtype)
        gram = current.mT @ current
    gram.diagonal().sub_(1)
    # Comparing with nan is false.
    if bool(torch.linalg.vector_norm(gram) < _CONVERGED):
        found = by_series(current[None], gram[None])
        assert found is not None, f"{_CONVERGED} is within the reach of the series"
        return found[0]
    return _by_decomposition(to_double(matrix), refine=False).to(torch.float32)


def _by_decomposition(matrix: Tensor, refine: bool) -> Tensor:
    finite = matrix.isfinite().all(-1).all(-1)[..., None, None]
    matrix = matrix.where(finite, 0)
    left, values, right = svd(matrix)
    frame = left @ right
    if refine and values.numel() and not matrix.is_complex():
        condition = values[..., 0] / values[..., -1]
        which = (condition > _REFINED[0]) & (condition < _REFINED[1])
        if bool(which.any()):
            frame[which] = _refined(matrix[which], frame[which], values[which], right[which].mT)
    return frame.where(finite, torch.nan)


def svd(
    matrix: Inexact[Tensor, "*batch m n"],
) -> tuple[Inexact[Tensor, "*batch m k"], Inexact[Tensor, "*batch k"], Inexact[Tensor, "*batch k n"]]:
    r"""$A = U \Sigma V^\mathsf{H}$ with $k = \min(m, n)$ columns.

    LAPACK's divide and conquer occasionally does not converge for a matrix whose singular values are almost equal.
    $A^\mathsf{H} = V \Sigma U^\mathsf{H}$ is then decomposed instead, which takes other rotations.
    """
    try:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        right, values, left = torch.linalg.svd(matrix.mH, full_matrices=False)
        return left.mH, values, right.mH
    return left, values, right


def _refined(matrix: Tensor, frame: Tensor, values: Tensor, right: Tensor) -> Tensor:
    r"""One Newton step for the polar factor of tall float64 matrices, from $U_0 = WV^\top$ of $M = WSV^\top$.

    A change of $M$ by $\delta$ changes the polar factor by $\delta/\sigma_{\min}$, so a decomposition in float64, which
    is exact for a matrix at a distance of $10^{-16}\|M\|$, has an error of $10^{-8}$ at condition number $10^8$. The
    residuals show it if they are computed with twice the digits: $P = U_0^\top M$ should be symmetric, and the part of
    $M$ outside the span of $U_0$ should vanish. The correction of first order is elementwise in the basis $V$:

    $$ U = U_0 + \Bigl(U_0V K + (M - U_0P)\,VS^{-1}\Bigr)V^\top, \qquad
       K_{ij} = \frac{(V^\top (P - P^\top) V)_{ij}}{s_i + s_j} $$

    `values` are $s$, largest first, and `right` is $V$. The deviation of $U_0$ from orthonormal is not amplified.
    """
    # A power of two, so that nothing is rounded: rows and columns get lengths of at most 1.
    scale = torch.exp2(-torch.frexp(values[..., :1]).exponent.to(values.dtype))
    matrix, values = matrix * scale[..., None], values * scale
    overlap, overlap_rest = product_in_two_parts(frame.mT, matrix)
    # The difference of the leading parts is exact.
    skew = (overlap - overlap.mT) + (overlap_rest - overlap_rest.mT)
    rotation = (right.mT @ skew @ right) / (values[..., :, None] + values[..., None, :])
    change = frame @ (right @ rotation)
    if matrix.shape[-2] > matrix.shape[-1]:
        inside, inside_rest = product_in_two_parts(frame, overlap, overlap_rest)
        change += ((matrix - inside - inside_rest) @ right) / values[..., None, :]
    return frame + change @ right.mT


def product_in_two_parts(left: Tensor, right: Tensor, right_rest: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""$H$ and $R$ with $H + R = A(B + B')$ to about $10^{-22}$ for float64: twice the digits of a plain product.

    $$ H = A_1B_1, \qquad R = A_1(B - B_1 + B') + (A - A_1)(B + B') $$

    $A_1$ and $B_1$ are rounded to multiples of $2^{-26}$. If rows of $A$ and columns of $B$ have lengths up to about 1,
    $H$ is computed without rounding, because no sum of it needs more than 53 bits.
    """
    left_head, right_head = (torch.round(matrix * 2.0**26) * 2.0**-26 for matrix in (left, right))
    tail = right - right_head
    if right_rest is not None:
        tail, right = tail + right_rest, right + right_rest
    return left_head @ right_head, left_head @ tail + (left - left_head) @ right


class _PolarFactor(torch.autograd.Function):
    r"""The polar factor $Q$ of tall matrices $M$ in double precision, with its derivative.

    With $H = Q^\mathsf{H}M$, which is positive definite, the derivative in the direction $D$ is

    $$ Q\Omega + (I - QQ^\mathsf{H})\,DH^{-1}, \qquad \Omega H + H\Omega = Q^\mathsf{H}D - D^\mathsf{H}Q, $$

    and it is its own adjoint. The derivative of a singular value decomposition would divide by differences of singular
    values, which are all zero on the Stiefel manifold.
    """

    @staticmethod
    def forward(matrix: Tensor) -> Tensor:
        return _by_decomposition(matrix, refine=False)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def jvp(ctx: Any, direction: Tensor) -> Tensor:
        with full_precision(direction.device.type):
            matrix, frame = ctx.saved_tensors
            along, stretch = frame.mH @ direction, frame.mH @ matrix
            stretch = (stretch + stretch.mH) / 2
            turn = frame @ _SylvesterSolution.apply(stretch, along - along.mH)
            if matrix.shape[-2] == matrix.shape[-1]:
                return turn
            outside = (direction - frame @ along).mH
            return turn + torch.linalg.solve_ex(stretch, outside).result.mH

    backward = jvp

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], matrix: Tensor) -> tuple[Tensor, int]:
        return _PolarFactor.apply(matrix.movedim(in_dims[0], 0)), 0


class _SylvesterSolution(torch.autograd.Function):
    r"""The solution $\Omega$ of $\Omega H + H\Omega = C$ for Hermitian positive definite $H$, by its eigenvectors.

    $d\Omega$ solves the same equation with $dC - \Omega\,dH - dH\,\Omega$ on the right.
    """

    @staticmethod
    def forward(hermitian: Tensor, right: Tensor) -> Tensor:
        # Where it is not finite, the result is not either: the right-hand side is nan.
        finite = hermitian.isfinite().all(-1).all(-1)[..., None, None]
        values, vectors = torch.linalg.eigh(hermitian.where(finite, 0))
        turned = vectors.mH @ right @ vectors / (values.unsqueeze(-1) + values.unsqueeze(-2))
        return vectors @ turned @ vectors.mH

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hermitian, solution = ctx.saved_tensors
        to_right = _SylvesterSolution.apply(hermitian, gradient)
        return -(solution.mH @ to_right + to_right @ solution.mH), to_right

    @staticmethod
    def jvp(ctx: Any, hermitian_tangent: Tensor, right_tangent: Tensor) -> Tensor:
        hermitian, solution = ctx.saved_tensors
        moved = solution @ hermitian_tangent + hermitian_tangent @ solution
        return _SylvesterSolution.apply(hermitian, right_tangent - moved)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], *arguments: Tensor) -> tuple[Tensor, int]:
        moved = (mapped_first(x, axis, info.batch_size) for x, axis in zip(arguments, in_dims, strict=True))
        return _SylvesterSolution.apply(*moved), 0
