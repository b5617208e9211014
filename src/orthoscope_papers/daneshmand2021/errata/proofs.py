"""Daneshmand, Joudaki & Bach (2021), appendices A to C: steps and formulas of the proofs that are not as printed."""

import torch

from orthoscope.theory.chain.batch_norm import mean_squared_singular_values
from orthoscope.theory.chain.bounds import gram_variance
from orthoscope_papers.daneshmand2021.errata.batch_norm_chain import (
    Spectrum,
    mean_at_most,
    mean_is,
    next_grams,
    random_spectrum,
    spectrum,
    unit_rows,
)
from orthoscope_papers.errata import Erratum, Statement

ROUNDING = 1e-12
UNEQUAL = spectrum(0.8, 0.2)
EQUAL = spectrum(1.0, 1.0, 1.0, 1.0)


# The size of the weights.


def _size_printed() -> Statement:
    """Columns of the weights and rows of H, which the product identifies."""
    hidden, weight = torch.zeros(10, 4), torch.zeros(10, 4)
    return Statement(float(weight.shape[1]), "=", float(hidden.shape[0]))


def _layer_has_norm_one(units: int, samples: int, generator: torch.Generator) -> Statement:
    """‖BN(WH)/√d‖_F = 1, as in (10), after a layer that is computed."""
    weight, hidden = (torch.randn(units, size, generator=generator, dtype=torch.float64) for size in (units, samples))
    product = weight @ hidden
    return Statement(float((product / product.norm(dim=1, keepdim=True)).norm()), "=", units**0.5, 1e-9)


def _size_corrected() -> Statement:
    return _layer_has_norm_one(10, 4, torch.Generator().manual_seed(0))


def _size_at_random(generator: torch.Generator) -> Statement:
    units, samples = (int(size) for size in torch.randint(1, 20, (2,), generator=generator))
    return _layer_has_norm_one(units, samples, generator)


# The mean of the next Gram matrix.


def _mean_printed() -> Statement:
    """The printed p_i has the index n on its right side, for every i."""
    return Statement(2 * float(mean_squared_singular_values(UNEQUAL)[-1]), "=", 1.0, ROUNDING)


def _mean_corrected(values: Spectrum) -> Statement:
    return Statement(float(mean_squared_singular_values(values).sum()), "=", 1.0, ROUNDING)


def _mean_at_case() -> Statement:
    return _mean_corrected(UNEQUAL)


def _mean_at_random(generator: torch.Generator) -> Statement:
    return _mean_corrected(random_spectrum(generator))


# The variance of the next Gram matrix, Lemma 6.


def _products(values: Spectrum, power: int, generator: torch.Generator) -> torch.Tensor:
    """Draws of the product of two entries in each of two rows, to a power."""
    rows = unit_rows(values, (4000, 2), generator)[..., :2]
    return rows.prod(-1).prod(-1) ** power


def _squares_printed() -> Statement:
    return mean_is(_products(EQUAL[:2], 2, torch.Generator().manual_seed(0)), 0.0)


def _products_at_case() -> Statement:
    return mean_is(_products(EQUAL[:2], 1, torch.Generator().manual_seed(0)), 0.0)


def _products_at_random(generator: torch.Generator) -> Statement:
    return mean_is(_products(random_spectrum(generator), 1, generator), 0.0)


def _scatter(values: Spectrum, width: int, generator: torch.Generator) -> torch.Tensor:
    mean = torch.diag(mean_squared_singular_values(values))
    return (next_grams(values, width, 500, generator) - mean).square().sum((-2, -1))


def _scatter_printed() -> Statement:
    """With the sum over i of A_ki², which is 1, in the middle of the chain of inequalities."""
    return mean_at_most(_scatter(EQUAL, 10, torch.Generator().manual_seed(0)), 1 / 10**2)


def _scatter_at_case() -> Statement:
    return mean_is(_scatter(EQUAL, 10, torch.Generator().manual_seed(0)), float(gram_variance(EQUAL, 10)))


def _scatter_at_random(generator: torch.Generator) -> Statement:
    values = random_spectrum(generator, least=0.3)
    width = int(torch.randint(8, 30, (), generator=generator))
    return mean_is(_scatter(values, width, generator), float(gram_variance(values, width)))


# The derivative of h_1, Lemma 10.


def _powers(samples: int, theta: float, delta: torch.Tensor, first: float, second: float) -> torch.Tensor:
    weakest = 1 + 2 * theta * (1 / samples - delta)
    others = 1 + 2 * theta * (1 / samples + delta / (samples - 1))
    return weakest**first * others**second


def _slope_of_h1(samples: int, theta: float, delta: float) -> tuple[float, float]:
    """h_1'(δ) by differentiation, and θ h_3(δ), by which it is divided to find h_4."""
    at = torch.tensor(delta, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(_powers(samples, theta, at, -5 / 2, -(samples - 1) / 2 - 1), at)
    return float(slope), theta * float(_powers(samples, theta, at.detach(), -7 / 2, -(samples - 1) / 2 - 2))


def _h4_printed() -> Statement:
    n, theta, delta = 4, 1.0, 0.1
    slope, factor = _slope_of_h1(n, theta, delta)
    h4 = (4 * n - 2) / (n - 1) * (1 + 2 * theta) + 2 * theta * delta * (n + 2) / (n - 1)
    return Statement(slope, "=", factor * h4, ROUNDING)


def _h4_corrected(n: int, theta: float, delta: float) -> Statement:
    slope, factor = _slope_of_h1(n, theta, delta)
    h4 = (4 * n - 6) / (n - 1) * (1 + 2 * theta / n) + 2 * theta * delta * (n + 6) / (n - 1)
    return Statement(slope, "=", factor * h4, ROUNDING * abs(slope))


def _h4_at_case() -> Statement:
    return _h4_corrected(4, 1.0, 0.1)


def _h4_at_random(generator: torch.Generator) -> Statement:
    n = int(torch.randint(2, 30, (), generator=generator))
    theta, part = torch.rand(2, generator=generator, dtype=torch.float64).tolist()
    return _h4_corrected(n, 10 * theta, part / n)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="daneshmand2021-equation-9",
        source="daneshmand2021",
        where="Appendix A.2, after equation (9); also joudaki2024, after equation (A.3)",
        printed="W_ℓ ∈ R^(d x n) are random weight matrices",
        case="10 units and 4 samples: a 10 x 4 matrix cannot be applied to H, which is 10 x 4",
        corrected="W_ℓ ∈ R^(d x d), and the layer (9) has Frobenius norm 1 as (10) says",
        why="H_ℓ has d rows",
        printed_at_case=_size_printed,
        corrected_at_case=_size_corrected,
        corrected_at_random=_size_at_random,
    ),
    Erratum(
        key="daneshmand2021-equation-13",
        source="daneshmand2021",
        where="equation (13); also joudaki2024, equation (A.8)",
        printed="E[C] = diag(p_1(σ), ..., p_n(σ)), p_i(σ) := E[σ_n² w_n² / Σ_k σ_k² w_k²]",
        case="σ² = (0.8, 0.2): the trace would be 2/3, and is 1",
        corrected="p_i(σ) = E[σ_i² w_i² / Σ_k σ_k² w_k²], which sum to 1",
        why="the index n stands for i on the right side",
        printed_at_case=_mean_printed,
        corrected_at_case=_mean_at_case,
        corrected_at_random=_mean_at_random,
        random_cases=300,
    ),
    Erratum(
        key="daneshmand2021-lemma-6-products",
        source="daneshmand2021",
        where="proof of Lemma 6; also joudaki2024, proof of Lemma A.3",
        printed="E[A_ki² A_kj² A_k'i² A_k'j²] = 0 for k ≠ k', i ≠ j",
        case="two orthogonal samples: it is (1/8)²",
        corrected="E[A_ki A_kj A_k'i A_k'j] = 0",
        why="these are the mixed terms of the square of Σ_k A_ki A_kj: the factors are not squared",
        printed_at_case=_squares_printed,
        corrected_at_case=_products_at_case,
        corrected_at_random=_products_at_random,
        random_cases=200,
    ),
    Erratum(
        key="daneshmand2021-lemma-6-sum",
        source="daneshmand2021",
        where="proof of Lemma 6, last line; also joudaki2024, proof of Lemma A.3, with A_ii for A_ki",
        printed="E‖C - E[C]‖_F² = Σ_ij var([C]_ij) ≤ (1/d²)(Σ_i A_ki²)² = 1/d",
        case="4 orthogonal samples, width 10: 0.075 on the left, 0.01 in the middle, since Σ_i A_ki² = 1",
        corrected="E‖C - E[C]‖_F² = (1 - Σ_i p_i(σ)²)/d ≤ (1/d²) Σ_k (Σ_i A_ki²)² = 1/d",
        why="the sum over the d rows is missing; the lemma itself holds",
        printed_at_case=_scatter_printed,
        corrected_at_case=_scatter_at_case,
        corrected_at_random=_scatter_at_random,
        random_cases=100,
    ),
    Erratum(
        key="daneshmand2021-lemma-10",
        source="daneshmand2021",
        where="proof of Lemma 10; joudaki2024, proof of Lemma A.7, has 2θ/n for the second 2θ, and the rest alike",
        printed="h_1' = θ h_3 h_4, h_4 = (4n-2)/(n-1) + 2θ(4n-2)/(n-1) + 2θδ(n+2)/(n-1)",
        case="n = 4, θ = 1, δ = 0.1",
        corrected="h_4 = (4n-6)/(n-1) + (2θ/n)(4n-6)/(n-1) + 2θδ(n+6)/(n-1), still positive for n ≥ 2",
        why="the second exponent of h_1 is -(n-1)/2 - 1 = -(n+1)/2, and was taken for -(n-3)/2; the lemma itself holds",
        printed_at_case=_h4_printed,
        corrected_at_case=_h4_at_case,
        corrected_at_random=_h4_at_random,
    ),
)
