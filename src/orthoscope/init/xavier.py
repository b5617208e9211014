"""Gaussian weights between keeping activations and keeping gradients (Glorot & Bengio, 2010)."""

import torch

from orthoscope.init.weights import WeightLayer, fans, fill_, normal_blocks


def xavier_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N\big(0, 2\,\text{gain}^2 / (\text{fan\_in} + \text{fan\_out})\big)$."""
    fill_(layer, normal_blocks(layer, gain * (2 / sum(fans(layer))) ** 0.5, generator))
