"""Theorem 3 of Lu et al. (2024), corrected, against automatic differentiation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from orthoscope.theory.residual.normalized_gradient import (
    gradient_before_normalization,
    normalized_residual_gradients,
    without_direction,
    without_mean,
)

ACCURACY = 1e-8  # as the mathematical reference has it; the worst error seen is below 1e-12


def softplus_slope(drive: Tensor) -> Tensor:
    return drive.sigmoid()


def relu_slope(drive: Tensor) -> Tensor:
    return (drive > 0).double()


def tanh_slope(drive: Tensor) -> Tensor:
    return 1 - drive.tanh() ** 2


ACTIVATIONS = {
    "tanh": (torch.tanh, tanh_slope),
    "relu": (torch.relu, relu_slope),
    "softplus": (torch.nn.functional.softplus, softplus_slope),
}


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def forward(inputs: Tensor, weights: list[Tensor], biases: list[Tensor], f: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """PyTorch's own layer normalization, so that the test shares no code with the formula."""
    states = [inputs]
    for weight, bias in zip(weights, biases, strict=True):
        states.append(layer_norm(states[-1] + f(weight @ states[-1] + bias), inputs.shape, eps=0.0))
    return states


def loss(state: Tensor) -> Tensor:
    return (state**3).sum() + state[0].exp()


def errors(units: int, depth: int, activation: str, generator: torch.Generator) -> dict[str, float]:
    f, slope = ACTIVATIONS[activation]
    inputs, weights = normal(generator, units), normal(generator, depth, units, units) / units**0.5
    biases = normal(generator, depth, units)
    leaves = [weight.clone().requires_grad_() for weight in weights], [bias.clone().requires_grad_() for bias in biases]
    states = forward(inputs.requires_grad_(), *leaves, f)
    by_state = torch.autograd.grad(loss(states[-1]), states, retain_graph=True)
    by_weight, by_bias = (
        torch.stack(torch.autograd.grad(loss(states[-1]), group, retain_graph=True)) for group in leaves
    )
    found = normalized_residual_gradients(
        inputs.detach(), weights, biases, by_state[-1].detach(), activation=f, slope=slope
    )
    pairs = {
        "states": (found.states, torch.stack(states).detach()),
        "by_state": (found.by_state, torch.stack(by_state)),
        "by_weight": (found.by_weight, by_weight),
        "by_bias": (found.by_bias, by_bias),
    }
    return {name: float((formula - truth).norm() / truth.norm()) for name, (formula, truth) in pairs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize(("units", "depth"), [(3, 1), (4, 2), (8, 5), (32, 20)])
def test_every_gradient_agrees_with_autograd(units: int, depth: int, activation: str) -> None:
    for seed in range(20):
        found = errors(units, depth, activation, torch.Generator().manual_seed(seed))
        assert max(found.values()) < ACCURACY, found


@pytest.mark.parametrize("transpose", [False, True])
def test_printed_form_is_wrong_with_and_without_a_transpose(transpose: bool, generator: torch.Generator) -> None:
    """(16) sends the skip through the weights; no reading of its W makes it right."""
    failures = []
    for _ in range(50):
        state, weight, bias, gradient = (normal(generator, *shape) for shape in ((6,), (6, 6), (6,), (6,)))
        found = normalized_residual_gradients(
            state, weight[None], bias[None], gradient, activation=torch.tanh, slope=tanh_slope
        )
        drive = weight @ state + bias
        before = gradient_before_normalization(gradient, found.states[1], (state + drive.tanh()).std(correction=0))
        printed = (1 + tanh_slope(drive)) * ((weight.mT if transpose else weight) @ before)
        failures.append(float((printed - found.by_state[0]).norm() / found.by_state[0].norm()))
    assert min(failures) > 0.1


def test_projections_are_projections(generator: torch.Generator) -> None:
    vectors, directions = normal(generator, 1000, 7), normal(generator, 1000, 7)
    once = without_direction(vectors, directions)
    assert (once * directions).sum(-1).abs().max() < 1e-12
    assert torch.allclose(without_direction(once, directions), once, atol=1e-12)
    assert without_mean(vectors).sum(-1).abs().max() < 1e-12
    assert torch.allclose(without_direction(vectors, torch.ones(1000, 7)), without_mean(vectors), atol=1e-12)


def test_projections_commute_for_normalized_vectors_only(generator: torch.Generator) -> None:
    vectors, states = normal(generator, 1000, 7), normal(generator, 1000, 7)
    centered = without_mean(states)

    def commutator(direction: Tensor) -> Tensor:
        one = without_mean(without_direction(vectors, direction))
        return (one - without_direction(without_mean(vectors), direction)).norm(dim=-1) / vectors.norm(dim=-1)

    assert commutator(centered).max() < 1e-12
    assert commutator(states).median() > 0.05


def test_gradient_before_normalization_is_layer_norms(generator: torch.Generator) -> None:
    totals, gradients = normal(generator, 100, 9).requires_grad_(), normal(generator, 100, 9)
    states = layer_norm(totals, (9,), eps=0.0)
    (truth,) = torch.autograd.grad(states, totals, gradients)
    found = gradient_before_normalization(gradients, states.detach(), totals.detach().std(-1, correction=0))
    assert torch.allclose(found, truth, atol=1e-12)


def test_bad_input_gets_one_sentence() -> None:
    ones = torch.ones(3, dtype=torch.float64)
    with pytest.raises(ValueError, match="zero vector has no direction"):
        without_direction(ones, 0 * ones)
    with pytest.raises(ValueError, match="all units of layer 1 are equal before normalization"):
        normalized_residual_gradients(
            ones, torch.zeros(1, 3, 3), torch.zeros(1, 3), ones, activation=torch.tanh, slope=tanh_slope
        )
    with pytest.raises(ValueError, match="give at least one weight matrix"):
        normalized_residual_gradients(
            ones, torch.zeros(0, 3, 3), torch.zeros(0, 3), ones, activation=torch.tanh, slope=tanh_slope
        )
