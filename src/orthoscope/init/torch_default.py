"""What `nn.Linear` and `nn.Conv2d` do by themselves, drawn from a generator of the caller's choice."""

import torch
from torch import Tensor

from orthoscope.init.weights import WeightLayer, fans, fill_, weight_blocks


def torch_default_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \text{gain} \cdot U(-b, b)$ and bias $\sim U(-b, b)$, with $b = 1/\sqrt{\text{fan\_in}}$.

    That is `kaiming_uniform_(a=√5)`: a variance of 1/(3 fan_in), so a deep ReLU net loses a factor 6 a layer.
    """
    bound = fans(layer)[0] ** -0.5
    fill_(layer, gain * _uniform(weight_blocks(layer), bound, generator))
    if layer.bias is not None:
        with torch.no_grad():
            layer.bias.copy_(_uniform(layer.bias, bound, generator))


def _uniform(like: Tensor, bound: float, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else like.device
    return bound * (2 * torch.rand(like.shape, generator=generator, dtype=like.dtype, device=device) - 1)
