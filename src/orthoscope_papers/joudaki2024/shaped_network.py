r"""The networks that chapter 6 of joudaki2024 trains, and the batches of images they read.

Orthogonal weights, batch norm, activations shaped toward the identity:

$$ X_\ell = \phi(\alpha_\ell\,\mathrm{BN}(W_\ell X_{\ell-1})), \qquad \alpha_\ell = \ell^p, \quad \ell = 1, \dots, L $$

$p$ is the gain exponent, $-0.4$ in the thesis; a linear head follows. BN is `nn.BatchNorm1d` with its scale and shift.
Images are flat, every channel with mean 0 and standard deviation 1.
"""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from orthoscope.data import Dataset
from orthoscope.init import initialize_
from orthoscope.models.blocks import block, linear, vector_norm
from orthoscope_papers.datasets import labeled

Pixels = Float[Tensor, "samples pixels"]
Labels = Int64[Tensor, " samples"]

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
    """Build `depth` hidden layers and a head; module `l` is layer `l + 1`, the last one the head."""
    network, gain = nn.Sequential(), gain_of(exponent)
    for layer, fan_in in enumerate([pixels] + [width] * (depth - 1), start=1):
        shaped = _shaped(FUNCTIONS[activation], gain(layer))
        norm = vector_norm("batch", width, affine=True)
        network.append(block(linear(fan_in, width, bias=False), norm, shaped, 1.0, "norm-activation"))
    network.append(linear(width, classes, bias=False))
    initialize_(network, "orthogonal", generator=generator)
    return network


def hidden_weights(network: nn.Sequential) -> list[Tensor]:
    """Return the square weights, from the second layer to the last before the head."""
    return [layer.weight for layer in network.modules() if isinstance(layer, nn.Linear)][1:-1]


def _shaped(function: Callable[[Tensor], Tensor], gain: float) -> Callable[[Tensor], Tensor]:
    # A lambda in the loop would bind the last layer's gain in all layers.
    def shaped(inputs: Tensor) -> Tensor:
        return function(gain * inputs)

    return shaped


@cache
def dataset(data: str, split: str = "train") -> Dataset:
    """Read a dataset once: every seed of every network draws from it, and CIFAR-10 takes seconds to read."""
    return labeled(data, split)


def image_batch(data: str, samples: int, generator: torch.Generator, split: str = "train") -> tuple[Pixels, Labels]:
    r"""Random images and their classes, $(x - \mu_c)/s_c$ with mean and deviation of channel $c$ over these images.

    The thesis takes those of the whole training set, from which those of a few hundred images differ little.
    """
    images, labels = dataset(data, split).batch(samples, generator)
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    return ((images - mean) / deviation).flatten(1), labels
