"""Gaussian weights that keep the mean square through a ReLU (He et al., 2015)."""

import torch

from orthoscope.init.gaussian import gaussian_
from orthoscope.init.weights import WeightLayer


def he_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, 2\,\text{gain}^2 / \text{fan\_in})$: the 2 undoes what a ReLU cuts off."""
    gaussian_(layer, gain * 2**0.5, generator)
