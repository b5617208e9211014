"""What `nn.Linear` and `nn.Conv2d` do by themselves, drawn from a generator of the caller's choice."""

from collections.abc import Sequence

import torch
from torch import Tensor

from orthoscope.init.sharded import write_
from orthoscope.init.weights import WeightLayer, blocks_shape, fans, fill_


def torch_default_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \text{gain} \cdot U(-b, b)$ and bias $\sim U(-b, b)$, with $b = 1/\sqrt{\text{fan\_in}}$.

    That is `kaiming_uniform_(a=√5)`: a variance of 1/(3 fan_in), so a deep ReLU net loses a factor 6 a layer.
    """
    bound = fans(layer)[0] ** -0.5
    fill_(layer, gain * _uniform(blocks_shape(layer), layer.weight, bound, generator))
    if layer.bias is not None:
        write_(layer.bias, _uniform(layer.bias.shape, layer.bias, bound, generator))


def _uniform(shape: Sequence[int], like: Tensor, bound: float, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else like.device
    return bound * (2 * torch.rand(tuple(shape), generator=generator, dtype=like.dtype, device=device) - 1)
