"""Joudaki (2024), chapter 2 and appendix A: what the thesis adds to daneshmand2021."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import mean_squared_singular_values
from orthoscope.theory.chain.bounds import gram_variance
from orthoscope.theory.chain.spectrum import collapse_rate, lyapunov_exponents
from orthoscope_papers.daneshmand2021.errata.batch_norm_chain import (
    ERRORS,
    Spectrum,
    mean_at_most,
    mean_is,
    next_grams,
    random_spectrum,
    spectrum,
)
from orthoscope_papers.errata import Erratum, Statement

EQUAL = spectrum(1.0, 1.0, 1.0, 1.0)


# The smallest singular value of an input.


def _smallest_printed() -> Statement:
    """Signs are a law of mean 0 and variance 1, and one draw in 128 has two equal columns."""
    smallest = float(torch.linalg.svdvals(torch.ones(4, 2, dtype=torch.float64))[-1])
    return Statement(math.sqrt(4) - math.sqrt(2), "<=", smallest, 1e-12)


def _smallest_on_average(units: int, samples: int, generator: torch.Generator) -> Statement:
    draws = torch.randn(500, units, samples, generator=generator, dtype=torch.float64)
    return mean_at_most(-torch.linalg.svdvals(draws)[:, -1], math.sqrt(samples) - math.sqrt(units))


def _smallest_at_case() -> Statement:
    return _smallest_on_average(4, 2, torch.Generator().manual_seed(0))


def _smallest_at_random(generator: torch.Generator) -> Statement:
    samples, more = (int(size) for size in torch.randint(1, 10, (2,), generator=generator))
    return _smallest_on_average(samples + more, samples, generator)


# The weakest direction of the next Gram matrix, Lemma A.4.


def _weakest_scatter(values: Spectrum, width: int, generator: torch.Generator) -> Float[Tensor, "draws"]:
    weakest = torch.linalg.eigvalsh(next_grams(values, width, 500, generator))[:, 0]
    return (weakest - mean_squared_singular_values(values).min()).square()


def _weakest_printed() -> Statement:
    draws = _weakest_scatter(EQUAL, 10, torch.Generator().manual_seed(0))
    return mean_is(draws, float(gram_variance(EQUAL, 10)))


def _weakest_at_case() -> Statement:
    draws = _weakest_scatter(EQUAL, 10, torch.Generator().manual_seed(0))
    return mean_at_most(draws, float(gram_variance(EQUAL, 10)))


def _weakest_at_random(generator: torch.Generator) -> Statement:
    values = random_spectrum(generator)
    width = int(torch.randint(8, 30, (), generator=generator))
    return mean_at_most(_weakest_scatter(values, width, generator), float(gram_variance(values, width)))


# Lyapunov exponents, Lemma A.8.


def _growth(width: int, index: int, generator: torch.Generator) -> Float[Tensor, "chains"]:
    """Growth a layer of log σ_i² over 4 Gaussian layers of variance 1, by QR: exactly the exponent on average."""
    frame = torch.eye(width, dtype=torch.float64)[:, : index + 1].expand(300, width, index + 1)
    total = torch.zeros(300, dtype=torch.float64)
    for _ in range(4):
        weight = torch.randn(300, width, width, generator=generator, dtype=torch.float64)
        frame, triangle = torch.linalg.qr(weight @ frame)
        total += triangle[:, index, index].square().log()
    return total / 4


def _exponent_printed() -> Statement:
    half = float(lyapunov_exponents(8, weight_variance=1.0)[0])
    return mean_is(_growth(8, 0, torch.Generator().manual_seed(0)), half)


def _exponent_corrected(width: int, index: int, generator: torch.Generator) -> Statement:
    return mean_is(_growth(width, index, generator), 2 * float(lyapunov_exponents(width, weight_variance=1.0)[index]))


def _exponent_at_case() -> Statement:
    return _exponent_corrected(8, 0, torch.Generator().manual_seed(0))


def _exponent_at_random(generator: torch.Generator) -> Statement:
    width = int(torch.randint(1, 7, (), generator=generator))
    return _exponent_corrected(width, int(torch.randint(0, width, (), generator=generator)), generator)


def _digamma(argument: float) -> float:
    return float(torch.digamma(torch.tensor(argument, dtype=torch.float64)))


def _digamma_printed() -> Statement:
    return Statement(_digamma(2.0), "<=", _digamma(1.0), 1e-12)


def _digamma_at_case() -> Statement:
    return Statement(_digamma(1.0), "<=", _digamma(2.0))


def _digamma_at_random(generator: torch.Generator) -> Statement:
    start, step = (10 * torch.rand(2, generator=generator, dtype=torch.float64)).tolist()
    return Statement(_digamma(start), "<=", _digamma(start + step))


def _log_lack(depth: int, generator: torch.Generator) -> Float[Tensor, "chains"]:
    """log |σ₁²/(σ₁² + σ₂²) - 1| of the product of ℓ Gaussian 2 x 2 matrices.

    It is the share of the second direction, det²/‖·‖⁴ to first order, which never cancels.
    """
    weights = torch.randn(depth, 100, 2, 2, generator=generator, dtype=torch.float64)
    determinants = weights[..., 0, 0] * weights[..., 1, 1] - weights[..., 0, 1] * weights[..., 1, 0]
    product, log_share = weights[0], 2 * determinants.abs().log().sum(0)
    for weight in weights[1:]:
        norm = product.norm(dim=(-2, -1), keepdim=True)
        log_share -= 4 * norm.flatten().log()
        product = weight @ (product / norm)
    return log_share - 4 * product.norm(dim=(-2, -1)).log()


CASE_DEPTH = 150


def _rate_printed() -> Statement:
    """The left side of (A.16) less its right side at this depth, with σ₂²/σ₁² = share/(1 - share), about share."""
    draws = _log_lack(CASE_DEPTH, torch.Generator().manual_seed(0))
    return mean_at_most(draws / (2 * CASE_DEPTH) - (math.log(2) + draws) / CASE_DEPTH, 0.0)


def _rate_corrected(depth: int, generator: torch.Generator) -> Statement:
    draws = _log_lack(depth, generator) / depth
    error = float(draws.std()) / len(draws) ** 0.5
    # The limit is reached as 1/ℓ, by the logarithm of a factor of order 1.
    return Statement(float(draws.mean()), "=", -collapse_rate(2), ERRORS * error + 4 / depth)


def _rate_at_case() -> Statement:
    return _rate_corrected(CASE_DEPTH, torch.Generator().manual_seed(0))


def _rate_at_random(generator: torch.Generator) -> Statement:
    return _rate_corrected(int(torch.randint(30, 100, (), generator=generator)), generator)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-section-2.2.3",
        source="joudaki2024",
        where="section 2.2.3",
        printed="Consider an input matrix H_0 ∈ R^(d x n) ... Assuming that elements of this matrix are i.i.d. "
        "zero-mean and unit variance random variables, the minimum singular value of H_0 is greater than √d - √n",
        case="d = 4, n = 2, independent signs: one draw in 128 has all entries equal, and σ_n = 0",
        corrected="E[σ_n(H_0)] ≥ √d - √n for Gaussian entries (Gordon's inequality)",
        why="the bound is one of the mean, and of the limit of large sizes, not of every draw",
        printed_at_case=_smallest_printed,
        corrected_at_case=_smallest_at_case,
        corrected_at_random=_smallest_at_random,
        random_cases=200,
    ),
    Erratum(
        key="joudaki2024-lemma-a.4",
        source="joudaki2024",
        where="proof of Lemma A.4 (daneshmand2021, proof of Lemma 7, has it right)",
        printed="E[(λ_n(C) - λ_n(E[C]))²] = E‖C - E[C]‖_F²",
        case="4 orthogonal samples, width 10: 0.027 and 0.075",
        corrected="E[(λ_n(C) - λ_n(E[C]))²] ≤ E‖C - E[C]‖_F², and the relation before it is the equality",
        why="the relations = and ≤ of two lines changed places; the lemma itself holds",
        printed_at_case=_weakest_printed,
        corrected_at_case=_weakest_at_case,
        corrected_at_random=_weakest_at_random,
        random_cases=100,
    ),
    Erratum(
        key="joudaki2024-equation-a.13",
        source="joudaki2024",
        where="equation (A.13)",
        printed="lim (1/ℓ) log σ_i²(ℓ) = (1/2)(log 2 + Ψ((d-i+1)/2))",
        case="width 8, the largest singular value, weights of variance 1: 1.95, not 0.97",
        corrected="lim (1/ℓ) log σ_i²(ℓ) = log 2 + Ψ((d-i+1)/2) for entries N(0, 1), and log d less for N(0, 1/d)",
        why="the half belongs to log σ_i",
        printed_at_case=_exponent_printed,
        corrected_at_case=_exponent_at_case,
        corrected_at_random=_exponent_at_random,
        random_cases=200,
    ),
    Erratum(
        key="joudaki2024-digamma",
        source="joudaki2024",
        where="after equation (A.13)",
        printed="Ψ is digamma function, which a monotonically decreasing function",
        case="Ψ(1) = -0.577, Ψ(2) = 0.423",
        corrected="Ψ increases on the positive numbers (so the exponents decrease in i, as the proof needs)",
        why="it is the exponents that decrease",
        printed_at_case=_digamma_printed,
        corrected_at_case=_digamma_at_case,
        corrected_at_random=_digamma_at_random,
    ),
    Erratum(
        key="joudaki2024-equation-a.16",
        source="joudaki2024",
        where="proof of Lemma A.8, equation (A.16), first inequality",
        printed="lim (1/(2ℓ)) log |σ_1²/Σ_i σ_i² - 1| ≤ lim (1/ℓ) log |nσ_2²/σ_1²|",
        case="d = n = 2: the left side is -0.693, the right -1.386",
        corrected="lim (1/ℓ) log |σ_1²/Σ_i σ_i² - 1| = lim (1/ℓ) log(σ_2²/σ_1²) = -δ; so (A.12), which claims only "
        "some positive constant, holds with δ/2 for its 1/(2ℓ), and V converges with the rate exp(-δℓ) of this δ, that "
        "of (A.14)",
        why="half of a negative logarithm is more than all of it: from 1/(2ℓ) to 1/ℓ the inequality turns around, with "
        "or without the half of (A.13)",
        printed_at_case=_rate_printed,
        corrected_at_case=_rate_at_case,
        corrected_at_random=_rate_at_random,
        random_cases=50,
    ),
)
