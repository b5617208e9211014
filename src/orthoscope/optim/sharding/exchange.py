"""The orthogonalised updates of all parameters, whichever ranks hold them."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.agreement import check_agreement
from orthoscope.optim.sharding.replicated import Compute, replicated_exchange


def orthogonalized(
    updates: Sequence[Tensor],
    views: Sequence[MatrixView],
    compute: Compute,
    process_group: dist.ProcessGroup | None = None,
    positions: Sequence[int] | None = None,
) -> list[Tensor]:
    """`compute(updates, views)` with the work shared among the ranks; results have the updates' layout and dtype.

    - Plain tensors: here and at once. With a process group, whose ranks must hold equal updates as after DDP's
      backward pass, each rank computes what it owns (`replicated_exchange`).
    - DTensors that one dimension of their mesh shards, by FSDP2 or HSDP: two all_to_all for all of them
      (`sharded_exchange`). Replicated ones: as plain tensors, with the process group of their mesh.
    - DTensors of any other layout, as under tensor parallelism: every rank gathers one at a time, and computes it.

    `compute` sees full plain tensors, so a view means the same on any number of ranks. All ranks of a group must
    call with the same parameters in the same order; what can be checked of that is (`check_agreement`), also that
    no rank left out another parameter of the same shape, if `positions` says where each stands among all.
    """
    positions = range(len(updates)) if positions is None else positions
    kinds = {kind for kind in set(map(type, updates)) if hasattr(kind, "device_mesh")}
    sharded = [i for i, update in enumerate(updates) if type(update) in kinds] if kinds else []
    if not sharded:
        return _plain_orthogonalized(list(updates), list(views), list(positions), compute, process_group)
    plain = sorted(set(range(len(updates))) - set(sharded))
    results = list(updates)
    done = _plain_orthogonalized(*_chosen(plain, updates, views, positions), compute, process_group)
    for i, result in zip(plain, done, strict=True):
        results[i] = result
    # DTensor takes a second to import, so only who has one pays for it.
    from orthoscope.optim.sharding.layouts import layouts_orthogonalized

    done = layouts_orthogonalized(*_chosen(sharded, updates, views, positions), compute)
    for i, result in zip(sharded, done, strict=True):
        results[i] = result
    return results


def _chosen(
    members: list[int], updates: Sequence[Tensor], views: Sequence[MatrixView], positions: Sequence[int]
) -> tuple[list[Tensor], list[MatrixView], list[int]]:
    return [updates[i] for i in members], [views[i] for i in members], [positions[i] for i in members]


def _plain_orthogonalized(
    updates: list[Tensor],
    views: list[MatrixView],
    positions: list[int],
    compute: Compute,
    group: dist.ProcessGroup | None,
) -> list[Tensor]:
    if group is None or dist.get_world_size(group) == 1:
        return compute(updates, views) if updates else []
    # Also without any update: a rank that has no gradient must not keep the others waiting.
    check_agreement(updates, views, positions, group)
    dtypes: dict[torch.dtype, list[int]] = {}
    for i, update in enumerate(updates):
        dtypes.setdefault(update.dtype, []).append(i)
    results = list(updates)
    for members in dtypes.values():
        done = replicated_exchange([updates[i] for i in members], [views[i] for i in members], compute, group)
        for i, result in zip(members, done, strict=True):
            results[i] = result
    return results
