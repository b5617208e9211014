"""Ju (2025), slides: norms, and which orthogonal matrices a parametrisation reaches."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.errata.record import Comparison, Erratum
from orthoscope.theory.residual.trace_inequality import rotated_trace_supremum

Square = Float[Tensor, "n n"]

ROUNDING = 1e-10


def _identity(size: int) -> Square:
    return torch.eye(size, dtype=torch.float64)


def _mirror() -> Square:
    """diag(1, -1): orthogonal, of determinant -1, one reflection."""
    return torch.tensor([1.0, -1.0], dtype=torch.float64).diag()


def _orthogonal(generator: torch.Generator) -> Square:
    size = int(torch.randint(1, 7, (), generator=generator))
    return haar(size, size, generator=generator, dtype=torch.float64)


def _distance_from_determinant(matrix: Square, determinant: int) -> float:
    """Frobenius distance of an orthogonal matrix from the nearest one of the given determinant."""
    size = len(matrix)
    first = _identity(size)
    first[0, 0] = determinant
    nearest = float(rotated_trace_supremum((matrix.mT @ first).unsqueeze(0)))
    return max(2 * size - 2 * nearest, 0.0) ** 0.5


# Norms.


def _forward_keeps_norms() -> Comparison:
    weight, signal = torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 1.0])
    return Comparison(float((signal @ weight).norm()), "=", float(signal.norm()), ROUNDING)


def _backward_keeps_norms(weight: Float[Tensor, "m n"], gradient: Float[Tensor, "n"]) -> Comparison:
    return Comparison(float((weight @ gradient).norm()), "=", float(gradient.norm()), ROUNDING)


def _backward_at_case() -> Comparison:
    return _backward_keeps_norms(torch.tensor([[1.0], [0.0]]), torch.ones(1))


def _backward_at_random(generator: torch.Generator) -> Comparison:
    low, high = sorted(torch.randint(1, 9, (2,), generator=generator).tolist())
    weight = haar(high, low, generator=generator, dtype=torch.float64)
    return _backward_keeps_norms(weight, torch.randn(low, generator=generator, dtype=torch.float64))


# Householder reflections.


def _product_of_reflections(matrix: Square) -> tuple[Square, int]:
    """Reflections that turn the columns into those of the identity one by one; their product, and how many."""
    product, rest, count = _identity(len(matrix)), matrix, 0
    for column in range(len(matrix)):
        vector = rest[:, column] - _identity(len(matrix))[column]
        if vector.norm() > ROUNDING:
            reflection = _identity(len(matrix)) - 2 * torch.outer(vector, vector) / vector.square().sum()
            product, rest, count = product @ reflection, reflection @ rest, count + 1
    return product, count


def _exactly_n_reflections() -> Comparison:
    return Comparison(_distance_from_determinant(_mirror(), (-1) ** 2), "=", 0.0, ROUNDING)


def _at_most_n_reflections(matrix: Square) -> Comparison:
    product, count = _product_of_reflections(matrix)
    assert count <= len(matrix)
    return Comparison(float((product - matrix).norm()), "=", 0.0, ROUNDING)


def _reflections_at_case() -> Comparison:
    return _at_most_n_reflections(_mirror())


def _reflections_at_random(generator: torch.Generator) -> Comparison:
    return _at_most_n_reflections(_orthogonal(generator))


# Givens rotations.


def _product_of_givens(rotation: Square) -> Square:
    """∏_{i<j} G(i, j, θ_ij), in lexicographic order, with the angles that clear the columns one by one."""
    size, product, rest = len(rotation), _identity(len(rotation)), rotation
    for i in range(size):
        for j in range(i + 1, size):
            angle = torch.atan2(rest[j, i], rest[i, i])
            givens = _identity(size)
            givens[i, i] = givens[j, j] = angle.cos()
            givens[j, i], givens[i, j] = angle.sin(), -angle.sin()
            product, rest = product @ givens, givens.mT @ rest
    return product


def _givens_reach_everything() -> Comparison:
    return Comparison(_distance_from_determinant(_mirror(), 1), "=", 0.0, ROUNDING)


def _givens_and_a_sign(matrix: Square) -> Comparison:
    sign = _identity(len(matrix))
    sign[-1, -1] = torch.linalg.det(matrix).sign()
    return Comparison(float((_product_of_givens(matrix @ sign) @ sign - matrix).norm()), "=", 0.0, ROUNDING)


def _givens_at_case() -> Comparison:
    return _givens_and_a_sign(_mirror())


def _givens_at_random(generator: torch.Generator) -> Comparison:
    return _givens_and_a_sign(_orthogonal(generator))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="ju2025-norm-preserving",
        source="ju2025",
        where="slide 4, with W of slide 7 and the layer of slide 9",
        printed="Orthogonal layers are norm-preserving [W ∈ R^{m×n}, WᵀW = I_n, y = act(xᵀW + b)]",
        case="m = 2, n = 1, W = (1, 0)ᵀ, x = (0, 1), linear, no bias: y = 0",
        corrected="the backward map g ↦ Wg preserves norms; the forward one has ‖xᵀW‖ ≤ ‖x‖, equal for all x only if m "
        "= n",
        why="orthonormal columns preserve the norm of what multiplies W from the right; the layer multiplies from the "
        "left",
        printed_at_case=_forward_keeps_norms,
        corrected_at_case=_backward_at_case,
        corrected_at_random=_backward_at_random,
    ),
    Erratum(
        key="ju2025-householder",
        source="ju2025",
        where="slide 10, Householder reflections",
        printed="Any n×n unitary matrix W can be decomposed into a product of n Householder reflections",
        case="n = 2, W = diag(1, -1): every product of two reflections has determinant 1, and distance 2 from W",
        corrected="every orthogonal W is a product of at most n Householder reflections, and of exactly n if and only "
        "if det W = (-1)ⁿ",
        why="a reflection has determinant -1, so n of them have (-1)ⁿ",
        printed_at_case=_exactly_n_reflections,
        corrected_at_case=_reflections_at_case,
        corrected_at_random=_reflections_at_random,
        random_cases=300,
    ),
    Erratum(
        key="ju2025-givens",
        source="ju2025",
        where="slide 11, Givens rotations",
        printed="Any n×n orthogonal matrix W is a product of n(n-1)/2 Givens rotation matrices",
        case="n = 2, W = diag(1, -1): at distance at least 2 from every rotation",
        corrected="any W of determinant 1 is a product of n(n-1)/2 Givens rotations; any orthogonal W is one times "
        "diag(1, ..., 1, det W)",
        why="rotations have determinant 1 and so have their products: they reach SO(n) only",
        printed_at_case=_givens_reach_everything,
        corrected_at_case=_givens_at_case,
        corrected_at_random=_givens_at_random,
        random_cases=300,
    ),
)
