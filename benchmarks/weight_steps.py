"""What one step of an optimizer on the Stiefel manifold costs, all matrices included: ours and the peers', in turns."""

from collections.abc import Callable
from dataclasses import dataclass

import geoopt
import pogo
import torch
from pogo import base
from torch import Tensor, nn

from orthoscope.linalg import haar, orthonormality_error
from orthoscope.manifolds import Stiefel
from orthoscope.optim import Landing, RiemannianAdam, RiemannianSGD
from timing import alternating, product_seconds

# Number of matrices, rows, columns.
SETS = {
    "12 of 512x512, 4 of 2048x512, 2 of 1024x1024": [(12, 512, 512), (4, 2048, 512), (2, 1024, 1024)],
    "200 of 32x32": [(200, 32, 32)],
    "64 of 256x64": [(64, 256, 64)],
}
STEP = 1e-4  # how far an entry moves, root mean square: the same for every optimizer


@dataclass(frozen=True)
class Row:
    """One optimizer on one set of matrices, float32."""

    matrices: str
    method: str
    milliseconds: float
    products: float  # in one product (columns x rows)(rows x columns) for every matrix
    peak_mebibytes: float | None
    error: float  # max |WᵀW - I| after the steps
    calls: int


def frames(sizes: list[tuple[int, int, int]]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [haar(rows, columns, generator=generator) for count, rows, columns in sizes for _ in range(count)]


def parameters(sizes: list[tuple[int, int, int]]) -> list[nn.Parameter]:
    return with_gradients([nn.Parameter(frame) for frame in frames(sizes)])


def with_gradients(found: list[nn.Parameter]) -> list[nn.Parameter]:
    """Gaussian gradients of entries of variance 1, the same in every library."""
    generator = torch.Generator().manual_seed(1)
    for parameter in found:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return found


def groups(found: list[nn.Parameter]) -> list[dict[str, object]]:
    """For optimizers whose step has the length of the learning rate over all entries: one group a shape."""
    sizes = sorted({parameter.numel() for parameter in found})
    return [{"params": [p for p in found if p.numel() == size], "lr": STEP * size**0.5} for size in sizes]


def geoopt_parameters(sizes: list[tuple[int, int, int]], canonical: bool) -> list[nn.Parameter]:
    manifold = geoopt.Stiefel(canonical=canonical)
    return with_gradients([geoopt.ManifoldParameter(frame, manifold=manifold) for frame in frames(sizes)])


def pogo_parameters(sizes: list[tuple[int, int, int]]) -> list[nn.Parameter]:
    """As POGO wants them: a batch of one each."""
    return with_gradients([nn.Parameter(frame.unsqueeze(0)) for frame in frames(sizes)])


def optimizers(sizes: list[tuple[int, int, int]]) -> dict[str, tuple[torch.optim.Optimizer, list[nn.Parameter]]]:
    """By name, each with parameters of its own."""
    found: dict[str, tuple[torch.optim.Optimizer, list[nn.Parameter]]] = {}
    for name, kind, options in (
        ("RiemannianSGD", RiemannianSGD, {}),
        ("RiemannianSGD, momentum", RiemannianSGD, {"momentum": 0.9}),
        ("RiemannianAdam", RiemannianAdam, {}),
        ("Landing", Landing, {}),
    ):
        own = parameters(sizes)
        group = {"params": own, "manifold": Stiefel()}
        found[f"orthoscope {name}"] = (kind([group], lr=STEP, **options), own)
    for canonical in (False, True):
        metric = "canonical" if canonical else "Euclidean"
        own = geoopt_parameters(sizes, canonical)
        found[f"geoopt SGD, {metric}"] = (geoopt.optim.RiemannianSGD(own, lr=STEP), own)
        own = geoopt_parameters(sizes, canonical)
        found[f"geoopt SGD, {metric}, momentum"] = (geoopt.optim.RiemannianSGD(own, lr=STEP, momentum=0.9), own)
        own = geoopt_parameters(sizes, canonical)
        found[f"geoopt Adam, {metric}"] = (geoopt.optim.RiemannianAdam(groups(own)), own)
    own = pogo_parameters(sizes)
    found["POGO SGD"] = (pogo.POGO(own, base.SGD(), STEP, rows=False), own)
    own = pogo_parameters(sizes)
    found["POGO VectorAdam"] = (pogo.POGO(groups(own), base.VectorAdam(), STEP, rows=False), own)
    own = parameters(sizes)
    found["torch AdamW, free"] = (torch.optim.AdamW(own, lr=STEP), own)
    return found


def table() -> list[Row]:
    """Every optimizer on every set."""
    return [row for name, sizes in SETS.items() for row in _measured(name, sizes)]


def _measured(name: str, sizes: list[tuple[int, int, int]]) -> list[Row]:
    with_parameters = optimizers(sizes)
    steps: dict[str, Callable[[], object]] = {method: made[0].step for method, made in with_parameters.items()}
    costs = alternating(steps, rounds=9, patience=4.0)
    unit = sum(count * product_seconds(columns, rows, columns) for count, rows, columns in sizes)
    return [
        Row(
            matrices=name,
            method=method,
            milliseconds=costs[method].seconds * 1e3,
            products=costs[method].seconds / unit,
            peak_mebibytes=None if (peak := costs[method].peak_bytes) is None else peak / 2**20,
            error=max(float(orthonormality_error(parameter.detach()).max()) for parameter in own),
            calls=costs[method].calls,
        )
        for method, (_, own) in with_parameters.items()
    ]
