"""DTensors by their layout: sharded by one dimension of a mesh, whole on every rank, or anything else."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.agreement import check_agreement
from orthoscope.optim.sharding.replicated import Compute, replicated_exchange
from orthoscope.optim.sharding.sharded import like_dtensor, sharded_exchange


def layouts_orthogonalized(
    tensors: Sequence[Tensor], views: Sequence[MatrixView], positions: Sequence[int], compute: Compute
) -> list[Tensor]:
    """`compute` of DTensors, together where one exchange serves many: those of one mesh, dimension and dtype.

    `positions` are for `check_agreement`, which is asked before each of these exchanges.
    """
    updates = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    together: dict[tuple[DeviceMesh, int | None, torch.dtype], list[int]] = {}
    results: list[Tensor] = list(updates)
    for i, update in enumerate(updates):
        cut = _cut_by(update)
        if len(cut) > 1 or any(type(update.placements[dim]) is not Shard for dim in cut):
            results[i] = _gathered(update, views[i], compute)
        else:
            together.setdefault((update.device_mesh, cut[0] if cut else None, update.dtype), []).append(i)
    for (mesh, shard_dim, _), members in together.items():
        exchanged = [updates[i] for i in members], [views[i] for i in members]
        replicate_dim = _replicating(mesh, shard_dim)
        for dim in (shard_dim, replicate_dim):
            if dim is not None:
                check_agreement(*exchanged, [positions[i] for i in members], mesh.get_group(dim))
        if shard_dim is None:
            done = _replicated(*exchanged, compute, mesh, replicate_dim)
        else:
            done = sharded_exchange(*exchanged, compute, mesh, shard_dim, replicate_dim)
        for i, result in zip(members, done, strict=True):
            results[i] = result
    return results


def _cut_by(update: DTensor) -> list[int]:
    """The dimensions of the mesh along which ranks hold different numbers."""
    mesh = update.device_mesh
    return [dim for dim, p in enumerate(update.placements) if mesh.size(dim) > 1 and not p.is_replicate()]


def _replicating(mesh: DeviceMesh, shard_dim: int | None) -> int | None:
    """The dimension of the mesh, if any, along which the work on replicas is shared."""
    return next((dim for dim in range(mesh.ndim) if dim != shard_dim and mesh.size(dim) > 1), None)


def _replicated(
    updates: list[DTensor], views: list[MatrixView], compute: Compute, mesh: DeviceMesh, dim: int | None
) -> list[Tensor]:
    """Whole on every rank: shared as under DDP, by one dimension of the mesh if it has one of many ranks."""
    local = [update.to_local() for update in updates]
    done = compute(local, views) if dim is None else replicated_exchange(local, views, compute, mesh.get_group(dim))
    return [like_dtensor(result, update) for result, update in zip(done, updates, strict=True)]


def _gathered(update: DTensor, view: MatrixView, compute: Compute) -> Tensor:
    """Gathered and computed by every rank: one at a time, because a rank has room for few full parameters."""
    mesh = update.device_mesh
    (full,) = compute([update.full_tensor()], [view])
    replicated = DTensor.from_local(full, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return replicated.redistribute(mesh, update.placements)
