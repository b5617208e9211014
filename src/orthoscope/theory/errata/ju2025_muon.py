"""Ju (2025), slides: the problem that Muon solves, and what it computes."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.errata.record import Comparison, Erratum

Square = Float[Tensor, "n n"]

ROUNDING = 1e-10

# Muon's polynomial: github.com/KellerJordan/Muon
QUINTIC = (3.4445, -4.7750, 2.0315)
QUINTIC_STEPS = 5
# Largest |1 - σ| after five steps over singular values 0.01 to 1, on a grid of two million: 0.31817, at the lower side.
QUINTIC_ERROR, SMALLEST_SINGULAR_VALUE = 0.3182, 0.01


# What Muon computes.


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


def _muon_is_exact() -> Comparison:
    """The distance of O from the nearest multiple of UVᵀ: half of the spread of its singular values."""
    values = torch.linalg.svdvals(_muon(_momentum()))
    return Comparison(float(values[0] - values[-1]) / 2, "=", 0.0, ROUNDING)


def _muon_at_case() -> Comparison:
    return Comparison(_muon_error(_momentum()), "<=", QUINTIC_ERROR)


def _muon_at_random(generator: torch.Generator) -> Comparison:
    rows, columns = torch.randint(1, 9, (2,), generator=generator).tolist()
    rank = min(rows, columns)
    # Singular values within a factor 10 of each other are above 0.01 of the Frobenius norm up to rank 100.
    spread = 10 ** -torch.rand(rank, generator=generator, dtype=torch.float64)
    assert spread.min() / spread.norm() > SMALLEST_SINGULAR_VALUE
    left, right = (haar(size, rank, generator=generator, dtype=torch.float64) for size in (rows, columns))
    return Comparison(_muon_error(left * spread @ right.mT), "<=", QUINTIC_ERROR)


# The problem that Muon solves, for R(W) = ‖W‖_F²/2, whose gradient is W.

STEP = 0.1


def _weight() -> Square:
    return torch.tensor([3.0, -4.0], dtype=torch.float64).diag()


def _objective_as_printed() -> Comparison:
    """R(W) Σ ΔW_ij at the best multiple of UVᵀ with ‖ΔW‖₂ ≤ η, against its value at ΔW = -η 11ᵀ/2."""
    loss = float(_weight().square().sum()) / 2
    claimed = -STEP * loss * abs(float(_polar(_weight()).sum()))
    return Comparison(claimed, "<=", -STEP * loss * float(torch.full((2, 2), 0.5).sum()), ROUNDING)


def _objective(gradient: Float[Tensor, "m n"], other: Float[Tensor, "m n"]) -> Comparison:
    """⟨∇R, ΔW⟩ at -ηUVᵀ, against its value at another matrix of norm η, the same for `other`."""
    best, rival = (-STEP * float((gradient * _polar(matrix)).sum()) for matrix in (gradient, other))
    return Comparison(best, "<=", rival, ROUNDING)


def _objective_at_case() -> Comparison:
    return _objective(_weight(), torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64))


def _objective_at_random(generator: torch.Generator) -> Comparison:
    rows, columns = torch.randint(1, 9, (2,), generator=generator).tolist()
    gradient, change = torch.randn(2, rows, columns, generator=generator, dtype=torch.float64)
    return _objective(gradient, gradient + 0.1 * change)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="ju2025-objective",
        source="ju2025",
        where="slide 17, the constrained optimisation problem",
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
