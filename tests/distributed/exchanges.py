"""`orthogonalized` for every placement, compared with the same on full tensors."""

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard, distribute_tensor
from training import full

from orthoscope.optim.muon.distributed.exchange import orthogonalized, orthogonalized_updates
from orthoscope.optim.muon.views import MatrixView

# More ranks than matrices in "few"; sizes below the number of ranks, one that is empty on purpose, several types.
CASES: dict[str, list[tuple[tuple[int, ...], MatrixView]]] = {
    "few": [((5, 12), MatrixView())],
    "many": [
        ((3, 17), MatrixView()),
        ((1, 9), MatrixView()),
        ((27, 9), MatrixView(parts=3)),
        ((7, 2, 3, 3), MatrixView()),
        ((4, 6, 2, 2), MatrixView(groups=2, transposed=True)),
        ((3, 5, 4), MatrixView(batched=True)),
        ((9, 3), MatrixView()),
    ],
}
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
compute = partial(orthogonalized_updates, method={})


def layouts() -> dict[str, tuple[DeviceMesh, list[Placement]]]:
    ranks = dist.get_world_size()
    line = init_device_mesh("cpu", (ranks,))
    found: dict[str, tuple[DeviceMesh, list[Placement]]] = {
        "first dimension": (line, [Shard(0)]),
        "second dimension": (line, [Shard(1)]),
        "last dimension": (line, [Shard(-1)]),
        "replicated": (line, [Replicate()]),
    }
    if ranks == 4:
        square = init_device_mesh("cpu", (2, 2))
        found |= {
            "replicas of shards": (square, [Replicate(), Shard(0)]),
            "shards of replicas": (square, [Shard(0), Replicate()]),
            "both dimensions": (square, [Shard(0), Shard(1)]),
            "twice the first": (square, [Shard(0), Shard(0)]),
            "replicas of replicas": (square, [Replicate(), Replicate()]),
        }
    return found


def exchange_errors() -> dict[str, float]:
    """The largest difference to the full computation by case; infinite if placement or type changed."""
    errors = {}
    for case, entries in CASES.items():
        views = [view for _, view in entries] * len(DTYPES)
        updates = [update for dtype in DTYPES for update in _drawn(entries, dtype)]
        expected = compute(updates, views)
        errors[f"{case}, plain"] = _error(orthogonalized(updates, views, compute, dist.group.WORLD), expected, updates)
        for layout, (mesh, placements) in layouts().items():
            given = [distribute_tensor(update, mesh, placements) for update in updates]
            errors[f"{case}, {layout}"] = _error(orthogonalized(given, views, compute), expected, given)
    return errors


def _drawn(entries: list[tuple[tuple[int, ...], MatrixView]], dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape, _ in entries]


def _error(results: list[Tensor], expected: list[Tensor], given: list[Tensor]) -> float:
    """In units of the type's eps."""
    worst = 0.0
    for result, other, update in zip(results, expected, given, strict=True):
        same = result.dtype == update.dtype and result.shape == update.shape
        if not same or getattr(result, "placements", None) != getattr(update, "placements", None):
            return float("inf")
        worst = max(worst, (full(result) - other).abs().max().item() / torch.finfo(other.dtype).eps)
    return worst
