"""The layers that a scheme fills, and their weights as stacks of matrices, one a group."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize

from orthoscope.init.sharded import whole, write_
from orthoscope.linalg import group_matrices, weight_of_group_matrices

WeightLayer = nn.Linear | _ConvNd


def weight_blocks(layer: WeightLayer) -> Float[Tensor, "groups out fan_in"]:
    """The weight as one matrix `(out, in·k·k)` for every group: a grouped convolution is block diagonal."""
    return group_matrices(whole(layer.weight.detach()), _groups(layer), _is_transposed(layer))


def blocks_shape(layer: WeightLayer) -> tuple[int, int, int]:
    """`(groups, out, fan_in)` of `weight_blocks`, without gathering a weight that is sharded."""
    shadow = torch.empty(layer.weight.shape, device="meta")
    groups, out, fan_in = group_matrices(shadow, _groups(layer), _is_transposed(layer)).shape
    return groups, out, fan_in


@torch.no_grad()
def fill_(layer: WeightLayer, blocks: Float[Tensor, "groups out fan_in"]) -> None:
    """Write the matrices of `weight_blocks` back into the layer's weight."""
    weight = layer.weight
    filters = weight_of_group_matrices(blocks, weight.shape, _is_transposed(layer))
    if parametrize.is_parametrized(layer, "weight"):
        # `weight` is computed here: writing into it would be lost, assigning reaches its source.
        layer.weight = filters.to(weight)
    else:
        write_(weight, filters)


def normal_blocks(
    layer: WeightLayer, std: float, generator: torch.Generator | None = None
) -> Float[Tensor, "groups out fan_in"]:
    r"""Independent $\mathcal N(0, \text{std}^2)$, shaped as `weight_blocks`, on the generator's device."""
    weight = layer.weight
    device = generator.device if generator is not None else weight.device
    return std * torch.randn(blocks_shape(layer), generator=generator, dtype=weight.dtype, device=device)


def fans(layer: WeightLayer) -> tuple[int, int]:
    r"""How many inputs an output sees, and how many outputs an input reaches, inside one group.

    $$ \text{fan\_in} = \frac{\text{in}}{\text{groups}} \prod k, \qquad
       \text{fan\_out} = \frac{\text{out}}{\text{groups}} \prod k $$

    Strides are ignored, as everybody does; the fan out of a grouped convolution is smaller than torch's,
    which forgets the groups.
    """
    _, out, fan_in = blocks_shape(layer)
    return fan_in, out * math.prod(layer.weight.shape[2:])


def _groups(layer: WeightLayer) -> int:
    return layer.groups if isinstance(layer, _ConvNd) else 1


def _is_transposed(layer: WeightLayer) -> bool:
    return isinstance(layer, _ConvNd) and layer.transposed
