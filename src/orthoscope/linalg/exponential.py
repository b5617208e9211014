"""The exponential map onto orthonormal frames around a given frame, by a Taylor polynomial in four products."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Inexact
from torch import Tensor

from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.products import gram_excess, inverse_root_series, plus_adjoint, skew_part

# Bader, Blanes & Casas (2019), "Computing the matrix exponential with an optimized Taylor polynomial
# approximation", Mathematics 7(12), 1174: row i holds the coefficients of I, A, A², A³ in B_i.
_COEFFICIENTS = (
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989),
    (0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)
# The same by columns: the coefficients of A, A² and A³ in each B_i.
_BY_POWER = tuple(zip(*_COEFFICIENTS, strict=True))[1:]

# The largest |λ| at which the polynomial is as accurate as the type: the first term left out, |λ|¹³/13!, is then
# 2e-7 and 9e-17, and its derivative, |λ|¹²/12!, is 2e-6 and 3e-15. Bounds of |λ| are up to half as large again as |λ|.
_SINGLE_REACH = 1.75
_DOUBLE_REACH = 0.33

# Every squaring doubles the deviation from a unitary matrix; after this many it is removed.
_SQUARINGS_BETWEEN_CORRECTIONS = 3

# Deviation from orthonormal, in the Frobenius norm, up to which a series of degree 2 leaves a rounding.
_NEARLY_ORTHONORMAL = 0.01


def skew_exponential(skew: Inexact[Tensor, "*batch size size"]) -> Inexact[Tensor, "*batch size size"]:
    """$e^A$, orthogonal (unitary), of the skew-symmetric (skew-Hermitian) part $A$ of a matrix.

    Args:
        skew: Square matrices; only their skew part counts.
    """
    with full_precision(skew.device.type):
        return taylor_exponential(skew_part(_stacked(skew)), skew=True).view(skew.shape)


def exponential_frame(
    coordinates: Inexact[Tensor, "*batch rows columns"], anchor: Inexact[Tensor, "*batch rows columns"]
) -> Inexact[Tensor, "*batch rows columns"]:
    r"""An orthonormal frame for all `coordinates` $X$ around the frame `anchor` $B$; zero gives the anchor.

    Square, with $L$ the strictly lower triangle of $X$ (if complex, and the imaginary part of the diagonal):

    $$ Q = B\,e^{L - L^\mathsf{H}} $$

    Tall, with $Z = X - BB^\mathsf{H}X$ and $K$ the skew-Hermitian part of $B^\mathsf{H}X$:

    $$ Q = BM + ZN, \qquad \begin{pmatrix} M \\ N \end{pmatrix} =
       \exp\begin{pmatrix} K & -Z^\mathsf{H}Z \\ I & 0 \end{pmatrix}\begin{pmatrix} I \\ 0 \end{pmatrix} $$

    In an orthonormal basis of $B$ and $Z$ that is the exponential of a skew-Hermitian matrix, and $Q$ is the end of the
    geodesic of the canonical metric (Edelman, Arias & Smith, 1998) that starts at $B$ along the projection of $X$ on
    the tangent space, $X - \tfrac12B(B^\mathsf{H}X + X^\mathsf{H}B)$. Real square frames keep the determinant of the
    anchor; all others are reached.

    Square frames are orthonormal for coordinates of any size. Tall ones are for $\|X\|_2$ up to about $10^4$ in single
    precision and $10^{12}$ in double, where roundings are a hundredth of a radian; beyond that they are nan.

    Args:
        coordinates: $X$, of the shape of the anchor, real or complex.
        anchor: $B$, with orthonormal columns.

    Raises:
        ValueError: If the shapes differ or the matrices are wide.
    """
    if coordinates.shape != anchor.shape:
        raise ValueError(
            f"coordinates and anchor must have one shape, got {tuple(coordinates.shape)} and {tuple(anchor.shape)}"
        )
    rows, columns = coordinates.shape[-2:]
    if rows < columns:
        raise ValueError(f"a frame has at least as many rows as columns, got {rows} x {columns}: transpose it")
    frame = _square_frame if rows == columns else _tall_frame
    with full_precision(coordinates.device.type):
        return frame(_stacked(coordinates), _stacked(anchor)).view(coordinates.shape)


def _stacked(matrix: Tensor) -> Tensor:
    """All batch dimensions as one and rows contiguous, as `baddbmm` takes them."""
    return matrix.reshape(matrix.shape[:-2].numel(), *matrix.shape[-2:]).contiguous()


def _square_frame(coordinates: Tensor, anchor: Tensor) -> Tensor:
    # A real part of the diagonal cancels in L - Lᴴ.
    lower = coordinates.tril(0 if coordinates.is_complex() else -1)
    return anchor @ taylor_exponential(lower - lower.mH, skew=True)


def _tall_frame(coordinates: Tensor, anchor: Tensor) -> Tensor:
    columns = coordinates.shape[-1]
    overlap = anchor.mH @ coordinates
    normal = torch.baddbmm(coordinates, anchor, overlap, alpha=-1)
    gram = normal.mH @ normal
    # δ = max(1, ‖ZᴴZ‖_F^(1/2)) gives -ZᴴZ/δ and δI one size. It only changes rounding, N becomes δN: a constant.
    scale = torch.linalg.matrix_norm(gram.detach(), keepdim=True).sqrt().clamp_min(1.0)
    identity = torch.eye(columns, dtype=gram.dtype, device=gram.device).expand_as(gram)
    upper = torch.cat([(overlap - overlap.mH) / 2, -gram / scale], dim=-1)
    lower = torch.cat([identity * scale, torch.zeros_like(gram)], dim=-1)
    exponential = taylor_exponential(torch.cat([upper, lower], dim=-2), skew=False)
    along, across = exponential[..., :columns].split(columns, dim=-2)
    return _made_orthonormal(torch.baddbmm(anchor @ along, normal, across / scale))


def _made_orthonormal(frame: Tensor) -> Tensor:
    r"""$Q(Q^\mathsf{H}Q)^{-1/2}$ by its series, for a frame that is orthonormal up to rounding; nan if it is not.

    The correction is a constant to differentiation: it does not change the derivative along the manifold.
    """
    rounded = frame.detach()
    excess = gram_excess(rounded)
    is_near = torch.linalg.matrix_norm(excess)[..., None, None] < _NEARLY_ORTHONORMAL
    return frame + torch.where(is_near, rounded @ inverse_root_series(excess, 2), torch.nan)


def taylor_exponential(matrix: Tensor, skew: bool) -> Tensor:
    r"""$e^A$ for a batch `(count, size, size)` of $A$ that are skew-Hermitian, or (`skew=False`) similar to such.

    $$ e^A \approx p(A/2^s)^{2^s}, \qquad p(A) = B_0 + (B_1 + A_6)A_6, \qquad A_6 = B_2 + B_3^2, \qquad
       B_i = \sum_{j=0}^3 b_{ij}A^j $$

    $p$ is the Taylor polynomial of degree 12, and $s$ the least with which `spectral_bounds` are within its reach: one
    $s$ for the batch, that of its largest matrix. A skew-Hermitian $A$ has a unitary exponential of any size: every
    third square $U$ is replaced by $\tfrac12U(3I - U^\mathsf{H}U)$, whose deviation is the square of that of $U$, and
    which has the same derivative there.

    Forward takes $4 + s$ products, apart from these, and backward $8 + 2s$, or one less with `skew`: the gradient is
    then right up to a Hermitian part, so $A$ must come from a difference $L - L^\mathsf{H}$, where that cancels. A
    matrix that is not finite, or whose cube is not, gives nan.
    """
    return _TaylorExponential.apply(matrix, skew)[0]


def spectral_bounds(matrix: Tensor, square: Tensor, cube: Tensor, skew: bool) -> list[float]:
    r"""For each $A$ of a batch, given with $A^2$ and $A^3$: an upper bound of $|\theta|$ of its eigenvalues $i\theta$.

    Let $\lambda = \theta^2$, taken once for each pair $\pm i\theta$ if $A$ is real, and $t_j = \sum \lambda^j$.
    Under the weights $\lambda/t_1$ the $\lambda$ have mean $a = t_2/t_1$ and variance $v = t_3/t_1 - a^2$, so
    Cantelli's inequality holds for the largest of them:

    $$ \frac{\lambda}{t_1} \le \frac{v}{v + (\lambda - a)^2}, \qquad
       t_j = |\operatorname{tr} A^{2j}| \text{ (half of it, if } A \text{ is real)} $$

    The bound on $\lambda$ is the largest root of this cubic or $t_3^{1/3}$, whichever is less. For a Gaussian skew
    matrix of norm 1 and size 2048 it gives $\theta \le 1.7$, where $\|A\|_1$ is 19 and $\|A^2\|_1^{1/2}$ is 3.
    With `skew`, $|\operatorname{tr} A^{2j}| = \|A^j\|_F^2$; without, $A$ is only similar to such a matrix.
    Matrices that are not finite, or whose cubes are not, give nan or infinity; those on the meta device 0.
    """
    if matrix.is_meta:
        return [0.0] * len(matrix)
    multiplicity = 1 if matrix.is_complex() else 2
    powers = (matrix, square, cube)
    if skew:
        even = [torch.linalg.matrix_norm(power).double().square() for power in powers]
    else:
        even = [(power * power.mT).sum((-2, -1)).abs().double() for power in powers]
    traces = torch.stack(even, dim=-1) / multiplicity
    return [_largest_root(*sums) ** 0.5 for sums in traces.tolist()]


def _largest_root(t1: float, t2: float, t3: float) -> float:
    """The bound on λ, by Newton's method on the cubic.

    The cubic is convex to the right of the mean, so after its first step Newton's method approaches the root from the
    right: stopping early is safe.
    """
    if not 0 < t3 < float("inf"):
        return t1  # zero, so small that the cube underflowed, or not finite
    mean = t2 / t1
    # Rounding must not make the variance too small; a larger one only increases the bound.
    variance = max(t3 / t1 - mean**2, 1e-5 * mean**2)
    root = limit = t3 ** (1 / 3)
    for _ in range(8):
        distance = root - mean
        root -= (root * (variance + distance**2) - variance * t1) / (variance + distance * (3 * root - mean))
    return min(root, limit)


def _halvings(bounds: list[float], dtype: torch.dtype) -> int:
    reach = _DOUBLE_REACH if dtype in (torch.float64, torch.complex128) else _SINGLE_REACH
    # Not `max(…, default=)`, which breaks the graph of torch.compile.
    largest = max([0.0, *(bound for bound in bounds if math.isfinite(bound))])
    return max(0, math.ceil(math.log2(largest / reach))) if largest else 0


def _combination(terms: tuple[Tensor, ...], weights: Sequence[float]) -> Tensor:
    """The sum of weights times terms, in one buffer."""
    total = terms[0] * weights[0]
    for term, weight in zip(terms[1:], weights[1:], strict=True):
        total.add_(term, alpha=weight)
    return total


def _polynomials(powers: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    """B_0 to B_3."""
    polynomials = [_combination(powers, weights) for _, *weights in _COEFFICIENTS]
    for polynomial, (constant, *_) in zip(polynomials, _COEFFICIENTS, strict=True):
        polynomial.diagonal(dim1=-2, dim2=-1).add_(constant)
    return polynomials


def _derivative(matrix: Tensor, direction: Tensor, halvings: int) -> Tensor:
    """The derivative of p(A/2^s)^(2^s) in a direction, by operations that can be differentiated again."""
    a, e = matrix * 0.5**halvings, direction * 0.5**halvings
    a2, e2 = a @ a, a @ e + e @ a
    a3, e3 = a2 @ a, a2 @ e + e2 @ a
    b0, b1, b2, b3 = _polynomials((a, a2, a3))
    # e3 first: sums are taken in place, and if vmap maps over any of the three it maps over this one.
    c0, c1, c2, c3 = (_combination((e3, e2, e), weights[:0:-1]) for weights in _COEFFICIENTS)
    a6, e6 = b2 + b3 @ b3, c2 + b3 @ c3 + c3 @ b3
    power, change = b0 + (b1 + a6) @ a6, c0 + (c1 + e6) @ a6 + (b1 + a6) @ e6
    for _ in range(halvings):
        power, change = power @ power, power @ change + change @ power
    return change


def _pull_back(
    grad: Tensor, skew: bool, matrix: Tensor, square: Tensor, b3: Tensor, a6: Tensor, left: Tensor, *powers: Tensor
) -> Tensor:
    r"""The gradient of A from that of the exponential and the saved intermediates: 8 products, and 2 per squaring.

    A gradient $S$ of $A^2$ gives $A$ the gradient $SA^\mathsf{H} + A^\mathsf{H}S$. For skew $A$ that has the same
    skew-Hermitian part as $(S + S^\mathsf{H})A^\mathsf{H}$.
    """
    for power in reversed(powers):
        grad = torch.baddbmm(power.mH @ grad, grad, power.mH)
    grad = grad.contiguous()  # sums have the layout of their first term, and products are faster by rows
    left_grad = grad @ a6.mH
    a6_grad = torch.baddbmm(left_grad, left.mH, grad)
    b3_grad = (b3.mH @ a6_grad).baddbmm_(a6_grad, b3.mH)
    scale, adjoint, grads = 0.5 ** len(powers), matrix.mH, (grad, left_grad, a6_grad, b3_grad)
    first, second, third = (_combination(grads, weights) for weights in _BY_POWER)
    second.baddbmm_(third, adjoint, alpha=scale)
    first.baddbmm_(square.mH, third)
    if skew:
        first.baddbmm_(plus_adjoint(second), adjoint, alpha=scale)
    else:
        first.baddbmm_(second, adjoint, alpha=scale).baddbmm_(adjoint, second, alpha=scale)
    return first.mul_(scale) if powers else first


class _TaylorExponential(torch.autograd.Function):
    """The exponential and the intermediates of its backward pass: A², B_3, A_6, B_1 + A_6, and all squared powers."""

    @staticmethod
    def forward(matrix: Tensor, skew: bool) -> tuple[Tensor, ...]:
        square = matrix @ matrix
        cube = square @ matrix
        bounds = spectral_bounds(matrix, square, cube, skew)
        halvings = _halvings(bounds, matrix.dtype)
        if halvings:
            matrix = matrix * 0.5**halvings
            square.mul_(0.25**halvings)
            cube.mul_(0.125**halvings)
        b0, left, b2, b3 = _polynomials((matrix, square, cube))
        a6 = b2.baddbmm_(b3, b3)
        left.add_(a6)
        powers = [b0.baddbmm_(left, a6)]
        for squaring in range(1, halvings + 1):
            power = powers[-1] @ powers[-1]
            if skew and squaring % _SQUARINGS_BETWEEN_CORRECTIONS == 0:
                power = torch.baddbmm(power, power, power.mH @ power, beta=1.5, alpha=-0.5)
            powers.append(power)
        for index, bound in enumerate(bounds):
            if not math.isfinite(bound):
                powers[-1][index] = torch.nan
        return powers[-1], square, b3, a6, left, *powers[:-1]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: tuple[Tensor, ...]) -> None:
        _, *intermediates = output
        ctx.skew, ctx.halvings = inputs[1], len(output) - 5
        ctx.mark_non_differentiable(*intermediates)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], *intermediates)
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, None]:
        if grad is None:
            return None, None
        with full_precision(grad.device.type):
            if torch.is_grad_enabled():
                # The intermediates have no autograd history, so a second derivative must not use them. The adjoint of
                # the derivative at A is the derivative at Aᴴ, because the coefficients are real.
                return _derivative(ctx.saved_tensors[0].mH, grad, ctx.halvings), None
            return _pull_back(grad, ctx.skew, *ctx.saved_tensors), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> tuple[Tensor | None, ...]:
        (matrix,) = ctx.saved_tensors
        return _derivative(matrix, tangent, ctx.halvings), *[None] * (4 + ctx.halvings)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, None], matrix: Tensor, skew: bool
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        folded = matrix.movedim(in_dims[0], 0)
        outputs = _TaylorExponential.apply(folded.flatten(0, 1), skew)
        return tuple(output.unflatten(0, folded.shape[:2]) for output in outputs), (0,) * len(outputs)
