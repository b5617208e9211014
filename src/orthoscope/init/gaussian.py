"""Independent Gaussian weights that keep the variance of a linear layer (LeCun et al., 1998)."""

import torch

from orthoscope.init.weights import WeightLayer, fans, fill_, normal_blocks


def gaussian_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, \text{gain}^2 / \text{fan\_in})$."""
    fan_in, _ = fans(layer)
    fill_(layer, normal_blocks(layer, gain / fan_in**0.5, generator))
