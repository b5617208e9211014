"""Parameters of which every rank holds a slice (FSDP2, HSDP): slices travel to the owner, and back as slices."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.ownership import orthogonalization_cost, owners
from orthoscope.optim.sharding.replicated import Compute, shared
from orthoscope.optim.sharding.splits import chunk_sizes, shard_numels, totals


def sharded_exchange(
    updates: Sequence[DTensor],
    views: Sequence[MatrixView],
    compute: Compute,
    mesh: DeviceMesh,
    shard_dim: int,
    replicate_dim: int | None = None,
) -> list[Tensor]:
    """`compute` of updates of one dtype that one dimension of a mesh shards: two uneven all_to_all for all shapes.

    Slices are those of `torch.chunk`, so they differ in size and may be empty. If another dimension of the mesh
    replicates them (HSDP), each replica computes its part of the updates, and the slices of the results are shared
    across replicas by `shared`: less is computed and less is sent than if every replica did everything.
    """
    shards, replicas = mesh.size(shard_dim), 1 if replicate_dim is None else mesh.size(replicate_dim)
    costs = [orthogonalization_cost(*v.shape(tuple(u.shape))) for u, v in zip(updates, views, strict=True)]
    owner = owners(costs, replicas * shards)  # ranks of one replica are neighbours
    replica = 0 if replicate_dim is None else mesh.get_local_rank(replicate_dim)
    here = [i for i, rank in enumerate(owner) if rank // shards == replica]
    results = _exchanged(
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
    return [like_dtensor(result, update) for result, update in zip(results, updates, strict=True)]


def like_dtensor(local: Tensor, original: DTensor) -> DTensor:
    """A local slice as a DTensor of the same layout; shape and stride are given, because uneven slices hide them."""
    return DTensor.from_local(
        local,
        original.device_mesh,
        original.placements,
        run_check=False,
        shape=original.shape,
        stride=original.stride(),
    )


def _exchanged(
    updates: Sequence[DTensor],
    views: Sequence[MatrixView],
    owner: Sequence[int],
    compute: Compute,
    mesh: DeviceMesh,
    shard_dim: int,
) -> list[Tensor]:
    """This rank's slices of the results, computed in whole by their owners among the ranks of one replica."""
    if not updates:
        return []
    group, ranks, rank = mesh.get_group(shard_dim), mesh.size(shard_dim), mesh.get_local_rank(shard_dim)
    # In the order of their owners, so that what goes to one rank lies together.
    order = sorted(range(len(updates)), key=lambda i: (owner[i], i))
    mine = [i for i in order if owner[i] == rank]
    dims = [_sharded_dim(update, shard_dim) for update in updates]
    numels = [shard_numels(tuple(update.shape), dim, ranks) for update, dim in zip(updates, dims, strict=True)]
    to_owners = list(totals(owner, [numel[rank] for numel in numels], ranks))
    from_holders = [sum(numels[i][k] for i in mine) for k in range(ranks)]

    slices = [updates[i].to_local() for i in order]
    received = _all_to_all(slices, to_owners, from_holders, group)
    whole = _assembled(received, [updates[i].shape for i in mine], [dims[i] for i in mine], ranks)
    del received  # as large as all that this rank owns
    done = compute(whole, [views[i] for i in mine]) if mine else []
    del whole
    sizes = [chunk_sizes(updates[i].shape[dims[i]], ranks) for i in mine]
    cut = [result.split(list(size), dims[i]) for i, result, size in zip(mine, done, sizes, strict=True)]
    returning = [pieces[k] for k in range(ranks) for pieces in cut] or [slices[0].new_empty(0)]
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
    """What the other ranks sent, in their order, for `pieces` in the order of the ranks they go to."""
    sent = torch.cat([piece.reshape(-1) for piece in pieces])
    received = sent.new_empty(sum(from_others))
    dist.all_to_all_single(received, sent, from_others, to_others, group=group)
    return received


def _assembled(received: Tensor, shapes: Sequence[torch.Size], dims: Sequence[int], ranks: int) -> list[Tensor]:
    """Full tensors out of their slices, which lie rank by rank and, from one rank, tensor by tensor."""
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
