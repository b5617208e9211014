r"""The networks that chapter 6 trains: orthogonal weights, batch norm, activations shaped toward the identity.

$$ X_\ell = \phi(\alpha_\ell\,\mathrm{BN}(W_\ell X_{\ell-1})), \qquad \alpha_\ell = \ell^p, \quad \ell = 1, \dots, L $$

$p$ is the gain exponent, $-0.4$ in the thesis; a linear head follows. BN is `nn.BatchNorm1d` with its scale and shift.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from orthoscope.init import initialise_
from orthoscope.models.blocks import block, linear
from orthoscope.models.normalisations import vector_norm

EXPONENT = -0.4  # of the gain over layers, as in the public notebook
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": torch.positive,
    "tanh": torch.tanh,
    "sin": torch.sin,
}


def gain_of(exponent: float) -> Callable[[int], float]:
    r"""$\ell \mapsto \ell^p$."""

    def gain(layer: int) -> float:
        return float(layer) ** exponent

    return gain


def shaped_network(
    pixels: int, classes: int, *, width: int, depth: int, activation: str, exponent: float, generator: torch.Generator
) -> nn.Sequential:
    """`depth` hidden layers and a head; module `l` is layer `l + 1`, the last one the head."""
    network, gain = nn.Sequential(), gain_of(exponent)
    for layer, fan_in in enumerate([pixels] + [width] * (depth - 1), start=1):
        shaped = _shaped(FUNCTIONS[activation], gain(layer))
        norm = vector_norm("batch", width, affine=True)
        network.append(block(linear(fan_in, width, bias=False), norm, shaped, 1.0, "norm-activation"))
    network.append(linear(width, classes, bias=False))
    initialise_(network, "orthogonal", generator=generator)
    return network


def hidden_weights(network: nn.Sequential) -> list[Tensor]:
    """The square weights, from the second layer to the last before the head."""
    return [layer.weight for layer in network.modules() if isinstance(layer, nn.Linear)][1:-1]


def _shaped(function: Callable[[Tensor], Tensor], gain: float) -> Callable[[Tensor], Tensor]:
    # A function of its own: a lambda in the loop would see the last layer's gain in all layers.
    def shaped(inputs: Tensor) -> Tensor:
        return function(gain * inputs)

    return shaped
