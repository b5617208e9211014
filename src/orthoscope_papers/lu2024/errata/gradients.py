"""Lu et al. (2024), appendix, Theorem 3, equations (5) to (23): gradients behind normalization and a skip."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.residual.normalized_gradient import (
    NormalizedResidualGradients,
    gradient_before_normalization,
    normalized_residual_gradients,
    without_mean,
)
from orthoscope_papers.errata import Erratum, Statement
from orthoscope_papers.lu2024.errata.tanh_network import (
    ACCURACY,
    TanhNetwork,
    automatic_gradients,
    cyclic_network,
    random_network,
    random_vector,
    relative_error,
    tanh_slope,
)

Vector = Float[Tensor, "units"]


# What N is.


def _squared_norm_is_the_batch_size() -> Statement:
    batch = torch.tensor([[0.0, 1, 2, 3, 4], [1, 0, 1, 0, 2], [3, 3, 1, 0, 0]], dtype=torch.float64)  # N = 3, M = 5
    normalized = (batch - batch.mean(0)) / batch.std(0, correction=0)
    return Statement(float(normalized[0].square().sum()), "=", 3.0, ACCURACY)


def _squared_norm_is_the_width(state: Vector) -> Statement:
    normalized = without_mean(state) / state.std(correction=0)
    return Statement(float(normalized.square().sum()), "=", float(len(state)), ACCURACY)


def _width_at_case() -> Statement:
    return _squared_norm_is_the_width(torch.arange(5, dtype=torch.float64))


def _width_at_random(generator: torch.Generator) -> Statement:
    return _squared_norm_is_the_width(random_vector(generator))


# The derivative of the normalization.


def _normalization_jacobian(total: Vector, index: str) -> Statement:
    """Equation (9), its first line, with x̂_j - μ (printed) or x̂_i - μ in the second term."""
    units, deviation, centered = len(total), total.std(correction=0), without_mean(total)
    ones = torch.ones(units, units, dtype=total.dtype)
    second = centered.unsqueeze(0 if index == "j" else 1) * ones * (centered / (units * deviation))
    formula = ((torch.eye(units, dtype=total.dtype) - ones / units) * deviation - second) / deviation**2

    def normalization(vector: Tensor) -> Tensor:
        return (vector - vector.mean()) / vector.std(correction=0)

    return relative_error(formula, torch.autograd.functional.jacobian(normalization, total))


def _jacobian_as_printed() -> Statement:
    return _normalization_jacobian(cyclic_network().inputs, "j")


def _jacobian_at_case() -> Statement:
    return _normalization_jacobian(cyclic_network().inputs, "i")


def _jacobian_at_random(generator: torch.Generator) -> Statement:
    return _normalization_jacobian(random_vector(generator), "i")


def _formulas(network: TanhNetwork) -> NormalizedResidualGradients:
    return normalized_residual_gradients(*network, activation=torch.tanh, slope=tanh_slope)


# One layer back, and the gradient of the weights.


def _printed_step(network: TanhNetwork, states: list[Tensor]) -> Vector:
    """Equation (16) for the last layer: (1 + f') ⊙ W P P x' / σ."""
    drive = network.drive(-1, states[-2])
    deviation = (states[-2] + drive.tanh()).std(correction=0)
    projected = gradient_before_normalization(network.output_gradient, states[-1], deviation)
    return (1 + tanh_slope(drive)) * (network.weights[-1] @ projected)


def _state_gradient_as_printed() -> Statement:
    network = cyclic_network()
    states, truth, _ = automatic_gradients(network, residual=True)
    return relative_error(_printed_step(network, states), truth[-2])


def _state_gradient(network: TanhNetwork) -> Statement:
    return relative_error(_formulas(network).by_state, torch.stack(automatic_gradients(network, residual=True)[1]))


def _state_gradient_at_case() -> Statement:
    return _state_gradient(cyclic_network())


def _state_gradient_at_random(generator: torch.Generator) -> Statement:
    return _state_gradient(random_network(generator))


def _weight_gradient_as_printed() -> Statement:
    network = cyclic_network()
    states, _, truth = automatic_gradients(network, residual=True)
    drive = network.drive(0, states[0])
    deviation = (states[0] + drive.tanh()).std(correction=0)
    projected = gradient_before_normalization(_printed_step(network, states), states[1], deviation)
    return relative_error(torch.outer(tanh_slope(drive) * projected, states[0]), truth[0])


def _weight_gradient(network: TanhNetwork) -> Statement:
    return relative_error(_formulas(network).by_weight, torch.stack(automatic_gradients(network, residual=True)[2]))


def _weight_gradient_at_case() -> Statement:
    return _weight_gradient(cyclic_network())


def _weight_gradient_at_random(generator: torch.Generator) -> Statement:
    return _weight_gradient(random_network(generator))


# A plain network.


def _plain_weight_gradient(network: TanhNetwork, transpose: bool) -> Statement:
    """The first layer's, by the recursion (19) from the last layer's δ."""
    states, _, truth = automatic_gradients(network, residual=False)
    slopes = [tanh_slope(network.drive(layer, state)) for layer, state in enumerate(states[:-1])]
    delta = slopes[-1] * network.output_gradient
    for layer in reversed(range(len(slopes) - 1)):
        weight = network.weights[layer + 1]
        delta = slopes[layer] * ((weight.mT if transpose else weight) @ delta)
    return relative_error(torch.outer(delta, states[0]), truth[0])


def _recursion_as_printed() -> Statement:
    return _plain_weight_gradient(cyclic_network(), transpose=False)


def _recursion_at_case() -> Statement:
    return _plain_weight_gradient(cyclic_network(), transpose=True)


def _recursion_at_random(generator: torch.Generator) -> Statement:
    return _plain_weight_gradient(random_network(generator), transpose=True)


# Rows and columns of the gradient.


def _row_as_printed() -> Statement:
    states, _, truth = automatic_gradients(cyclic_network(), residual=False)
    delta = truth[0] @ states[0] / states[0].square().sum()
    return relative_error(states[0][1] * delta, truth[0][1])


def _rows_and_columns(network: TanhNetwork) -> Statement:
    """Row i against δ_i x and column i against x_i δ, with δ the gradient of the bias, for i the first unit."""
    found = _formulas(network)
    truth = automatic_gradients(network, residual=True)[2][0]
    formula = torch.stack([found.by_bias[0, 0] * network.inputs, network.inputs[0] * found.by_bias[0]])
    return relative_error(formula, torch.stack([truth[0], truth[:, 0]]))


def _rows_at_case() -> Statement:
    return _rows_and_columns(cyclic_network())


def _rows_at_random(generator: torch.Generator) -> Statement:
    return _rows_and_columns(random_network(generator))


# Whether normalization brings units closer.


def _normalized_units_are_closer() -> Statement:
    state = torch.tensor([0.0, 0.1], dtype=torch.float64)
    normalized = without_mean(state) / state.std(correction=0)
    return Statement(float(normalized.diff().abs()), "<=", float(state.diff().abs()), ACCURACY)


def _distance_is_divided(state: Vector) -> Statement:
    deviation = state.std(correction=0)
    normalized = without_mean(state) / deviation
    return relative_error(normalized[1:] - normalized[0], (state[1:] - state[0]) / deviation)


def _distance_at_case() -> Statement:
    return _distance_is_divided(torch.tensor([0.0, 0.1], dtype=torch.float64))


def _distance_at_random(generator: torch.Generator) -> Statement:
    return _distance_is_divided(random_vector(generator))


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="lu2024-equation-12",
        source="lu2024",
        where="Theorem 3, proof, equations (5)-(12), with Table 1",
        printed="(Here, taking batch normalization as an example, the result of layer normalization are similar.) ... "
        "‖x^l‖² = N [Table 1: N, batch size; x^l ∈ R^{M_l}, neurons of layer l]",
        case="a batch of N = 3 samples of M = 5 units: after batch normalization the first sample has ‖x‖² ≠ 3",
        corrected="‖x^l‖² = M_l for the vector of units of one sample, normalized over its units: the formulas are "
        "those of layer normalization, N is the width",
        why="one letter stands for the batch size and for the number of entries that are normalized together",
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
    Erratum(
        key="lu2024-equation-16",
        source="lu2024",
        where="Theorem 3, proof, equation (16)",
        printed="∂L/∂x^l = 1/σ (1 + f'(z^{l+1})) ⊙ W^{l+1} P_{1⊥} P_{x^{l+1}⊥} (x^{l+1})'",
        case="tanh, W the cyclic shift of 4 units, x = (1, 2, 0, -1), two layers, against automatic differentiation",
        corrected="∂L/∂x^l = 1/σ^{l+1} (I + W^{l+1}ᵀ diag f'(z^{l+1})) P_{1⊥} P_{x^{l+1}⊥} (x^{l+1})'",
        why="the skip passes the gradient beside the weights, not through them, and a Jacobian acts transposed, after "
        "the slope",
        printed_at_case=_state_gradient_as_printed,
        corrected_at_case=_state_gradient_at_case,
        corrected_at_random=_state_gradient_at_random,
        random_cases=100,
    ),
    Erratum(
        key="lu2024-equations-17-18",
        source="lu2024",
        where="Theorem 3, proof, equations (17) and (18)",
        printed="∇W^l = δ_NR^l (x^{l-1})ᵀ, δ_NR^l = 1/σ^l f'(z^l) ⊙ P_{1⊥} P_{x^l⊥} [1/σ^{l+1} (1 + f'(z^{l+1})) ⊙ "
        "W^{l+1} P_{1⊥} P_{x^{l+1}⊥} (x^{l+1})']",
        case="tanh, W the cyclic shift of 4 units, x = (1, 2, 0, -1), two layers, against automatic differentiation",
        corrected="∇W^l = δ_NR^l (x^{l-1})ᵀ, δ_NR^l = 1/σ^l f'(z^l) ⊙ P_{1⊥} P_{x^l⊥} [1/σ^{l+1} (I + W^{l+1}ᵀ diag "
        "f'(z^{l+1})) P_{1⊥} P_{x^{l+1}⊥} (x^{l+1})'], and so on for any depth",
        why="equation (16) is put in; the text after (14) also calls δ_NR^l what is (19) of a network without skips",
        printed_at_case=_weight_gradient_as_printed,
        corrected_at_case=_weight_gradient_at_case,
        corrected_at_random=_weight_gradient_at_random,
        random_cases=100,
    ),
    Erratum(
        key="lu2024-equation-19",
        source="lu2024",
        where="Theorem 3, proof, equation (19)",
        printed="∇W^l = δ^l (x^{l-1})ᵀ, δ^l = f'(z^l) ⊙ (W^{l+1} δ^{l+1})",
        case="a plain tanh network, W the cyclic shift of 4 units, two layers, against automatic differentiation",
        corrected="∇W^l = δ^l (x^{l-1})ᵀ, δ^l = f'(z^l) ⊙ (W^{l+1}ᵀ δ^{l+1})",
        why="a transpose is missing",
        printed_at_case=_recursion_as_printed,
        corrected_at_case=_recursion_at_case,
        corrected_at_random=_recursion_at_random,
        random_cases=100,
    ),
    Erratum(
        key="lu2024-equations-20-22",
        source="lu2024",
        where="Theorem 3, proof, equations (20)-(23)",
        printed="If ∇w_i^l and ∇w_j^l are any two row vectors in ∇W^l, ... ∇w_i^{c,l} = x_i^{l-1} δ^l ... if ∇w_i^l "
        "and ∇w_j^l are any two column vectors in ∇W^l, ... ∇w_i^{r,l} = δ_i^l (x^{l-1})ᵀ",
        case="a plain tanh network, W the cyclic shift of 4 units, two layers: the second row of ∇W^1 is not x_2 δ",
        corrected="the rows of ∇W^l = δ^l (x^{l-1})ᵀ are δ_i^l (x^{l-1})ᵀ, its columns are x_i^{l-1} δ^l",
        why="rows and columns are exchanged",
        printed_at_case=_row_as_printed,
        corrected_at_case=_rows_at_case,
        corrected_at_random=_rows_at_random,
        random_cases=100,
    ),
    Erratum(
        key="lu2024-theorem-3-closer",
        source="lu2024",
        where="Theorem 3, proof, after equation (21)",
        printed="Compared to x_i^{l-1} and x_j^{l-1}, [the normalized] x_{NR,i}^{l-1} and x_{NR,j}^{l-1} are closer",
        case="x = (0, 0.1): normalized it is (-1, 1)",
        corrected="|x_{NR,i} - x_{NR,j}| = |x̂_i - x̂_j| / σ: normalization brings units closer if and only if σ > 1",
        why="normalization fixes the scale; whether that is nearer depends on the scale before",
        printed_at_case=_normalized_units_are_closer,
        corrected_at_case=_distance_at_case,
        corrected_at_random=_distance_at_random,
    ),
)
