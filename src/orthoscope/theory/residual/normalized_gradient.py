r"""Gradients of a fully connected network with a skip connection and a normalization in every layer, in closed form.

$$ z^l = W^lx^{l-1} + b^l, \qquad \hat x^l = x^{l-1} + f(z^l), \qquad x^l = \frac{\hat x^l - \mu^l}{\sigma^l} $$

$\mu^l$ and $\sigma^l$ are mean and standard deviation over the $N$ *units* of one sample: what the source calls batch
normalization is, in its formulas, layer normalization without gain, bias and $\varepsilon$.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Pointwise
from orthoscope.theory.sources import source


@dataclass(frozen=True)
class NormalizedResidualGradients:
    r"""Derivatives of a loss $L$, and the states $x^0, \dots, x^L$ they were taken at.

    Attributes:
        states: $x^0, \dots, x^L$.
        by_state: $\partial L/\partial x^l$.
        by_bias: $\delta^l = \partial L/\partial z^l$.
        by_weight: $\nabla W^l$.
    """

    states: Float[Tensor, "states units"]
    by_state: Float[Tensor, "states units"]
    by_bias: Float[Tensor, "layers units"]
    by_weight: Float[Tensor, "layers units units"]


@source("lu2024", "equation (13), P over 1", assumes="nothing: a projection")
def without_mean(vector: Float[Tensor, "*batch units"]) -> Float[Tensor, "*batch units"]:
    r"""What is orthogonal to $\mathbf 1$, the vector less its mean: $P_{\mathbf 1^\perp}v = v - \bar v\,\mathbf 1$.

    Args:
        vector: $v$.
    """
    vector = vector.double()
    return vector - vector.mean(-1, keepdim=True)


@source("lu2024", "equation (13), P over x", assumes="the direction is not zero")
def without_direction(
    vector: Float[Tensor, "*batch units"], direction: Float[Tensor, "*batch units"]
) -> Float[Tensor, "*batch units"]:
    r"""What is orthogonal to a direction $x$: $P_{x^\perp}v = v - \frac{(v,x)}{(x,x)}x$.

    Args:
        vector: $v$.
        direction: $x$, not zero.
    """
    vector, direction = vector.double(), direction.double()
    energy = direction.square().sum(-1, keepdim=True)
    if bool((energy == 0).any()):
        raise ValueError("the zero vector has no direction to take out")
    return vector - (vector * direction).sum(-1, keepdim=True) / energy * direction


@source("lu2024", "equation (13)", assumes="normalization over the units of one sample, no gain, no epsilon")
def gradient_before_normalization(
    gradient: Float[Tensor, "*batch units"],
    normalized: Float[Tensor, "*batch units"],
    deviation: Float[Tensor, "*batch"],
) -> Float[Tensor, "*batch units"]:
    r"""From $g = \partial L/\partial x$ to $\partial L/\partial\hat x = P_{\mathbf 1^\perp}P_{x^\perp}\,g/\sigma$.

    The two projections commute, and together remove both directions, because a normalized $x$ is orthogonal to
    $\mathbf 1$; for other vectors they do not.

    Args:
        gradient: $g$.
        normalized: $x$.
        deviation: $\sigma$ of $\hat x$.
    """
    return without_mean(without_direction(gradient, normalized)) / deviation.unsqueeze(-1)


@source(
    "lu2024",
    "Theorem 3, equations (16)-(18) (corrected)",
    assumes="x^l = N(x^{l-1} + f(W^l x^{l-1} + b^l)), N over the units of one sample, equal widths",
)
def normalized_residual_gradients(
    inputs: Float[Tensor, "units"],
    weights: Float[Tensor, "layers units units"],
    biases: Float[Tensor, "layers units"],
    output_gradient: Float[Tensor, "units"],
    *,
    activation: Pointwise,
    slope: Pointwise,
) -> NormalizedResidualGradients:
    r"""All derivatives of a loss whose gradient at the last state is given.

    $$ \hat g^l = \tfrac1{\sigma^l} P_{\mathbf 1^\perp}P_{x^{l\perp}}\,g^l, \qquad \delta^l = f'(z^l)\odot\hat g^l $$
    $$ \nabla W^l = \delta^l (x^{l-1})^\top, \qquad
       g^{l-1} = (I + W^{l\top}\operatorname{diag} f'(z^l))\,\hat g^l = \hat g^l + W^{l\top}\delta^l $$

    with $g^l = \partial L/\partial x^l$. $\nabla W^l$ has rank one: its row $i$ is $\delta^l_i\,x^{l-1}$.

    Args:
        inputs: $x^0$.
        weights: $W^l$.
        biases: $b^l$.
        output_gradient: $g^L$.
        activation: $f$, an elementwise function of tensors.
        slope: $f'$.
    """
    states, drives, deviations = _forward(inputs.double(), weights.double(), biases.double(), activation)
    gradients, deltas = [output_gradient.double()], []
    for layer in reversed(range(len(weights))):
        before = gradient_before_normalization(gradients[-1], states[layer + 1], deviations[layer])
        deltas.append(slope(drives[layer]) * before)
        gradients.append(before + weights[layer].double().mT @ deltas[-1])
    delta = torch.stack(deltas[::-1])
    weight_gradients = delta.unsqueeze(-1) * states[:-1].unsqueeze(-2)
    return NormalizedResidualGradients(states, torch.stack(gradients[::-1]), delta, weight_gradients)


def _forward(
    state: Float[Tensor, "units"],
    weights: Float[Tensor, "layers units units"],
    biases: Float[Tensor, "layers units"],
    activation: Pointwise,
) -> tuple[Float[Tensor, "states units"], Float[Tensor, "layers units"], Float[Tensor, "layers"]]:
    r"""$x^0, \dots, x^L$; $z^1, \dots, z^L$; $\sigma^1, \dots, \sigma^L$."""
    if len(weights) < 1:
        raise ValueError("a network without layers has no gradients: give at least one weight matrix")
    states, drives, deviations = [state], [], []
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True), start=1):
        drives.append(weight @ states[-1] + bias)
        total = states[-1] + activation(drives[-1])
        deviations.append(total.std(correction=0))
        if not deviations[-1] > 0:
            raise ValueError(f"all units of layer {layer} are equal before normalization: it would divide by zero")
        states.append(without_mean(total) / deviations[-1])
    return torch.stack(states), torch.stack(drives), torch.stack(deviations)
