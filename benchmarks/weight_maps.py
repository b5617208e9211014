"""What it costs to produce an orthogonal weight and to take a gradient through it: ours and the peers', in turns."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import geotorch
import torch
from orthogonium import reparametrizers
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from fasth import fasth_product
from orthoscope.layers import orthogonal
from orthoscope.linalg import haar, orthonormality_error
from timing import Cost, alternating, product_seconds

SHAPES = [(32, 32), (128, 128), (512, 512), (1024, 1024), (2048, 2048), (2048, 256), (4096, 64)]
MAPS = ["householder", "cayley", "exponential", "givens"]
FEW = 1 << 20  # elements from which on fewer rounds do
LARGEST_EXPONENTIAL = 2048  # rows: beyond, one call of torch's takes minutes

Weight = Callable[[], Tensor]


@dataclass(frozen=True)
class Row:
    """One method at one shape: forward and backward, float32."""

    rows: int
    columns: int
    method: str
    milliseconds: float
    products: float  # in products (rows x columns)(columns x columns)
    peak_mebibytes: float | None
    error: float  # max |WᵀW - I|
    calls: int


def linear(rows: int, columns: int) -> nn.Linear:
    """A layer whose weight is already orthonormal, so that every library starts from the same matrix."""
    layer = nn.Linear(columns, rows, bias=False)
    with torch.no_grad():
        layer.weight.copy_(haar(rows, columns, generator=torch.Generator().manual_seed(0)))
    return layer


def at_unit_angle_(layer: nn.Linear) -> nn.Linear:
    """Coordinates whose skew matrix has spectral norm 1: at zero some maps have nothing to compute."""
    generator = torch.Generator().manual_seed(1)
    for parameter in layer.parameters():
        rows, columns = parameter.shape
        lower = torch.randn(rows, columns, generator=generator).tril(-1)
        square = lower[:columns] - lower[:columns].mT
        size = torch.linalg.matrix_norm(square, 2) if rows == columns else torch.linalg.matrix_norm(lower, 2)
        with torch.no_grad():
            parameter.copy_(lower / size)
    return layer


def ours(rows: int, columns: int, name: str) -> Weight:
    layer = orthogonal(linear(rows, columns), map=name)
    layer = at_unit_angle_(layer) if name in ("cayley", "exponential") else layer
    return lambda: layer.weight


def torch_map(rows: int, columns: int, name: str) -> Weight:
    layer = parametrizations.orthogonal(linear(rows, columns), orthogonal_map=name)
    layer = layer if name == "householder" else at_unit_angle_(layer)
    return lambda: layer.weight


def geotorch_map(rows: int, columns: int, name: str) -> Weight:
    layer = linear(rows, columns)
    geotorch.orthogonal(layer, "weight", triv=name)
    at_unit_angle_(layer)
    return lambda: layer.weight


def orthogonium_map(rows: int, columns: int, kind: type[nn.Module]) -> Weight:
    layer = linear(rows, columns)
    parametrize.register_parametrization(layer, "weight", kind((rows, columns)), unsafe=True)
    return lambda: layer.weight


def fasth(rows: int, columns: int) -> Weight:
    vectors = nn.Parameter(torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).tril())
    weight: Weight = lambda: fasth_product(vectors)  # noqa: E731
    return weight


def one_rotation_at_a_time(rows: int, columns: int) -> Weight:
    """Every Givens rotation by itself, as the formula is usually written."""
    pairs = [(i, j) for i in range(columns) for j in range(i + 1, rows)]
    angles = nn.Parameter(torch.randn(len(pairs), generator=torch.Generator().manual_seed(1)))

    def product() -> Tensor:
        frame = torch.eye(rows, columns)
        for angle, (i, j) in zip(angles.unbind(), pairs, strict=True):
            pair = torch.stack([frame[i], frame[j]])
            turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
            frame = frame.index_copy(0, torch.tensor([i, j]), turn @ pair)
        return frame

    return product


def candidates(rows: int, columns: int) -> dict[str, Weight]:
    """By name; a peer is left out only where one call takes minutes or gigabytes."""
    found = {f"orthoscope {name}": ours(rows, columns, name) for name in MAPS}
    found |= {f"torch {name}": torch_map(rows, columns, name) for name in ("householder", "cayley")}
    if rows <= LARGEST_EXPONENTIAL:
        found["torch matrix_exp"] = torch_map(rows, columns, "matrix_exp")
    found["geotorch cayley"] = geotorch_map(rows, columns, "cayley")
    if rows <= 512:
        found["geotorch expm"] = geotorch_map(rows, columns, "expm")
    kinds = {"Björck": "Bjorck", "QR": "QR", "Cholesky": "Cholesky", "exponential": "Exponential"}
    for name, kind in kinds.items():
        parametrization = getattr(reparametrizers, f"Batched{kind}Orthogonalization")
        found[f"orthogonium {name}"] = orthogonium_map(rows, columns, parametrization)
    if rows == columns <= 1024:
        found["FastH"] = fasth(rows, columns)
    if rows <= 128:
        found["Givens, one at a time"] = one_rotation_at_a_time(rows, columns)
    return found


def gradient_step(weight: Weight, gradient: Tensor) -> None:
    produced = weight()
    produced.backward(gradient)


def table(shapes: list[tuple[int, int]] = SHAPES) -> list[Row]:
    """Every method at every shape."""
    return [row for rows, columns in shapes for row in _measured(rows, columns)]


def _measured(rows: int, columns: int) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peers warn of torch's own deprecations
        weights = candidates(rows, columns)
        gradient = torch.randn(rows, columns, generator=torch.Generator().manual_seed(2))
        steps = {name: partial(gradient_step, weight, gradient) for name, weight in weights.items()}
        costs = alternating(steps, rounds=15 if rows * columns <= FEW // 4 else 5, patience=10.0)
        unit = product_seconds(rows, columns, columns)
        return [_row(rows, columns, name, costs[name], unit, weights[name]()) for name in weights]


def _row(rows: int, columns: int, name: str, cost: Cost, unit: float, weight: Tensor) -> Row:
    return Row(
        rows=rows,
        columns=columns,
        method=name,
        milliseconds=cost.seconds * 1e3,
        products=cost.seconds / unit,
        peak_mebibytes=None if cost.peak_bytes is None else cost.peak_bytes / 2**20,
        error=float(orthonormality_error(weight.detach())),
        calls=cost.calls,
    )
