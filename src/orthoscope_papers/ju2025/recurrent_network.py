"""A recurrent network whose transition matrix is orthogonal by construction or unconstrained."""

import math
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations import Activation, activation
from orthoscope.init import gaussian_, he_
from orthoscope.init.schemes import scheme_named
from orthoscope.init.weights import fill_
from orthoscope.layers.orthogonal import orthogonal as make_orthogonal
from orthoscope.models.blocks import ModReLU, linear, require_positive

ROTATIONS, MODRELU = "rotations", "modrelu"


class RecurrentNetwork(nn.Module):
    r"""$h_t = \phi(W h_{t-1} + U x_t)$ and $y_t = V h_t + c$, from $h_0 = 0$; batch first, an output at every step.

    Modules are named `inputs` ($U$), `recurrent` ($W$), `activation` and `head` ($V$, $c$), so that an optimizer can
    give `recurrent.parameters()` a learning rate of its own.

    Args:
        in_features: Features of an input $x_t$.
        hidden: Units of the state $h_t$.
        out_features: Features of an output $y_t$.
        activation: "modrelu", with a bias for every unit, or as for `activations.activation_module`.
        orthogonal: Keep $W$ orthogonal under any optimizer, through `layers.orthogonal(map=...)`.
        map: The map to orthogonal matrices, a name of `layers.CHARTS`.
        recurrent_init: Initial $W$: "rotations" (planes turned by uniform angles, Henaff et al., 2016) or a scheme of
            `init.SCHEMES`; with `orthogonal`, the orthogonal matrix nearest to it.
        generator: Source of random numbers; None for torch's global one.
    """

    def __init__(
        self,
        *,
        in_features: int,
        hidden: int = 128,
        out_features: int,
        activation: Activation = MODRELU,
        orthogonal: bool = True,
        map: str = "cayley",
        recurrent_init: str = ROTATIONS,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive(in_features=in_features, hidden=hidden, out_features=out_features)
        self.in_features = in_features
        self.inputs = linear(in_features, hidden, bias=False)
        self.recurrent = linear(hidden, hidden, bias=False)
        self.activation = _activation(activation, hidden)
        self.head = linear(hidden, out_features, bias=True)
        he_(self.inputs, generator=generator)
        gaussian_(self.head, generator=generator)
        nn.init.zeros_(cast(Tensor, self.head.bias))
        if recurrent_init == ROTATIONS:
            fill_(self.recurrent, rotations(hidden, generator).to(self.recurrent.weight).unsqueeze(0))
        else:
            scheme_named(recurrent_init)(self.recurrent, 1.0, generator)
        if orthogonal:
            make_orthogonal(self.recurrent, "weight", map, start="nearest")

    def forward(self, inputs: Float[Tensor, "samples steps in"]) -> Float[Tensor, "samples steps out"]:
        """Outputs at every step of a batch of sequences."""
        if inputs.ndim != 3 or inputs.shape[-1] != self.in_features:
            raise ValueError(
                f"this network takes sequences (samples, steps, {self.in_features}), got a batch of shape "
                f"{tuple(inputs.shape)}: put the samples first, and give every step {self.in_features} features"
            )
        # Read once: an orthogonal weight is recomputed at every access.
        transition = self.recurrent.weight.mT
        driven = self.inputs(inputs).unbind(1)
        hidden = torch.zeros_like(driven[0]) if driven else inputs.new_zeros(len(inputs), len(transition))
        states = []
        for drive in driven:
            hidden = self.activation(torch.addmm(drive, hidden, transition))
            states.append(hidden)
        return self.head(torch.stack(states, 1) if states else hidden.unsqueeze(1)[:, :0])


def rotations(size: int, generator: torch.Generator | None = None) -> Float[Tensor, "size size"]:
    r"""Rotation of the planes $(2i, 2i+1)$ by $\theta_i \sim U(-\pi, \pi)$; an odd last coordinate is fixed."""
    device = generator.device if generator is not None else None
    angles = math.pi * (2 * torch.rand(size // 2, generator=generator, dtype=torch.float64, device=device) - 1)
    matrix = torch.eye(size, dtype=torch.float64, device=device)
    first = torch.arange(0, size - 1, 2, device=device)
    second = first + 1
    matrix[first, first] = matrix[second, second] = angles.cos()
    matrix[second, first] = angles.sin()
    matrix[first, second] = -angles.sin()
    return matrix


def _activation(choice: Activation, units: int) -> nn.Module:
    return ModReLU(units) if isinstance(choice, str) and choice == MODRELU else activation(choice)
