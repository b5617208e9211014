"""Small tanh networks with automatic derivatives: what the gradient formulas of Lu et al. (2024) are compared with."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope_papers.errata import Statement

Vector = Float[Tensor, "units"]

ACCURACY = 1e-8  # relative, of a formula against automatic differentiation; measured: below 1e-13


class TanhNetwork(NamedTuple):
    """Layers of equal width with tanh, and the gradient of a linear loss at the last one."""

    inputs: Vector
    weights: Float[Tensor, "layers units units"]
    biases: Float[Tensor, "layers units"]
    output_gradient: Vector

    def drive(self, layer: int, state: Vector) -> Vector:
        return self.weights[layer] @ state + self.biases[layer]


def tanh_slope(drive: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return 1 - drive.tanh() ** 2


def cyclic_network() -> TanhNetwork:
    """Two layers whose weight is the cyclic shift: orthogonal, and not symmetric."""
    shift = torch.eye(4, dtype=torch.float64).roll(1, 0)
    inputs, gradient = torch.tensor([[1.0, 2.0, 0.0, -1.0], [1.0, -2.0, 3.0, 1.0]], dtype=torch.float64)
    return TanhNetwork(inputs, torch.stack([shift, shift]), torch.zeros(2, 4, dtype=torch.float64), gradient)


def random_vector(generator: torch.Generator) -> Vector:
    units = int(torch.randint(4, 9, (), generator=generator))
    return torch.randn(units, generator=generator, dtype=torch.float64)


def random_network(generator: torch.Generator) -> TanhNetwork:
    units, layers = (int(torch.randint(*bounds, (), generator=generator)) for bounds in ((4, 9), (2, 5)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return TanhNetwork(normal(units), normal(layers, units, units) / units**0.5, normal(layers, units), normal(units))


def automatic_gradients(network: TanhNetwork, residual: bool) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """By automatic differentiation: the states, the loss's gradient at each, and at each weight."""
    states = [network.inputs.clone().requires_grad_()]
    weights = [weight.clone().requires_grad_() for weight in network.weights]
    with torch.enable_grad():
        for weight, bias in zip(weights, network.biases, strict=True):
            active = (weight @ states[-1] + bias).tanh()
            total = states[-1] + active
            states.append((total - total.mean()) / total.std(correction=0) if residual else active)
        gradients = torch.autograd.grad(network.output_gradient @ states[-1], [*states, *weights])
    return [state.detach() for state in states], list(gradients[: len(states)]), list(gradients[len(states) :])


def relative_error(formula: Tensor, truth: Tensor) -> Statement:
    return Statement(float((formula - truth).norm() / truth.norm()), "=", 0.0, ACCURACY)
