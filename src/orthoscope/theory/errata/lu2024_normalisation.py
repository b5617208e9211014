"""Lu et al. (2024), appendix, Theorem 3, equations (5) to (14): the derivative of the normalisation."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.errata.record import Comparison, Erratum
from orthoscope.theory.errata.tanh_network import ACCURACY, cyclic_network, random_vector, relative_error
from orthoscope.theory.residual.normalised_gradient import without_mean

Vector = Float[Tensor, "units"]


# What N is.


def _squared_norm_is_the_batch_size() -> Comparison:
    batch = torch.tensor([[0.0, 1, 2, 3, 4], [1, 0, 1, 0, 2], [3, 3, 1, 0, 0]], dtype=torch.float64)  # N = 3, M = 5
    normalised = (batch - batch.mean(0)) / batch.std(0, correction=0)
    return Comparison(float(normalised[0].square().sum()), "=", 3.0, ACCURACY)


def _squared_norm_is_the_width(state: Vector) -> Comparison:
    normalised = without_mean(state) / state.std(correction=0)
    return Comparison(float(normalised.square().sum()), "=", float(len(state)), ACCURACY)


def _width_at_case() -> Comparison:
    return _squared_norm_is_the_width(torch.arange(5, dtype=torch.float64))


def _width_at_random(generator: torch.Generator) -> Comparison:
    return _squared_norm_is_the_width(random_vector(generator))


# The derivative of the normalisation.


def _normalisation_jacobian(total: Vector, index: str) -> Comparison:
    """Equation (9), its first line, with x̂_j - μ (printed) or x̂_i - μ in the second term."""
    units, deviation, centred = len(total), total.std(correction=0), without_mean(total)
    ones = torch.ones(units, units, dtype=total.dtype)
    second = centred.unsqueeze(0 if index == "j" else 1) * ones * (centred / (units * deviation))
    formula = ((torch.eye(units, dtype=total.dtype) - ones / units) * deviation - second) / deviation**2

    def normalisation(vector: Tensor) -> Tensor:
        return (vector - vector.mean()) / vector.std(correction=0)

    return relative_error(formula, torch.autograd.functional.jacobian(normalisation, total))


def _jacobian_as_printed() -> Comparison:
    return _normalisation_jacobian(cyclic_network().inputs, "j")


def _jacobian_at_case() -> Comparison:
    return _normalisation_jacobian(cyclic_network().inputs, "i")


def _jacobian_at_random(generator: torch.Generator) -> Comparison:
    return _normalisation_jacobian(random_vector(generator), "i")


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="lu2024-equation-12",
        source="lu2024",
        where="Theorem 3, proof, equations (5)-(12), with Table 1",
        printed="(Here, taking batch normalization as an example, the result of layer normalization are similar.) ... "
        "‖x^l‖² = N [Table 1: N, batch size; x^l ∈ R^{M_l}, neurons of layer l]",
        case="a batch of N = 3 samples of M = 5 units: after batch normalisation the first sample has ‖x‖² ≠ 3",
        corrected="‖x^l‖² = M_l for the vector of units of one sample, normalised over its units: the formulas are "
        "those of layer normalisation, N is the width",
        why="one letter stands for the batch size and for the number of entries that are normalised together",
        printed_at_case=_squared_norm_is_the_batch_size,
        corrected_at_case=_width_at_case,
        corrected_at_random=_width_at_random,
    ),
    Erratum(
        key="lu2024-equation-9",
        source="lu2024",
        where="Theorem 3, proof, equation (9), first line",
        printed="∂x_i/∂x̂_j = ((δ_ij - ∂μ/∂x̂_j) σ - (x̂_j - μ) ∂σ/∂x̂_j) / σ²",
        case="x̂ = (1, 2, 0, -1), against automatic differentiation",
        corrected="∂x_i/∂x̂_j = ((δ_ij - ∂μ/∂x̂_j) σ - (x̂_i - μ) ∂σ/∂x̂_j) / σ² = (N δ_ij - 1 - x_i x_j) / (N σ)",
        why="a misprinted index; the last line of (9) is right",
        printed_at_case=_jacobian_as_printed,
        corrected_at_case=_jacobian_at_case,
        corrected_at_random=_jacobian_at_random,
        random_cases=100,
    ),
)
