"""Tensors that every rank shall hold in full (DDP): each orthogonalises what it owns and all share the results."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.ownership import orthogonalization_cost, owners
from orthoscope.optim.sharding.splits import GatherPlan, gather_plan, totals

Compute = Callable[[list[Tensor], list[MatrixView]], list[Tensor]]


def replicated_exchange(
    updates: Sequence[Tensor], views: Sequence[MatrixView], compute: Compute, group: dist.ProcessGroup
) -> list[Tensor]:
    """`compute` of full updates of one dtype, each by its owner; one all_gather, or two calls (see `gather_plan`)."""
    rank = dist.get_rank(group)
    costs = [orthogonalization_cost(*v.shape(tuple(u.shape))) for u, v in zip(updates, views, strict=True)]
    owner = owners(costs, dist.get_world_size(group))
    mine = [i for i, other in enumerate(owner) if other == rank]
    # Not named: the results must not live on beside the gathered buffer, which is as large as all parameters.
    return shared(compute([updates[i] for i in mine], [views[i] for i in mine]) if mine else [], owner, updates, group)


def shared(
    results: list[Tensor], owner: Sequence[int], like: Sequence[Tensor], group: dist.ProcessGroup
) -> list[Tensor]:
    """The results of all owners on every rank, shaped as `like`; `results` are this rank's own, and are given away.

    The owner too reads the gathered buffer, so that ranks stay equal to the last bit.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    numels = [tensor.numel() for tensor in like]
    plan = gather_plan(totals(owner, numels, ranks))
    if not plan.piece:
        return [torch.empty_like(tensor) for tensor in like]
    piece = _contribution(results, plan, rank, like[0], group)
    results.clear()
    gathered = piece.new_empty(ranks * plan.piece)
    dist.all_gather_single(gathered, piece, group=group)
    starts = list(plan.starts)
    found = []
    for own, numel, tensor in zip(owner, numels, like, strict=True):
        found.append(gathered[starts[own] : starts[own] + numel].view(tensor.shape))
        starts[own] += numel
    return found


def _contribution(
    results: Sequence[Tensor], plan: GatherPlan, rank: int, like: Tensor, group: dist.ProcessGroup
) -> Tensor:
    """The piece of the gathered buffer that this rank contributes."""
    piece = like.new_zeros(plan.piece)
    flat = [result.reshape(-1) for result in results] or [piece[:0]]
    if plan.is_padded:
        torch.cat(flat, out=piece[: plan.owned[rank]])
        return piece
    ranks = range(len(plan.owned))
    to_others, from_others = [plan.moved(rank, k) for k in ranks], [plan.moved(k, rank) for k in ranks]
    dist.all_to_all_single(piece[: sum(from_others)], torch.cat(flat), from_others, to_others, group=group)
    return piece
