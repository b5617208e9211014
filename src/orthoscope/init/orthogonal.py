"""Random orthogonal weights, uniform in the sense of Haar (Saxe et al., 2014)."""

import torch

from orthoscope.init.weights import WeightLayer, blocks_shape, fill_
from orthoscope.linalg import haar


def orthogonal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W = \text{gain} \cdot Q$ with $QQ^\top = I$ ($Q^\top Q = I$, if $W$ is taller than wide), $Q$ Haar.

    Each group of a grouped convolution is orthogonal on its own, which is what makes the whole
    block-diagonal matrix orthogonal.
    """
    groups, out, fan_in = blocks_shape(layer)
    weight = layer.weight
    device = generator.device if generator is not None else weight.device
    frames = haar(out, fan_in, groups, generator=generator, dtype=weight.dtype, device=device)
    fill_(layer, gain * frames)
