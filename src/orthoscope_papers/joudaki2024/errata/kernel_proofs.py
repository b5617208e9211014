"""Joudaki (2024), chapter 5: steps and formulas in the proofs about kernel maps that are not as printed."""

import math
from functools import cache

import numpy
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.kernel.hermite import hermite_coefficients, hermite_polynomials
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope_papers.errata import Erratum, Statement
from orthoscope_papers.joudaki2024.errata.kernel import (
    ROUNDING,
    Polynomial,
    draw,
    random_map,
    random_repelling_map,
)

_TERMS = 200


def _mehler(first: float, second: float, overlap: float, power: float, terms: int = _TERMS) -> Statement:
    """The density of the pair over those of each, and the sum with `power` to the m."""
    exponent = (overlap**2 * (first**2 + second**2) - 2 * first * second * overlap) / (2 * (1 - overlap**2))
    ratio = math.exp(-exponent) / math.sqrt(1 - overlap**2)
    values = hermite_polynomials(torch.tensor([first, second], dtype=torch.float64), terms)
    powers = torch.tensor(power, dtype=torch.float64) ** torch.arange(terms)
    return Statement(ratio, "=", float((powers * values[:, 0] * values[:, 1]).sum()), ROUNDING * max(1.0, ratio))


def _mehler_random(generator: torch.Generator) -> Statement:
    overlap = draw(generator, -0.4, 0.4)  # whose power 40 is below round-off
    return _mehler(draw(generator, -2.0, 2.0), draw(generator, -2.0, 2.0), overlap, overlap, terms=40)


def _tanh_series(left: float) -> Statement:
    squares = kernel_map("tanh").coefficients(_TERMS).square()
    return Statement(left, "=", float((squares * 0.5 ** torch.arange(_TERMS)).sum()), ROUNDING)


_DEGREE = 6


@cache
def _gauss() -> Float[Tensor, "2 nodes"]:
    """Nodes and weights of E f(X), exact for polynomials of twice the degree."""
    nodes, weights = numpy.polynomial.hermite_e.hermegauss(_DEGREE + 1)
    return torch.from_numpy(numpy.stack([nodes, weights / weights.sum()]))


def _series_random(generator: torch.Generator) -> Statement:
    """E[φ(X)φ(Y)] by integration over X and what is independent of it in Y, for φ of six random coefficients."""
    coefficients = torch.randn(_DEGREE, generator=generator, dtype=torch.float64)
    overlap = draw(generator, -1.0, 1.0)
    nodes, weights = _gauss()
    second = overlap * nodes.unsqueeze(1) + (1 - overlap**2) ** 0.5 * nodes
    left, right = (hermite_polynomials(at.flatten(), _DEGREE).mT @ coefficients for at in (nodes, second))
    mean = (weights * left) @ right.reshape(second.shape) @ weights
    series = coefficients.square() * overlap ** torch.arange(_DEGREE, dtype=torch.float64)
    return Statement(float(mean), "=", float(series.sum()), 100 * ROUNDING)


def _minus_identity(power: int) -> Statement:
    """φ(x) = -x keeps overlaps: κ(1/2) = 1/2."""
    coefficients = hermite_coefficients(torch.neg, 4) ** power
    return Statement(0.5, "=", float((coefficients * 0.5 ** torch.arange(4)).sum()), ROUNDING)


def _quotient_term(k: int, overlap: float, start: int, end: int) -> Statement:
    return Statement(sum(overlap**i for i in range(start, end)), "<=", float(k), ROUNDING)


def _quotient_random(generator: torch.Generator) -> Statement:
    k = 1 + int(draw(generator, 0.0, 10.0))
    return _quotient_term(k, draw(generator, -1.0, 1.0), 0, k)


_QUADRATIC = Polynomial((0.4, 0.0, 0.6))


def _quotients(kappa: Polynomial) -> list[float]:
    """b_k of κ(ρ) - 1 = (ρ - 1) Σ b_k ρ^k: what is left of the squares after k; and a last 0."""
    return [sum(kappa.squares[k + 1 :], start=0.0) for k in range(len(kappa.squares) + 1)]


def _expansion(kappa: Polynomial, overlap: float, shift: int) -> Statement:
    """κ = 1 - b_0 + Σ_k (b_k - b_{k+1}) ρ^(k+shift)."""
    b = _quotients(kappa)
    total = 1 - b[0] + sum((b[k] - b[k + 1]) * overlap ** (k + shift) for k in range(len(b) - 1))
    return Statement(kappa(overlap), "=", total, ROUNDING)


def _expansion_random(generator: torch.Generator) -> Statement:
    return _expansion(random_map(generator), draw(generator, -1.0, 1.0), 1)


_BELOW = -0.1


def _gelu_after(bound: float) -> Statement:
    return Statement(float(kernel_map("gelu").trajectory(_BELOW, 20)[-1].abs()), "<=", bound, ROUNDING)


def _sequence_random(generator: torch.Generator) -> Statement:
    kappa, start = random_repelling_map(generator), draw(generator, -1.0, 1.0)
    after = kappa.after(start, 1 + int(draw(generator, 0.0, 20.0)))
    return Statement(abs(after), "<=", max(abs(start), kappa.landmarks().fixed_point), ROUNDING)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-lemma-5.6",
        source="joudaki2024",
        where="Proof of Lemma 5.6, Mehler's formula",
        printed="1/√(1−ρ²) exp(−(ρ²(x²+y²) − 2xyρ)/(2(1−ρ²))) = Σ_m he_m(x) he_m(y)",
        case="x = y = 0, ρ = 1/2: the left-hand side is 1.15, the sum diverges (its first 200 terms give 11.3)",
        corrected="1/√(1−ρ²) exp(−(ρ²(x²+y²) − 2xyρ)/(2(1−ρ²))) = Σ_m ρ^m he_m(x) he_m(y)",
        why="The factor ρ^m is missing; the next lines of the proof have it.",
        printed_at_case=lambda: _mehler(0.0, 0.0, 0.5, 1.0),
        corrected_at_case=lambda: _mehler(0.0, 0.0, 0.5, 0.5),
        corrected_at_random=_mehler_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-corollary-5.7",
        source="joudaki2024",
        where="Corollary 5.7",
        printed="κ(ρ) = E_{X∼N(0,1)}[φ(X)φ(X)] = Σ_k c_k² ρ^k",
        case="tanh scaled to E φ(X)² = 1, ρ = 1/2: the expectation is 1, the sum is 0.4726",
        corrected="κ(ρ) = E_{X,Y}[φ(X)φ(Y)] = Σ_k c_k² ρ^k",
        why="The second X should be Y, here and in the proof.",
        printed_at_case=lambda: _tanh_series(1.0),
        corrected_at_case=lambda: _tanh_series(kernel_map("tanh")(0.5)),
        corrected_at_random=_series_random,
    ),
    Erratum(
        key="joudaki2024-section-5.4",
        source="joudaki2024",
        where="Section 5.4, first sentence",
        printed="the kernel map κ is a power series with non-negative coefficients Σ_k c_k ρ^k",
        case="φ(x) = −x: c_1 = −1, but κ(ρ) = ρ",
        corrected="the kernel map κ is a power series with non-negative coefficients Σ_k c_k² ρ^k",
        why="The square is missing.",
        printed_at_case=lambda: _minus_identity(1),
        corrected_at_case=lambda: _minus_identity(2),
        corrected_at_random=_series_random,
    ),
    Erratum(
        key="joudaki2024-theorem-5.11-quotient",
        source="joudaki2024",
        where="Proof of Theorem 5.11, cases 2 and 3",
        printed="Clearly, the term k − Σ_{i=k}^∞ ρ^i is always non-negative",
        case="k = 1, ρ = 0.9: 1 − 9 < 0",
        corrected="k − Σ_{i=0}^{k−1} ρ^i is non-negative for |ρ| ≤ 1",
        why="(1−ρ^k)/(1−ρ) is Σ_{i=0}^{k−1} ρ^i; three lines have the sum from k to infinity.",
        printed_at_case=lambda: _quotient_term(1, 0.9, 1, 400),
        corrected_at_case=lambda: _quotient_term(1, 0.9, 0, 1),
        corrected_at_random=_quotient_random,
    ),
    Erratum(
        key="joudaki2024-theorem-5.11-expansion",
        source="joudaki2024",
        where="Proof of Theorem 5.11, case 4, −1 ≤ ρ ≤ 0",
        printed="κ(ρ) − 1 = (ρ − 1) q(ρ), q(ρ) = Σ_k b_k ρ^k ... κ(ρ) = 1 − b_0 + Σ_{k=0}^∞ (b_k − b_{k+1}) ρ^k",
        case="κ(ρ) = 0.4 + 0.6 ρ², so b = (0.6, 0.6, 0, …), at ρ = 1/2: 0.55 against 0.7",
        corrected="κ(ρ) = 1 − b_0 + Σ_{k=0}^∞ (b_k − b_{k+1}) ρ^{k+1}",
        why="The power is one too low.",
        printed_at_case=lambda: _expansion(_QUADRATIC, 0.5, 0),
        corrected_at_case=lambda: _expansion(_QUADRATIC, 0.5, 1),
        corrected_at_random=_expansion_random,
    ),
    Erratum(
        key="joudaki2024-theorem-5.11-monotone",
        source="joudaki2024",
        where="Proof of Theorem 5.11, combining the cases",
        printed="use the fact that the norm of the sequence is non-increasing |ρ_0| ≥ ρ_ℓ",
        case="GELU, ρ_0 = −0.1: the overlap rises to ρ* = 0.76",
        corrected="|ρ_ℓ| ≤ max{|ρ_0|, ρ*}; so |ρ_0| ≥ ρ_ℓ where it is used, at ρ_ℓ ≥ ρ* reached from ρ_0 < 0",
        why="A sequence that starts below the fixed point rises to it.",
        printed_at_case=lambda: _gelu_after(abs(_BELOW)),
        corrected_at_case=lambda: _gelu_after(max(abs(_BELOW), kernel_map("gelu").fixed_point)),
        corrected_at_random=_sequence_random,
    ),
)
