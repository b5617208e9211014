"""Ju (2025), slides: norms, which orthogonal matrices a parametrization reaches, and the problem that Muon solves."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.residual.alignment import rotated_trace_supremum
from orthoscope_papers.errata import Erratum, Statement

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


def _forward_keeps_norms() -> Statement:
    weight, signal = torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 1.0])
    return Statement(float((signal @ weight).norm()), "=", float(signal.norm()), ROUNDING)


def _backward_keeps_norms(weight: Float[Tensor, "m n"], gradient: Float[Tensor, "n"]) -> Statement:
    return Statement(float((weight @ gradient).norm()), "=", float(gradient.norm()), ROUNDING)


def _backward_at_case() -> Statement:
    return _backward_keeps_norms(torch.tensor([[1.0], [0.0]]), torch.ones(1))


def _backward_at_random(generator: torch.Generator) -> Statement:
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


def _exactly_n_reflections() -> Statement:
    return Statement(_distance_from_determinant(_mirror(), (-1) ** 2), "=", 0.0, ROUNDING)


def _at_most_n_reflections(matrix: Square) -> Statement:
    product, count = _product_of_reflections(matrix)
    assert count <= len(matrix)
    return Statement(float((product - matrix).norm()), "=", 0.0, ROUNDING)


def _reflections_at_case() -> Statement:
    return _at_most_n_reflections(_mirror())


def _reflections_at_random(generator: torch.Generator) -> Statement:
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


def _givens_reach_everything() -> Statement:
    return Statement(_distance_from_determinant(_mirror(), 1), "=", 0.0, ROUNDING)


def _givens_and_a_sign(matrix: Square) -> Statement:
    sign = _identity(len(matrix))
    sign[-1, -1] = torch.linalg.det(matrix).sign()
    return Statement(float((_product_of_givens(matrix @ sign) @ sign - matrix).norm()), "=", 0.0, ROUNDING)


def _givens_at_case() -> Statement:
    return _givens_and_a_sign(_mirror())


def _givens_at_random(generator: torch.Generator) -> Statement:
    return _givens_and_a_sign(_orthogonal(generator))


# What Muon computes: its polynomial is that of github.com/KellerJordan/Muon.

QUINTIC = (3.4445, -4.7750, 2.0315)
QUINTIC_STEPS = 5
# Largest |1 - σ| after five steps over singular values 0.01 to 1, on a grid of two million: 0.31817, at the lower side.
QUINTIC_ERROR, SMALLEST_SINGULAR_VALUE = 0.3182, 0.01


def _muon(matrix: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """O: Muon's five steps from M/‖M‖_F."""
    iterate = matrix / matrix.norm()
    first, third, fifth = QUINTIC
    for _ in range(QUINTIC_STEPS):
        square = iterate @ iterate.mT
        iterate = first * iterate + (third * square + fifth * square @ square) @ iterate
    return iterate


def _polar(matrix: Float[Tensor, "m n"]) -> Float[Tensor, "m n"]:
    """UVᵀ."""
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vh


def _muon_error(matrix: Float[Tensor, "m n"]) -> float:
    return float(torch.linalg.matrix_norm(_muon(matrix) - _polar(matrix), ord=2))


def _momentum() -> Square:
    return torch.tensor([3.0, 4.0], dtype=torch.float64).diag()


def _muon_is_exact() -> Statement:
    """The distance of O from the nearest multiple of UVᵀ: half of the spread of its singular values."""
    values = torch.linalg.svdvals(_muon(_momentum()))
    return Statement(float(values[0] - values[-1]) / 2, "=", 0.0, ROUNDING)


def _muon_at_case() -> Statement:
    return Statement(_muon_error(_momentum()), "<=", QUINTIC_ERROR)


def _muon_at_random(generator: torch.Generator) -> Statement:
    rows, columns = torch.randint(1, 9, (2,), generator=generator).tolist()
    rank = min(rows, columns)
    # Singular values within a factor 10 of each other are above 0.01 of the Frobenius norm up to rank 100.
    spread = 10 ** -torch.rand(rank, generator=generator, dtype=torch.float64)
    assert spread.min() / spread.norm() > SMALLEST_SINGULAR_VALUE
    left, right = (haar(size, rank, generator=generator, dtype=torch.float64) for size in (rows, columns))
    return Statement(_muon_error(left * spread @ right.mT), "<=", QUINTIC_ERROR)


# The problem that Muon solves, for R(W) = ‖W‖_F²/2, whose gradient is W.

STEP = 0.1


def _weight() -> Square:
    return torch.tensor([3.0, -4.0], dtype=torch.float64).diag()


def _objective_as_printed() -> Statement:
    """R(W) Σ ΔW_ij at the best multiple of UVᵀ with ‖ΔW‖₂ ≤ η, against its value at ΔW = -η 11ᵀ/2."""
    loss = float(_weight().square().sum()) / 2
    claimed = -STEP * loss * abs(float(_polar(_weight()).sum()))
    return Statement(claimed, "<=", -STEP * loss * float(torch.full((2, 2), 0.5).sum()), ROUNDING)


def _objective(gradient: Float[Tensor, "m n"], other: Float[Tensor, "m n"]) -> Statement:
    """⟨∇R, ΔW⟩ at -ηUVᵀ, against its value at another matrix of norm η, the same for `other`."""
    best, rival = (-STEP * float((gradient * _polar(matrix)).sum()) for matrix in (gradient, other))
    return Statement(best, "<=", rival, ROUNDING)


def _objective_at_case() -> Statement:
    return _objective(_weight(), torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64))


def _objective_at_random(generator: torch.Generator) -> Statement:
    rows, columns = torch.randint(1, 9, (2,), generator=generator).tolist()
    gradient, change = torch.randn(2, rows, columns, generator=generator, dtype=torch.float64)
    return _objective(gradient, gradient + 0.1 * change)


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
    Erratum(
        key="ju2025-objective",
        source="ju2025",
        where="slide 17, the constrained optimization problem",
        printed="min_ΔW ⟨R(W), ΔW⟩ s.t. ‖ΔW‖₂ ≤ η. The solution to this problem is ΔW* ∝ UVᵀ, where ∇R(W) = UΣVᵀ",
        case="R(W) = ‖W‖_F²/2, W = diag(3, -4): R(W) is a number, so the product is read as R(W) Σ_ij ΔW_ij, which is "
        "0 at every multiple of UVᵀ and -25η at -η 11ᵀ/2",
        corrected="min_ΔW ⟨∇R(W), ΔW⟩ s.t. ‖ΔW‖₂ ≤ η has the solution ΔW* = -ηUVᵀ",
        why="the ∇ is missing: R is the loss, whose change is to first order ⟨∇R(W), ΔW⟩",
        printed_at_case=_objective_as_printed,
        corrected_at_case=_objective_at_case,
        corrected_at_random=_objective_at_random,
    ),
    Erratum(
        key="ju2025-muon",
        source="ju2025",
        where="slide 17, last sentence (slide 15 says rightly that O_t approximates UVᵀ)",
        printed="The solution to this problem is ΔW* ∝ UVᵀ ... This is exactly what Muon computes",
        case="M = diag(3, 4), five steps with Muon's coefficients 3.4445, -4.7750, 2.0315: diag(1.12, 0.72) for UVᵀ = "
        "I",
        corrected="‖O - UVᵀ‖₂ ≤ 0.3182 if the singular values of M/‖M‖_F are at least 0.01: five steps bring them to "
        "0.6818 ... 1.1344, not to 1",
        why="the quintic's coefficients are chosen for speed at small singular values; 1 is not a fixed point of it",
        printed_at_case=_muon_is_exact,
        corrected_at_case=_muon_at_case,
        corrected_at_random=_muon_at_random,
        random_cases=300,
    ),
)
