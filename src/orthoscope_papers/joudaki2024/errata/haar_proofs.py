"""Joudaki (2024), appendices C.1 and C.2: Weingarten calculus and the decay of the isometry gap."""

from math import log1p

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.haar.batch_norm import eigenvalue_radius, near_isometry
from orthoscope.theory.haar.moments import coset_type, haar_moment, pairings_of, weingarten
from orthoscope_papers.errata import Erratum, Statement
from orthoscope_papers.joudaki2024.errata.haar import (
    batch_norm,
    isometry_gap,
    random_input,
    spectrum,
    two_units,
)

Matrix = Float[Tensor, "units samples"]

ROUNDING = 1e-9


# Equation (C.25): the Weingarten formula.


def _moment(rows: list[int], columns: list[int], width: int, predicted: float, seed: int, draws: int) -> Statement:
    """The mean over sampled Haar matrices, within five standard errors, against a prediction."""
    generator = torch.Generator().manual_seed(seed)
    weights = haar(width, width, draws, generator=generator, dtype=torch.float64)
    samples = weights[:, rows, columns].prod(-1)
    return Statement(float(samples.mean()), "=", predicted, 5 * float(samples.std()) / len(samples) ** 0.5)


def _columns_paired_by_sigma() -> Statement:
    rows, columns = [0, 0, 1, 1], [0, 0, 1, 1]
    both = set(pairings_of(rows)) & set(pairings_of(columns))
    printed = sum(weingarten(coset_type(sigma, tau), 3) for sigma in both for tau in pairings_of("aaaa"))
    return _moment(rows, columns, 3, float(printed), seed=0, draws=10_000)


def _columns_paired_by_tau(rows: list[int], columns: list[int], width: int, seed: int, draws: int) -> Statement:
    return _moment(rows, columns, width, float(haar_moment(rows, columns, width)), seed, draws)


def _pairings_at_case() -> Statement:
    return _columns_paired_by_tau([0, 0, 1, 1], [0, 0, 1, 1], 3, seed=0, draws=10_000)


def _pairings_at_random(generator: torch.Generator) -> Statement:
    width, seed = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((2, 5), (0, 2**31)))
    rows, columns = torch.randint(2, (2, 4), generator=generator).tolist()
    return _columns_paired_by_tau(rows, columns, width, seed, draws=1000)


# Lemma C.8: how far the eigenvalues are from 1.


def _radius_linear_in_the_gap() -> Statement:
    hidden = two_units(0.02)
    spread = (spectrum(hidden) - 1).abs().max()
    return Statement(float(spread), "<=", 16 * 2 * float(isometry_gap(hidden)), ROUNDING)


def _radius_by_the_root(hidden: Matrix) -> Statement:
    spread = (spectrum(hidden) - 1).abs().max()
    return Statement(float(spread), "<=", float(eigenvalue_radius(len(hidden), isometry_gap(hidden))), ROUNDING)


def _radius_at_case() -> Statement:
    return _radius_by_the_root(two_units(0.02))


def _radius_at_random(generator: torch.Generator) -> Statement:
    noise = random_input(generator)
    noise = noise / (4 * len(noise))
    identity = torch.eye(len(noise), dtype=torch.float64)
    while isometry_gap(batch_norm(identity + noise)) > near_isometry(len(noise)):
        noise = noise / 2
    return _radius_by_the_root(batch_norm(identity + noise))


# The logarithm below (C.54).


def _logarithm_as_printed() -> Statement:
    x = 0.0
    return Statement(log1p(x), "<=", x - (6 + x) / (6 + 4 * x), ROUNDING)


def _logarithm(x: float) -> Statement:
    return Statement(log1p(x), "<=", x * (6 + x) / (6 + 4 * x), ROUNDING)


def _logarithm_at_case() -> Statement:
    return _logarithm(0.0)


def _logarithm_at_random(generator: torch.Generator) -> Statement:
    return _logarithm(float(torch.randn((), generator=generator, dtype=torch.float64).exp() - 1))


# The quadratic equation below (C.55).


def _quadratic(threshold: float, root: float) -> Statement:
    """3ε² − t(6 + 4ε) at a supposed root ε; t = 1/16 in the proof."""
    return Statement(3 * root**2 - threshold * (6 + 4 * root), "=", 0.0, ROUNDING)


def _root_as_printed() -> Statement:
    return _quadratic(1 / 16, (1 + 74**0.5) / 24)


def _root_at_case() -> Statement:
    return _quadratic(1 / 16, (1 + 73**0.5) / 24)


def _root_at_random(generator: torch.Generator) -> Statement:
    t = float(torch.rand((), generator=generator, dtype=torch.float64))
    return _quadratic(t, (2 * t + (4 * t**2 + 18 * t) ** 0.5) / 3)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-equation-c.25",
        source="joudaki2024",
        where="equation (C.25)",
        printed="∫ r_{i1 j1} r_{i2 j2} … r_{i2d j2d} dμ(O(n)) = Σ_{σ∈M_2d} Σ_{τ∈M_2n} Δ_σ(i) Δ_σ(j) Wg(σ⁻¹τ)",
        case="E[W₁₁² W₂₂²] in three dimensions: 2/15, and 1/15 by the printed formula with both pairings in M_2d",
        corrected="∫ r_{i1 j1} r_{i2 j2} … r_{i2d j2d} dμ(O(n)) = Σ_{σ∈M_2d} Σ_{τ∈M_2d} Δ_σ(i) Δ_τ(j) Wg(σ⁻¹τ)",
        why="The columns are paired by τ, not by σ, and both pair the same 2d factors; the text below uses it rightly.",
        printed_at_case=_columns_paired_by_sigma,
        corrected_at_case=_pairings_at_case,
        corrected_at_random=_pairings_at_random,
        random_cases=200,
    ),
    Erratum(
        key="joudaki2024-lemma-c.8",
        source="joudaki2024",
        where="Lemma C.8",
        printed="If ψ(X) ≤ c/(16d), then eigenvalues of XᵀX are within [1 − c, 1 + c].",
        case="two units with correlation 0.02, and c = 16dψ = 0.0064",
        corrected="If tr XᵀX = d and ψ(X) ≤ c²/(16d), c ≤ 1, then eigenvalues of XᵀX are within [1 − c, 1 + c].",
        why="The gap is of second order in the deviation of the eigenvalues; only at c = 1 do both say the same.",
        printed_at_case=_radius_linear_in_the_gap,
        corrected_at_case=_radius_at_case,
        corrected_at_random=_radius_at_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-equation-c.54",
        source="joudaki2024",
        where="proof of Lemma C.9, below equation (C.54)",
        printed="log(1+x) ≤ x − (6+x)/(6+4x) when x ≥ −1",
        case="x = 0",
        corrected="log(1+x) ≤ x(6+x)/(6+4x) = x − 3x²/(6+4x) when x > −1",
        why="A factor became a difference; (C.54) itself uses the right form.",
        printed_at_case=_logarithm_as_printed,
        corrected_at_case=_logarithm_at_case,
        corrected_at_random=_logarithm_at_random,
    ),
    Erratum(
        key="joudaki2024-equation-c.55",
        source="joudaki2024",
        where="proof of Lemma C.9, below equation (C.55)",
        printed="3ε² − (6+4ε)/16 ≤ 0; solve the quadratic equation and obtain (1−√74)/24 ≤ ε ≤ (1+√74)/24",
        case="the upper root",
        corrected="(1−√73)/24 ≤ ε ≤ (1+√73)/24; in general (2t ± √(4t²+18t))/3 for 3ε² − t(6+4ε) ≤ 0",
        why="The discriminant is 2² + 4·24·3 = 4·73; what follows, −0.35 ≤ ε ≤ 0.4, holds.",
        printed_at_case=_root_as_printed,
        corrected_at_case=_root_at_case,
        corrected_at_random=_root_at_random,
    ),
)
