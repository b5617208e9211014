"""Joudaki (2024), chapter 6: batch norm with Haar weights makes samples orthogonal.

Matrices are units by samples, as in the thesis, and batch norm does not center.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar, singular_values
from orthoscope.theory.haar.batch_norm import expected_haar_gap, haar_gap_bound, spectral_isometry_gap
from orthoscope_papers.errata import Erratum, Statement

Matrix = Float[Tensor, "units samples"]
Hidden = Float[Tensor, "*batch units samples"]

ROUNDING = 1e-9


def batch_norm(hidden: Hidden) -> Hidden:
    """Every unit divided by its norm over the samples."""
    return hidden / hidden.norm(dim=-1, keepdim=True)


def spectrum(hidden: Hidden) -> Float[Tensor, "*batch units"]:
    """Eigenvalues of XXᵀ."""
    return singular_values(hidden).square()


def isometry_gap(hidden: Hidden) -> Float[Tensor, "*batch"]:
    return spectral_isometry_gap(spectrum(hidden))


def two_units(correlation: float) -> Float[Tensor, "2 2"]:
    """Two unit rows; the eigenvalues of XXᵀ are 1 ± correlation."""
    return torch.tensor([[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]], dtype=torch.float64)


def random_input(generator: torch.Generator) -> Float[Tensor, "units units"]:
    width = int(torch.randint(2, 8, (), generator=generator))
    return torch.randn(width, width, generator=generator, dtype=torch.float64)


# Equation (6.4): how many samples a unit has.


def _entry_formula(hidden: Matrix, terms: int) -> Statement:
    """The matrix form of (6.4) against the entry form with this many terms in the sum."""
    definition = torch.diag((hidden @ hidden.mT).diagonal().rsqrt()) @ hidden
    entries = hidden / hidden[:, :terms].square().sum(-1, keepdim=True).sqrt()
    return Statement(float((definition - entries).norm()), "=", 0.0, ROUNDING)


def _sum_over_units() -> Statement:
    return _entry_formula(torch.ones(2, 3, dtype=torch.float64), 2)


def _sum_at_case() -> Statement:
    return _entry_formula(torch.ones(2, 3, dtype=torch.float64), 3)


def _sum_at_random(generator: torch.Generator) -> Statement:
    units, samples = torch.randint(1, 8, (2,), generator=generator).tolist()
    return _entry_formula(torch.randn(units, samples, generator=generator, dtype=torch.float64), samples)


# Section 6.2.1: which way batch norm moves the gap.


def _gap_does_not_decrease() -> Statement:
    hidden = torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))
    return Statement(float(isometry_gap(hidden)), "<=", float(isometry_gap(batch_norm(hidden))), ROUNDING)


def _gap_does_not_increase(hidden: Matrix) -> Statement:
    return Statement(float(isometry_gap(batch_norm(hidden))), "<=", float(isometry_gap(hidden)), ROUNDING)


def _gap_at_case() -> Statement:
    return _gap_does_not_increase(torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64)))


def _gap_at_random(generator: torch.Generator) -> Statement:
    return _gap_does_not_increase(random_input(generator))


# Section 6.2.1: the eigenvalues after batch norm.


def _largest_eigenvalue(hidden: Matrix, bound: float) -> Statement:
    return Statement(float(spectrum(hidden).max()), "<=", bound, ROUNDING)


def _eigenvalues_up_to_one() -> Statement:
    return _largest_eigenvalue(two_units(0.8), 1.0)


def _eigenvalues_at_case() -> Statement:
    return _largest_eigenvalue(two_units(0.8), 2.0)


def _eigenvalues_at_random(generator: torch.Generator) -> Statement:
    hidden = batch_norm(random_input(generator))
    return _largest_eigenvalue(hidden, float(len(hidden)))


# Corollary 6.4.


def _gap_after_rotation_alone() -> Statement:
    hidden = two_units(0.8)
    rotated = haar(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ hidden
    return Statement(float(isometry_gap(rotated)), "<=", float(haar_gap_bound(spectrum(hidden))), ROUNDING)


def _gap_after_a_layer(hidden: Matrix) -> Statement:
    eigenvalues = spectrum(hidden)
    return Statement(float(expected_haar_gap(eigenvalues)), "<=", float(haar_gap_bound(eigenvalues)), ROUNDING)


def _layer_at_case() -> Statement:
    return _gap_after_a_layer(two_units(0.8))


def _layer_at_random(generator: torch.Generator) -> Statement:
    return _gap_after_a_layer(batch_norm(random_input(generator)))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-equation-6.4",
        source="joudaki2024",
        where="equation (6.4)",
        printed="BN : ℝ^{d×n} → ℝ^{d×n}, BN(X) = diag(XXᵀ)^(−1/2) X, BN(X)_ij = X_ij / √(Σ_{k=1}^d X_ik²)",
        case="d = 2 units, n = 3 samples, all entries 1",
        corrected="BN(X)_ij = X_ij / √(Σ_{k=1}^n X_ik²)",
        why="A unit is normalized over the n samples; the sum to d is right only for n = d.",
        printed_at_case=_sum_over_units,
        corrected_at_case=_sum_at_case,
        corrected_at_random=_sum_at_random,
    ),
    Erratum(
        key="joudaki2024-theorem-6.1-proof-idea",
        source="joudaki2024",
        where="section 6.2.1, proof idea of Theorem 6.1",
        printed="the isometry gap does not decrease with BN layers",
        case="X = diag(1, 2)",
        corrected="the isometry gap does not increase with BN layers: ψ(BN(X)) ≤ ψ(X)",
        why="Isometry does not decrease, as the displayed inequality says, and its gap is minus the logarithm.",
        printed_at_case=_gap_does_not_decrease,
        corrected_at_case=_gap_at_case,
        corrected_at_random=_gap_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-theorem-6.3-eigenvalues",
        source="joudaki2024",
        where="section 6.2.1, after Theorem 6.3",
        printed="The structure in X induced by BN ensures its eigenvalues lie in the interval (0, 1]",
        case="two units with correlation 0.8: the eigenvalues of XXᵀ are 1.8 and 0.2",
        corrected="the eigenvalues of XXᵀ have sum d and lie in (0, d]; all are at most 1 only if X is orthogonal",
        why="The rows of X have norm 1, so the trace of XXᵀ is d and the mean eigenvalue 1.",
        printed_at_case=_eigenvalues_up_to_one,
        corrected_at_case=_eigenvalues_at_case,
        corrected_at_random=_eigenvalues_at_random,
    ),
    Erratum(
        key="joudaki2024-corollary-6.4",
        source="joudaki2024",
        where="Corollary 6.4, equation (6.9), and Corollary C.6, equation (C.40)",
        printed="Suppose the same setup as in Theorem 6.3, where X′ = WX. Then, we have: E_W[φ(X′)|X] ≤ φ(X) + log(1 − "
        "Σ_k(λ_k−1)²/(2d²(d+2)))",
        case="two units with correlation 0.8",
        corrected="the same for X′ = BN(WX)",
        why="A rotation alone leaves the isometry gap as it is; the proof bounds that of BN(WX).",
        printed_at_case=_gap_after_rotation_alone,
        corrected_at_case=_layer_at_case,
        corrected_at_random=_layer_at_random,
        random_cases=300,
    ),
)
