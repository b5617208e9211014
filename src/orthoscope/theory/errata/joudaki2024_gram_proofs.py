"""Joudaki (2024), appendix B: steps of the proof that Gram matrices concentrate."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.errata.record import Comparison, Erratum

ROUNDING = 1e-9
# A sampled mean is off by more than this many standard errors once in two million draws.
STANDARD_ERRORS = 5.0
CASES = 200


# Proof of Lemma B.1, (B.10): vectors of one length, ‖x‖² = n, of covariance I, so B = 1 and ‖xxᵀ - I‖ = √(n² - n).


def _mean_of_norms() -> Comparison:
    batch, samples = 4, 1000
    reached = math.sqrt(batch**2 - batch)
    bound = math.exp(-samples * reached**2 / 2 / (4 * batch**2 + 2 * batch * reached / 3))
    return Comparison(1.0, "<=", bound)


def _norm_of_mean(batch: int, samples: int, generator: torch.Generator) -> Comparison:
    points = torch.randn(CASES, samples, batch, generator=generator, dtype=torch.float64)
    points = math.sqrt(batch) * points / points.norm(dim=-1, keepdim=True)
    squares = (points.mT @ points / samples - torch.eye(batch, dtype=torch.float64)).square().sum((-2, -1))
    error = STANDARD_ERRORS * float(squares.std()) / math.sqrt(CASES) + ROUNDING
    return Comparison(float(squares.mean()), "=", (batch**2 - batch) / samples, error)


def _concentration_at_case() -> Comparison:
    return _norm_of_mean(4, 1000, torch.Generator().manual_seed(0))


def _concentration_at_random(generator: torch.Generator) -> Comparison:
    batch, samples = torch.randint(2, 9, (2,), generator=generator).tolist()
    return _norm_of_mean(batch, samples, generator)


# Lemma B.7, with one unit and G that is not random.


def _variance_distance(variance: float) -> float:
    """Total variation of N(0, 1) and N(0, v): the densities cross at ±√(v log v/(v - 1))."""
    if variance == 1:
        return 0.0
    crossing = math.sqrt(variance * math.log(variance) / (variance - 1))
    return abs(math.erf(crossing / math.sqrt(2)) - math.erf(crossing / math.sqrt(2 * variance)))


def _any_threshold() -> Comparison:
    return Comparison((1000.0 - 1) ** 2 / 100, "<=", _variance_distance(1000.0))


def _capped(gram: Float[Tensor, "n n"], fixed: Float[Tensor, "n n"]) -> Comparison:
    """Total variation is at least that of one coordinate, in the basis where both matrices are diagonal."""
    root = torch.linalg.cholesky(fixed)
    half = torch.linalg.solve_triangular(root, gram, upper=False)
    variances = torch.linalg.eigvalsh(torch.linalg.solve_triangular(root, half.mT, upper=False))
    distance = max(_variance_distance(variance) for variance in variances.tolist())
    return Comparison(min(1.0, float((variances - 1).norm())) / 100, "<=", distance, ROUNDING)


def _capped_at_case() -> Comparison:
    one = torch.ones(1, 1, dtype=torch.float64)
    return _capped(1000 * one, one)


def _capped_at_random(generator: torch.Generator) -> Comparison:
    batch, scale = int(torch.randint(1, 6, (), generator=generator)), 10 * torch.rand((), generator=generator)
    fixed, change = torch.randn(2, batch, batch + 2, generator=generator, dtype=torch.float64)
    other = fixed + scale * change
    return _capped(other @ other.mT, fixed @ fixed.mT)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-equation-b.10",
        source="joudaki2024",
        where="proof of Lemma B.1, (B.10)-(B.11)",
        printed="P((1/d) Σ_i ‖x_i x_iᵀ - C‖_F ≥ t) ≤ exp(-(dt²/2)/(4n²B² + 2Bnt/3)) if ‖x_i‖² ≤ nB",
        case="‖x_i‖² = n = 4 in all directions, C = I, B = 1, d = 1000, t = √(n²-n): every norm is t, the left side 1",
        corrected="the mean of norms does not fall with d; the norm of the mean does: E‖(1/d) Σ_i x_i x_iᵀ - C‖_F² = "
        "(E‖x‖⁴ - ‖C‖_F²)/d, at most B²n²/d",
        why="Bernstein's inequality is applied to norms, which have no mean of 0; the norm of the mean, not the mean "
        "of norms, concentrates.",
        printed_at_case=_mean_of_norms,
        corrected_at_case=_concentration_at_case,
        corrected_at_random=_concentration_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-lemma-b.7",
        source="joudaki2024",
        where="Lemma B.7, (B.20)",
        printed="tv(h, ĥ) ≥ (t/100) P(‖G_*^{-1}G - I_n‖_F² ≥ t), for rows drawn from N(0, G) and N(0, G_*)",
        case="n = d = 1, G_* = 1, G = 1000, t = 999²: the right side is 9980, and no total variation is above 1",
        corrected="for G that is not random, tv(h, ĥ) ≥ min(1, √(Σ_i λ_i²))/100, λ_i the eigenvalues of G_*^{-1}G - "
        "I_n; nothing is claimed here for a random G",
        why="The bound quoted is capped at 1; and the total variation of a mixture is at most the mean of total "
        "variations, not equal to it as in (B.47).",
        printed_at_case=_any_threshold,
        corrected_at_case=_capped_at_case,
        corrected_at_random=_capped_at_random,
    ),
)
