"""The one table of maps, shapes and types: a map that joins `CHARTS` earns every law of this folder."""

import math

import torch
from torch import Tensor, nn

from orthoscope.layers import CHARTS, OrthogonalParametrization, orthogonal
from orthoscope.linalg import haar, orthonormality_error, polar_factor

MAPS = list(CHARTS)
COMPLEX_MAPS = [map for map, chart in CHARTS.items() if chart.allows_complex]

# Real weights for every map, complex ones where the map allows.
KINDS = [(map, torch.float32) for map in MAPS] + [(map, torch.complex64) for map in COMPLEX_MAPS]

# (out, in) of a linear layer.
SHAPES = {"square": (6, 6), "tall": (7, 4), "wide": (4, 7), "column": (5, 1)}


def rounding(dtype: torch.dtype, rows: int = 8) -> float:
    """What a test allows: the entries of a weight rounded to its type, and a few roundings on the way there."""
    computed = torch.promote_types(dtype, torch.float32)
    return 2 * torch.finfo(dtype).eps + 8 * math.sqrt(rows) * torch.finfo(computed).eps


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def orthonormal(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    if dtype.is_complex:
        return polar_factor(torch.randn(shape, dtype=torch.complex128, generator=seeded(seed))).to(dtype)
    *batch, rows, columns = shape
    return haar(rows, columns, *batch, generator=seeded(seed), dtype=torch.float64).to(dtype)


def linear(map: str, shape: tuple[int, int], dtype: torch.dtype = torch.float32, seed: int = 0, **options) -> nn.Linear:
    """An orthogonal `nn.Linear` with a Haar weight."""
    layer = nn.Linear(shape[1], shape[0], dtype=dtype)
    with torch.no_grad():
        layer.bias.zero_()
        layer.weight.copy_(orthonormal(shape, dtype, seed))
    return orthogonal(layer, map=map, **options)


def parametrization_of(layer: nn.Module, name: str = "weight") -> OrthogonalParametrization:
    return layer.parametrizations[name][0]


def coordinates_of(layer: nn.Module, name: str = "weight") -> nn.Parameter:
    return layer.parametrizations[name].original


def error(weight: Tensor) -> float:
    """max |W'W - I| over a batch of matrices."""
    return orthonormality_error(weight.detach()).max().item()


def train(layer: nn.Module, steps: int = 3, optimizer: torch.optim.Optimizer | None = None) -> None:
    """A few steps towards a random target of the layer's weight."""
    optimizer = optimizer or torch.optim.SGD(layer.parameters(), lr=0.1)
    target = torch.randn(layer.weight.shape, generator=seeded(9), dtype=torch.float32).to(layer.weight.dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        (layer.weight - target).abs().square().sum().backward()
        optimizer.step()


def plain(rows: int, columns: int, seed: int = 0) -> nn.Linear:
    layer = nn.Linear(columns, rows)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(rows, columns, generator=seeded(seed)))
    return layer


def close(a: Tensor, b: Tensor, slack: float = 1.0) -> bool:
    return bool((a.detach() - b.detach()).abs().max() <= slack * rounding(a.dtype))
