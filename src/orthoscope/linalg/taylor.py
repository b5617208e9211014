"""The exponential of a matrix whose eigenvalues are imaginary, by a Taylor polynomial in four products."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from orthoscope.linalg.imaginary_spectra import spectral_bounds
from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.products import plus_adjoint
from orthoscope.linalg.signatures import with_known_signature

# Bader, Blanes & Casas (2019), "Computing the matrix exponential with an optimized Taylor polynomial
# approximation", Mathematics 7(12), 1174: row i holds the coefficients of I, A, A², A³ in B_i.
_COEFFICIENTS = (
    (9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740),
    (5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989),
    (0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230),
    (-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359),
)
# The same by columns: what A, A² and A³ are worth in each B_i.
_BY_POWER = tuple(zip(*_COEFFICIENTS, strict=True))[1:]

# The largest |λ| at which the polynomial is as good as the type: the first term left out, |λ|¹³/13!, is then
# 2e-7 and 9e-17, and its derivative, |λ|¹²/12!, is 2e-6 and 3e-15. Bounds of |λ| are half as large again as |λ|.
_SINGLE_REACH = 1.75
_DOUBLE_REACH = 0.33

# A squaring doubles the distance from a unitary matrix; after so many of them it is taken away.
_KEPT_UNITARY = 3


def taylor_exponential(matrix: Tensor, skew: bool) -> Tensor:
    r"""$e^A$ for a batch `(count, size, size)` of $A$ that are skew-Hermitian, or (`skew=False`) similar to such.

    $$ e^A \approx p(A/2^s)^{2^s}, \qquad p(A) = B_0 + (B_1 + A_6)A_6, \qquad A_6 = B_2 + B_3^2, \qquad
       B_i = \sum_{j=0}^3 b_{ij}A^j $$

    $p$ is the Taylor polynomial of degree 12, and $s$ the least that brings the eigenvalues, as far as
    `spectral_bounds` knows, within its reach: one $s$ for the batch, that of its largest matrix.
    A skew-Hermitian $A$ has a unitary exponential, however large it is: every third square $U$ is replaced by
    $\tfrac12U(3I - U^\mathsf{H}U)$, which is nearer to one by a square, and has the same derivative there.
    Forward takes $4 + s$ products, beside these, and backward $8 + 2s$, of which `skew` saves one: the gradient is
    then right up to a Hermitian part, so $A$ must come from a difference $L - L^\mathsf{H}$, where that cancels. A
    matrix that is not finite, or whose cube is not, gives nan.
    """
    return _TaylorExponential.apply(matrix, skew)[0]


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


def _nearer_to_unitary(power: Tensor) -> Tensor:
    r"""$\tfrac12U(3I - U^\mathsf{H}U)$, the step of Newton and Schulz."""
    return torch.baddbmm(power, power, power.mH @ power, beta=1.5, alpha=-0.5)


def _halvings(bounds: list[float], dtype: torch.dtype) -> int:
    reach = _DOUBLE_REACH if dtype in (torch.float64, torch.complex128) else _SINGLE_REACH
    largest = max((bound for bound in bounds if math.isfinite(bound)), default=0.0)
    return max(0, math.ceil(math.log2(largest / reach))) if largest else 0


def _derivative(matrix: Tensor, direction: Tensor, halvings: int) -> Tensor:
    """How p(A/2^s)^(2^s) changes when A moves in a direction, by operations that can be differentiated again."""
    a, e = matrix * 0.5**halvings, direction * 0.5**halvings
    a2, e2 = a @ a, a @ e + e @ a
    a3, e3 = a2 @ a, a2 @ e + e2 @ a
    b0, b1, b2, b3 = _polynomials((a, a2, a3))
    # e3 first: it is the one that vmap has certainly batched, and sums are taken in place.
    c0, c1, c2, c3 = (_combination((e3, e2, e), weights[:0:-1]) for weights in _COEFFICIENTS)
    a6, e6 = b2 + b3 @ b3, c2 + b3 @ c3 + c3 @ b3
    power, change = b0 + (b1 + a6) @ a6, c0 + (c1 + e6) @ a6 + (b1 + a6) @ e6
    for _ in range(halvings):
        power, change = power @ power, power @ change + change @ power
    return change


def _pull_back(
    grad: Tensor, skew: bool, matrix: Tensor, square: Tensor, b3: Tensor, a6: Tensor, left: Tensor, *powers: Tensor
) -> Tensor:
    r"""The gradient of A from that of the exponential and what the forward pass left: 8 products, 2 a squaring.

    A gradient $S$ of $A^2$ gives $A$ the gradient $SA^\mathsf{H} + A^\mathsf{H}S$. For skew $A$ that has the same
    skew-Hermitian part as $(S + S^\mathsf{H})A^\mathsf{H}$.
    """
    for power in reversed(powers):
        grad = torch.baddbmm(power.mH @ grad, grad, power.mH)
    grad = grad.contiguous()  # sums are laid out like their first term, and products want rows
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
    """The exponential, and what its backward pass uses again: A², B_3, A_6, B_1 + A_6, the powers that were squared."""

    @staticmethod
    @with_known_signature
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
            powers.append(_nearer_to_unitary(power) if skew and squaring % _KEPT_UNITARY == 0 else power)
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
                # The intermediates carry no history, so a second derivative must not use them. The adjoint of
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
