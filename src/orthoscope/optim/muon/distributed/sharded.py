"""DTensors: their slices are sent to the rank that owns the parameter, and the results come back as slices."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from orthoscope.optim.muon.distributed.replicated import Compute, check_agreement, replicated_exchange, shared
from orthoscope.optim.muon.distributed.splits import chunk_sizes, orthogonalization_cost, owners, shard_numels, totals
from orthoscope.optim.muon.views import MatrixView


def dtensors_orthogonalized(
    tensors: Sequence[Tensor], views: Sequence[MatrixView], positions: Sequence[int], compute: Compute
) -> list[Tensor]:
    """`compute` of DTensors of any placement; those of one mesh, mesh dimension and dtype in one exchange.

    `positions` are for `check_agreement`, which precedes every exchange.
    """
    updates = [tensor for tensor in tensors if isinstance(tensor, DTensor)]
    together: dict[tuple[DeviceMesh, int | None, torch.dtype], list[int]] = {}
    results: list[Tensor] = list(updates)
    for i, update in enumerate(updates):
        split = _splitting_dims(update)
        if len(split) > 1 or any(type(update.placements[dim]) is not Shard for dim in split):
            results[i] = _gathered(update, views[i], compute)
        else:
            together.setdefault((update.device_mesh, split[0] if split else None, update.dtype), []).append(i)
    for (mesh, shard_dim, _), members in together.items():
        exchanged = [updates[i] for i in members], [views[i] for i in members]
        replicate_dim = _replicate_dim(mesh, shard_dim)
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


def _splitting_dims(update: DTensor) -> list[int]:
    """The dimensions of the mesh along which ranks hold different elements."""
    mesh = update.device_mesh
    return [dim for dim, p in enumerate(update.placements) if mesh.size(dim) > 1 and not p.is_replicate()]


def _replicate_dim(mesh: DeviceMesh, shard_dim: int | None) -> int | None:
    """The dimension of the mesh along which replicas share the work; None if there is only one replica."""
    return next((dim for dim in range(mesh.ndim) if dim != shard_dim and mesh.size(dim) > 1), None)


def _replicated(
    updates: list[DTensor], views: list[MatrixView], compute: Compute, mesh: DeviceMesh, dim: int | None
) -> list[Tensor]:
    """DTensors that every rank holds in full: the work is shared along one dimension of the mesh, as under DDP."""
    local = [update.to_local() for update in updates]
    done = compute(local, views) if dim is None else replicated_exchange(local, views, compute, mesh.get_group(dim))
    return [_like_dtensor(result, update) for result, update in zip(done, updates, strict=True)]


def _gathered(update: DTensor, view: MatrixView, compute: Compute) -> Tensor:
    """Gather and compute one DTensor on every rank; one at a time, since memory holds few full parameters."""
    mesh = update.device_mesh
    (full,) = compute([update.full_tensor()], [view])
    replicated = DTensor.from_local(full, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return replicated.redistribute(mesh, update.placements)


def _like_dtensor(local: Tensor, original: DTensor) -> DTensor:
    """A local slice as a DTensor placed as the original; shape and stride cannot be inferred from uneven slices."""
    return DTensor.from_local(
        local,
        original.device_mesh,
        original.placements,
        run_check=False,
        shape=original.shape,
        stride=original.stride(),
    )


def sharded_exchange(
    updates: Sequence[DTensor],
    views: Sequence[MatrixView],
    compute: Compute,
    mesh: DeviceMesh,
    shard_dim: int,
    replicate_dim: int | None = None,
) -> list[Tensor]:
    """`compute` of updates of one dtype that one dimension of a mesh shards, by two uneven all_to_all.

    Slices are those of `torch.chunk`: they differ in size and may be empty. If another dimension of the mesh replicates
    them (HSDP), each replica computes its part of the updates, and the slices of the results are shared across
    replicas (`shared`), so that less is computed and sent than if every replica did everything.
    """
    shards, replicas = mesh.size(shard_dim), 1 if replicate_dim is None else mesh.size(replicate_dim)
    costs = [orthogonalization_cost(*v.shape(tuple(u.shape))) for u, v in zip(updates, views, strict=True)]
    owner = owners(costs, replicas * shards)  # the ranks of one replica are consecutive
    replica = 0 if replicate_dim is None else mesh.get_local_rank(replicate_dim)
    here = [i for i, rank in enumerate(owner) if rank // shards == replica]
    results = _computed_by_owners(
        [updates[i] for i in here],
        [views[i] for i in here],
        [owner[i] % shards for i in here],
        compute,
        mesh,
        shard_dim,
    )
    if replicate_dim is not None:
        local = [update.to_local() for update in updates]
        results = shared(results, [rank // shards for rank in owner], local, mesh.get_group(replicate_dim))
    return [_like_dtensor(result, update) for result, update in zip(results, updates, strict=True)]


def _computed_by_owners(
    updates: Sequence[DTensor],
    views: Sequence[MatrixView],
    owner: Sequence[int],
    compute: Compute,
    mesh: DeviceMesh,
    shard_dim: int,
) -> list[Tensor]:
    """This rank's slices of the results, which owners among the ranks of one replica compute from full tensors."""
    if not updates:
        return []
    group, ranks, rank = mesh.get_group(shard_dim), mesh.size(shard_dim), mesh.get_local_rank(shard_dim)
    # In the order of their owners, so that the slices for one rank are contiguous.
    order = sorted(range(len(updates)), key=lambda i: (owner[i], i))
    mine = [i for i in order if owner[i] == rank]
    dims = [_sharded_dim(update, shard_dim) for update in updates]
    numels = [shard_numels(tuple(update.shape), dim, ranks) for update, dim in zip(updates, dims, strict=True)]
    to_owners = list(totals(owner, [numel[rank] for numel in numels], ranks))
    from_holders = [sum(numels[i][k] for i in mine) for k in range(ranks)]

    slices = [updates[i].to_local() for i in order]
    received = _all_to_all(slices, to_owners, from_holders, group)
    whole = _assembled(received, [updates[i].shape for i in mine], [dims[i] for i in mine], ranks)
    del received  # as large as everything this rank owns
    done = compute(whole, [views[i] for i in mine]) if mine else []
    del whole
    sizes = [chunk_sizes(updates[i].shape[dims[i]], ranks) for i in mine]
    pieces = [result.split(list(size), dims[i]) for i, result, size in zip(mine, done, sizes, strict=True)]
    returning = [own[k] for k in range(ranks) for own in pieces] or [slices[0].new_empty(0)]
    returned = _all_to_all(returning, from_holders, to_owners, group)
    results: list[Tensor] = list(slices)
    for i, local, flat in zip(order, slices, returned.split([numels[i][rank] for i in order]), strict=True):
        results[i] = flat.view(local.shape)
    return results


def _sharded_dim(update: DTensor, shard_dim: int) -> int:
    placement = update.placements[shard_dim]
    assert isinstance(placement, Shard), placement
    return placement.dim % update.ndim


def _all_to_all(
    pieces: Sequence[Tensor], to_others: list[int], from_others: list[int], group: dist.ProcessGroup
) -> Tensor:
    """Send `pieces`, which are in the order of the receiving ranks; returns what was received, in rank order."""
    sent = torch.cat([piece.reshape(-1) for piece in pieces])
    received = sent.new_empty(sum(from_others))
    dist.all_to_all_single(received, sent, from_others, to_others, group=group)
    return received


def _assembled(received: Tensor, shapes: Sequence[torch.Size], dims: Sequence[int], ranks: int) -> list[Tensor]:
    """Full tensors from their slices, which are ordered by rank and, within a rank, by tensor."""
    slices: list[list[Tensor]] = [[] for _ in shapes]
    start = 0
    for rank in range(ranks):
        for pieces, shape, dim in zip(slices, shapes, dims, strict=True):
            size = list(shape)
            size[dim] = chunk_sizes(shape[dim], ranks)[rank]
            numel = torch.Size(size).numel()
            pieces.append(received[start : start + numel].view(size))
            start += numel
    return [torch.cat(pieces, dim) for pieces, dim in zip(slices, dims, strict=True)]
