"""Normalisations by name, for vectors `(samples, units)` and maps `(samples, channels, height, width)`."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn


class BatchRootMeanSquare(nn.Module):
    r"""Divides every unit by its root mean square over the batch (and the positions of a map).

    $$ y_{ij} = x_{ij} \Big/ \sqrt{\tfrac1n \sum_k x_{kj}^2} $$

    No centring and no ε: the batch normalisation of daneshmand2021, eq. (1), up to the constant $\sqrt n$.
    A unit that is exactly 0 on the whole batch becomes NaN.
    """

    def forward(self, inputs: Float[Tensor, "samples units *map"]) -> Float[Tensor, "samples units *map"]:
        others = [0, *range(2, inputs.ndim)]
        return inputs / inputs.square().mean(others, keepdim=True).sqrt()


class MapRootMeanSquare(nn.Module):
    r"""RMS normalisation of a feature map: divides every sample by its root mean square over all its entries.

    $$ y_i = x_i \Big/ \sqrt{\operatorname{mean}(x_i^2) + \epsilon} $$

    with ε the machine epsilon, as in `nn.RMSNorm`.
    """

    def forward(self, inputs: Float[Tensor, "samples units *map"]) -> Float[Tensor, "samples units *map"]:
        power = inputs.square().mean(list(range(1, inputs.ndim)), keepdim=True)
        return inputs * (power + torch.finfo(inputs.dtype).eps).rsqrt()


Factory = Callable[[int, bool], nn.Module]

VECTOR_NORMS: dict[str, Factory] = {
    "none": lambda features, affine: nn.Identity(),
    "batch": lambda features, affine: nn.BatchNorm1d(features, affine=affine),
    "batch-uncentred": lambda features, affine: BatchRootMeanSquare(),
    "layer": lambda features, affine: nn.LayerNorm(features, elementwise_affine=affine),
    "rms": lambda features, affine: nn.RMSNorm(features, elementwise_affine=affine),
}

MAP_NORMS: dict[str, Factory] = {
    "none": lambda features, affine: nn.Identity(),
    "batch": lambda features, affine: nn.BatchNorm2d(features, affine=affine),
    "batch-uncentred": lambda features, affine: BatchRootMeanSquare(),
    # One group of all channels: mean and variance of a whole sample.
    "layer": lambda features, affine: nn.GroupNorm(1, features, affine=affine),
    "rms": lambda features, affine: MapRootMeanSquare(),
}


def vector_norm(name: str, features: int, affine: bool = False) -> nn.Module:
    """The normalisation of `(samples, features)`.

    Without learnable scale and shift unless asked, so that the theory, which has none, holds during
    training too; at initialisation the two are the same function.
    """
    return _factory(VECTOR_NORMS, name)(features, affine)


def map_norm(name: str, features: int, affine: bool = False) -> nn.Module:
    """The normalisation of `(samples, features, height, width)`; `affine` as for vectors."""
    return _factory(MAP_NORMS, name)(features, affine)


def _factory(table: dict[str, Factory], name: str) -> Factory:
    if name not in table:
        raise ValueError(f"unknown normalisation {name!r}: choose one of {', '.join(table)}")
    return table[name]
