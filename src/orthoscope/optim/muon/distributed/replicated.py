"""Full tensors on every rank of a process group (DDP): each orthogonalizes its own, one all_gather shares them."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from hashlib import blake2b

import torch
import torch.distributed as dist
from torch import Tensor

from orthoscope.optim.muon.distributed.splits import GatherBuffer, gather_buffer, orthogonalization_cost, owners, totals
from orthoscope.optim.muon.views import MatrixView

Compute = Callable[[list[Tensor], list[MatrixView]], list[Tensor]]

AGREEMENT_BYTES = 16  # of `check_agreement`: a digest and the number of parameters


def replicated_exchange(
    updates: Sequence[Tensor], views: Sequence[MatrixView], compute: Compute, group: dist.ProcessGroup
) -> list[Tensor]:
    """`compute` of full updates of one dtype, each by its owner, shared with all by one or two collectives."""
    rank = dist.get_rank(group)
    costs = [orthogonalization_cost(*v.shape(tuple(u.shape))) for u, v in zip(updates, views, strict=True)]
    owner = owners(costs, dist.get_world_size(group))
    mine = [i for i, other in enumerate(owner) if other == rank]
    # Without a name, so that the results are freed before the gathered buffer, as large as all parameters, is filled.
    return shared(compute([updates[i] for i in mine], [views[i] for i in mine]) if mine else [], owner, updates, group)


def shared(
    results: list[Tensor], owner: Sequence[int], like: Sequence[Tensor], group: dist.ProcessGroup
) -> list[Tensor]:
    """Give every rank the results of all owners.

    The owner reads its own results from the gathered buffer too, so that ranks stay equal to the last bit.

    Args:
        results: The results of this rank; the list is emptied.
        owner: The owner of every result.
        like: Tensors with the shapes of all results.
        group: The process group.

    Returns:
        All results, as views of the gathered buffer.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    numels = [tensor.numel() for tensor in like]
    buffer = gather_buffer(totals(owner, numels, ranks))
    if not buffer.piece:
        return [torch.empty_like(tensor) for tensor in like]
    piece = _contribution(results, buffer, rank, like[0], group)
    results.clear()
    gathered = piece.new_empty(ranks * buffer.piece)
    dist.all_gather_single(gathered, piece, group=group)
    starts = list(buffer.starts)
    found = []
    for own, numel, tensor in zip(owner, numels, like, strict=True):
        found.append(gathered[starts[own] : starts[own] + numel].view(tensor.shape))
        starts[own] += numel
    return found


def _contribution(
    results: Sequence[Tensor], buffer: GatherBuffer, rank: int, like: Tensor, group: dist.ProcessGroup
) -> Tensor:
    """The piece of the gathered buffer that this rank contributes."""
    piece = like.new_zeros(buffer.piece)
    flat = [result.reshape(-1) for result in results] or [piece[:0]]
    if buffer.is_padded:
        torch.cat(flat, out=piece[: buffer.owned[rank]])
        return piece
    ranks = range(len(buffer.owned))
    to_others, from_others = [buffer.moved(rank, k) for k in ranks], [buffer.moved(k, rank) for k in ranks]
    dist.all_to_all_single(piece[: sum(from_others)], torch.cat(flat), from_others, to_others, group=group)
    return piece


def check_agreement(
    updates: Sequence[Tensor], views: Sequence[MatrixView], positions: Sequence[int], group: dist.ProcessGroup
) -> None:
    """Raise on every rank of the group unless all have updates of the same parameters, in the same order.

    Shapes, dtypes, views and positions are compared, by one all_gather of 16 bytes through host memory. Without it,
    ranks that disagree would wait for each other until the group's time limit, or mix up their parameters. Where the
    group has no gloo (`cpu:gloo,cuda:nccl` has it, `nccl` has not) it would stall the device, and nothing is checked.

    Args:
        updates: The updates of this rank.
        views: Their views.
        positions: The index of each update's parameter among all, with or without a gradient, by which layers of one
            shape are distinguished.
        group: The process group.

    Raises:
        RuntimeError: If the ranks disagree.
    """
    if "cpu:gloo" not in dist.get_backend_config(group):
        return
    content = tuple(
        (position, tuple(update.shape), str(update.dtype), view)
        for position, update, view in zip(positions, updates, views, strict=True)
    )
    mine = torch.tensor([_digest(content), len(updates)], dtype=torch.int64)
    ranks = dist.get_world_size(group)
    everyone = torch.empty(ranks, 2, dtype=torch.int64)
    dist.all_gather_single(everyone.view(-1), mine, group=group)
    if (everyone == mine).all():
        return
    counts = ", ".join(map(str, everyone[:, 1].tolist()))
    raise RuntimeError(
        f"the ranks have gradients for different parameters ({counts} on ranks 0 to {ranks - 1}): give a parameter "
        "that some of them did not use a zero gradient there, or leave it out on all"
    )


@lru_cache(maxsize=64)
def _digest(content: Hashable) -> int:
    # Not hash(), which differs between processes.
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=8).digest(), "little", signed=True)
