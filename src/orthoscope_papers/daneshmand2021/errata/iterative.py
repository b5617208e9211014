"""Daneshmand, Joudaki & Bach (2021), section 5 and Appendix E: weights that orthogonalize layer by layer."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.chain.spectrum import spectral_orthogonality_gap
from orthoscope_papers.daneshmand2021.errata.batch_norm_chain import Spectrum, random_spectrum, spectrum
from orthoscope_papers.errata import Erratum, Statement

ROUNDING = 1e-12
UNEQUAL = spectrum(0.8, 0.2)


# Iterative orthogonalization of more samples than units.


def _orthogonality_gap(hidden: Float[Tensor, "units samples"]) -> float:
    return float(spectral_orthogonality_gap(torch.linalg.svdvals(hidden), samples=hidden.shape[1]))


def _orthogonalized(hidden: Tensor, left: Tensor) -> Tensor:
    frame, values, _ = torch.linalg.svd(hidden, full_matrices=False)
    return left @ torch.diag(values**-0.5) @ frame.mT @ hidden / values.sum().sqrt()


def _wide_batch(generator: torch.Generator) -> Float[Tensor, "units samples"]:
    return torch.randn(20, 60, generator=generator, dtype=torch.float64)


def _sliced_printed() -> Statement:
    hidden = _wide_batch(torch.Generator().manual_seed(0))
    slice_of_right = torch.linalg.svd(hidden, full_matrices=False).Vh.mT[:20]
    return Statement(
        _orthogonality_gap(_orthogonalized(hidden, slice_of_right)), "<=", _orthogonality_gap(hidden), ROUNDING
    )


def _orthogonal_corrected(generator: torch.Generator) -> Statement:
    hidden = _wide_batch(generator)
    left = haar(20, 20, generator=generator, dtype=torch.float64)
    return Statement(_orthogonality_gap(_orthogonalized(hidden, left)), "<=", _orthogonality_gap(hidden), ROUNDING)


def _orthogonal_at_case() -> Statement:
    return _orthogonal_corrected(torch.Generator().manual_seed(0))


# The formulas of Appendix E.


def _gap_printed() -> Statement:
    total = float((UNEQUAL.square() - 1 / 2).square().sum())
    return Statement(float(spectral_orthogonality_gap(UNEQUAL)), "=", total, ROUNDING)


def _gap_corrected(values: Spectrum) -> Statement:
    total = float(values.pow(4).sum()) - 1 / len(values)
    return Statement(float(spectral_orthogonality_gap(values)) ** 2, "=", total, ROUNDING)


def _gap_at_case() -> Statement:
    return _gap_corrected(UNEQUAL)


def _step_error(generator: torch.Generator, transposed: bool) -> Statement:
    """Distance of W H from V' Σ^(1/2) V / ‖Σ^(1/2)‖_F, or with V transposed, for a square H."""
    hidden = torch.randn(4, 4, generator=generator, dtype=torch.float64)
    left = haar(4, 4, generator=generator, dtype=torch.float64)
    frame, values, right_transposed = torch.linalg.svd(hidden)
    weight = left @ torch.diag(values**-0.5) @ frame.mT / values.sum().sqrt()
    right = right_transposed if transposed else right_transposed.mT
    claimed = left @ torch.diag(values.sqrt()) @ right / values.sum().sqrt()
    return Statement(float((weight @ hidden - claimed).norm()), "=", 0.0, ROUNDING * float(values[0] / values[-1]))


def _step_printed() -> Statement:
    return _step_error(torch.Generator().manual_seed(0), transposed=False)


def _step_at_case() -> Statement:
    return _step_error(torch.Generator().manual_seed(0), transposed=True)


def _step_at_random(generator: torch.Generator) -> Statement:
    return _step_error(generator, transposed=True)


def _sums(values: Spectrum) -> tuple[float, float, float]:
    return float(values.sum()), float(values.pow(3).sum()), float(values.pow(4).sum())


def _chain_printed() -> Statement:
    first, third, fourth = _sums(UNEQUAL)
    return Statement(first**2 * third**2, "<=", first**2 * fourth**2, ROUNDING)


def _chain_corrected(values: Spectrum) -> Statement:
    first, third, fourth = _sums(values)
    return Statement(max(1.0, first**2 * third**2), "<=", first**2 * fourth, ROUNDING)


def _chain_at_case() -> Statement:
    return _chain_corrected(UNEQUAL)


def _gap_at_random(generator: torch.Generator) -> Statement:
    return _gap_corrected(random_spectrum(generator))


def _chain_at_random(generator: torch.Generator) -> Statement:
    return _chain_corrected(random_spectrum(generator))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="daneshmand2021-equation-6",
        source="daneshmand2021",
        where="equation (6) and after; also joudaki2024, equation (2.6)",
        printed="We take a large batch of samples n ≥ d ... where V'_ℓ ∈ R^(d x d) is an orthogonal matrix obtained by "
        "slicing V_ℓ ∈ R^(n x d) ... It is easy to check that V(W_ℓ H_ℓ) < V(H_ℓ) holds for the above initialization",
        case="a Gaussian H with 20 units and 60 samples, V' the first 20 rows of V: V rises from 0.23 to 0.28",
        corrected="V(W_ℓ H_ℓ) ≤ V(H_ℓ) for a truly orthogonal V', drawn independently of V, or V itself of n = d "
        "samples; equal where all non-zero singular values are, with V² = 1/d - 1/n",
        why="a square slice of a matrix with orthonormal columns is not orthogonal; and Appendix E assumes A1, which n "
        "> d samples cannot meet",
        printed_at_case=_sliced_printed,
        corrected_at_case=_orthogonal_at_case,
        corrected_at_random=_orthogonal_corrected,
        random_cases=300,
    ),
    Erratum(
        key="daneshmand2021-equation-18",
        source="daneshmand2021",
        where="Appendix E, equation (18), and its twin for V(W_ℓ H_ℓ); also joudaki2024, equation (A.20)",
        printed="V(H_ℓ) = Σ_i (σ_i² - 1/n)² = Σ_i σ_i⁴ - 1/n",
        case="σ² = (0.8, 0.2): V = 0.424, not 0.18",
        corrected="V(H_ℓ)² = Σ_i (σ_i² - 1/n)² = Σ_i σ_i⁴ - 1/n, and V(W_ℓ H_ℓ)² = 1/(Σ_i σ_i)² - 1/n",
        why="V is a norm, not its square",
        printed_at_case=_gap_printed,
        corrected_at_case=_gap_at_case,
        corrected_at_random=_gap_at_random,
    ),
    Erratum(
        key="daneshmand2021-appendix-e-transpose",
        source="daneshmand2021",
        where="Appendix E, after equation (18); also joudaki2024, after equation (A.20)",
        printed="W_ℓ H_ℓ = V'_ℓ Σ_ℓ^(1/2) V_ℓ / ‖Σ_ℓ^(1/2)‖_F",
        case="a Gaussian H with 4 units and 4 samples",
        corrected="W_ℓ H_ℓ = V'_ℓ Σ_ℓ^(1/2) V_ℓᵀ / ‖Σ_ℓ^(1/2)‖_F",
        why="H = UΣVᵀ; without the transpose the sizes do not even fit unless n = d",
        printed_at_case=_step_printed,
        corrected_at_case=_step_at_case,
        corrected_at_random=_step_at_random,
    ),
    Erratum(
        key="daneshmand2021-appendix-e-cauchy-schwarz",
        source="daneshmand2021",
        where="Appendix E, last display (joudaki2024, section A.4, has it right)",
        printed="(Σσ_i²)⁴ ≤ (Σσ_i)² (Σσ_i² σ_i)² ≤ (Σσ_i)² (Σσ_i⁴)²",
        case="σ² = (0.8, 0.2): the middle is 1.16, the right 0.83",
        corrected="1 = (Σσ_i²)⁴ ≤ (Σσ_i)² (Σσ_i³)² ≤ (Σσ_i)² Σσ_i⁴, since (Σσ_i²σ_i)² ≤ Σσ_i⁴ Σσ_i² = Σσ_i⁴",
        why="Cauchy-Schwarz was applied without the root, and singular values are at most 1",
        printed_at_case=_chain_printed,
        corrected_at_case=_chain_at_case,
        corrected_at_random=_chain_at_random,
    ),
)
