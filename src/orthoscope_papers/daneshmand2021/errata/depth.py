"""Daneshmand, Joudaki & Bach (2021): what its theorems state about depth and orthogonality."""

import math
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import gap_contraction, mean_squared_singular_values
from orthoscope.theory.chain.bounds import expected_gap_bound, wasserstein_bound, wasserstein_to_gaussian
from orthoscope.theory.chain.spectrum import spectral_orthogonality_gap
from orthoscope_papers.daneshmand2021.errata.batch_norm_chain import Spectrum, random_spectrum, spectrum
from orthoscope_papers.errata import Erratum, Statement

ROUNDING = 1e-12
# So wide that the chain is its mean field: its gap is then off by some √(n/d) = 1e-14.
ENORMOUS = 10**30


def _after(values: Spectrum, layers: int) -> Spectrum:
    for _ in range(layers):
        values = mean_squared_singular_values(values).sqrt()
    return values


# Theorem 1, whose first layer is given and whose smallest singular value grows from there.

NEARLY_EQUAL = spectrum(*[1.5] * 32, *[0.5] * 32)
GAP_LAYERS = 150


@cache
def _late_gap() -> float:
    return float(spectral_orthogonality_gap(_after(NEARLY_EQUAL, GAP_LAYERS)))


def _theorem_printed() -> Statement:
    alpha, samples = float(NEARLY_EQUAL.min()), len(NEARLY_EQUAL)
    bound = 2 * (1 - 2 * alpha / 3) ** GAP_LAYERS + 3 * samples / (alpha * math.sqrt(ENORMOUS))
    return Statement(_late_gap(), "<=", bound, ROUNDING)


def _theorem_corrected() -> Statement:
    bound = expected_gap_bound(len(NEARLY_EQUAL), ENORMOUS, GAP_LAYERS + 1, float(NEARLY_EQUAL.min()) ** 2)
    return Statement(_late_gap(), "<=", bound, ROUNDING)


def _theorem_at_random(generator: torch.Generator) -> Statement:
    values = random_spectrum(generator)
    layers = int(torch.randint(0, 3, (), generator=generator))
    bound = expected_gap_bound(len(values), ENORMOUS, layers + 1, float(values.min()) ** 2)
    return Statement(float(spectral_orthogonality_gap(_after(values, layers))), "<=", bound, ROUNDING)


# Corollary 3, from energies so nearly equal that a layer is its linear part, to a relative 1e-3.

ALMOST_EQUAL = spectrum(*[1.001] * 72, *[0.999] * 72)
DEPTH = 1000


def _late_squared_distance() -> tuple[float, float]:
    """What is left of the squared distance at this depth, without width, and how well it is known."""
    first = float(wasserstein_to_gaussian(ALMOST_EQUAL).square())
    late = first * gap_contraction(len(ALMOST_EQUAL)) ** (2 * (DEPTH - 1))
    return late, 0.01 * late


def _corollary_printed() -> Statement:
    late, tolerance = _late_squared_distance()
    bound = 4 * len(ALMOST_EQUAL) * (1 - 2 * float(ALMOST_EQUAL.min()) / 3) ** DEPTH
    return Statement(late, "<=", bound, tolerance)


def _corollary_corrected() -> Statement:
    late, tolerance = _late_squared_distance()
    energy = float(ALMOST_EQUAL.min()) ** 2
    return Statement(late, "<=", wasserstein_bound(len(ALMOST_EQUAL), ENORMOUS, DEPTH, energy) ** 2, tolerance)


def _corollary_at_random(generator: torch.Generator) -> Statement:
    values = random_spectrum(generator)
    layers = int(torch.randint(0, 3, (), generator=generator))
    bound = wasserstein_bound(len(values), ENORMOUS, layers + 1, float(values.min()) ** 2)
    return Statement(float(wasserstein_to_gaussian(_after(values, layers))), "<=", bound, ROUNDING)


# The constant of A1.


def _absolute_constant() -> Statement:
    return Statement(0.5, "<=", float(spectrum(*[1.0] * 16).min()))


def _smallest_value(hidden: Float[Tensor, "units samples"]) -> Statement:
    values = torch.linalg.svdvals(hidden / hidden.norm())
    return Statement(float(values[-1]), "<=", hidden.shape[1] ** -0.5, ROUNDING)


def _smallest_value_at_case() -> Statement:
    return _smallest_value(torch.eye(16, dtype=torch.float64))


def _smallest_value_at_random(generator: torch.Generator) -> Statement:
    units, samples = (int(size) for size in torch.randint(1, 20, (2,), generator=generator))
    return _smallest_value(torch.randn(samples + units, samples, generator=generator, dtype=torch.float64))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="daneshmand2021-assumption-a1",
        source="daneshmand2021",
        where="Assumption A1 and the first display; also joudaki2024, section 2.1.2",
        printed="There exists an absolute positive constant α such that the minimum singular value of H_k is greater "
        "than (or equal to) α for all k = 1, ..., ℓ",
        case="whatever α is, more than 1/α² samples: α = 1/2 and 16 samples, where σ_n is at most 1/4",
        corrected="α depends on the batch: ‖H_k‖_F = 1 gives σ_n ≤ n^(-1/2), so α ≤ n^(-1/2), and α ≤ 1/n for σ_n² ≥ α",
        why="the squared singular values of H_k sum to 1",
        printed_at_case=_absolute_constant,
        corrected_at_case=_smallest_value_at_case,
        corrected_at_random=_smallest_value_at_random,
    ),
    Erratum(
        key="daneshmand2021-theorem-1",
        source="daneshmand2021",
        where="Theorem 1, equation (3); also joudaki2024, Theorem 2.1",
        printed="σ_n(H_k) ≥ α for k = 1, ..., ℓ implies E[V(H_{ℓ+1})] ≤ 2(1 - 2α/3)^ℓ + 3n/(α√d)",
        case="64 samples, half of the energies of H_1 three times the other half, ℓ = 150, width 10^30",
        corrected="σ_n(H_k)² ≥ α for k = 1, ..., ℓ implies E[V(H_{ℓ+1})] ≤ 2(1 - 2α/3)^ℓ + 3n/(α√d)",
        why="Theorem 5 contracts by 1 - 2σ_n²/3, and 1/n - V̂ = σ_n² was replaced by the bound of σ_n; as printed it "
        "would beat the true contraction n/(n+2) of wide networks from 5 samples on",
        printed_at_case=_theorem_printed,
        corrected_at_case=_theorem_corrected,
        corrected_at_random=_theorem_at_random,
        random_cases=300,
    ),
    Erratum(
        key="daneshmand2021-corollary-3",
        source="daneshmand2021",
        where="Corollary 3, equation (5); also joudaki2024, Corollary 2.3",
        printed="σ_n(H_k) ≥ α for k = 1, ..., ℓ implies W₂(law(W_ℓ H_ℓ), law(G/√n))² ≤ 4n(1 - 2α/3)^ℓ + 6n²/(α√d)",
        case="144 samples, energies of H_1 equal up to 0.1 %, ℓ = 1000, infinite width",
        corrected="σ_n(H_k)² ≥ α for k < ℓ implies W₂(W_ℓ H_ℓ, G/√n)² ≤ 4n(1 - 2α/3)^(ℓ-1) + 6n²/(α√d)",
        why="A1 as in Theorem 1, which bounds H_{ℓ+1} by the power ℓ, hence H_ℓ by the power ℓ - 1",
        printed_at_case=_corollary_printed,
        corrected_at_case=_corollary_corrected,
        corrected_at_random=_corollary_at_random,
        random_cases=300,
    ),
)
