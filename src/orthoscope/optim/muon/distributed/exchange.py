"""A step of Muon whose parameters are held by several processes: their work is shared."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor

from orthoscope.optim._batching import equal_shapes, places
from orthoscope.optim._validation import Group
from orthoscope.optim.muon.distributed.replicated import Compute, check_agreement, replicated_exchange
from orthoscope.optim.muon.optimizer import METHOD, Tensors, momentum_updates, move_, muon_step_, orthogonalized_stack
from orthoscope.optim.muon.views import MatrixView

Groups = list[tuple[Group, Tensors]]


def distributed_step_(groups: Groups, process_group: dist.ProcessGroup | None) -> None:
    """One step of Muon; groups with the same method are exchanged together, in one round of collectives."""
    if _has_one_process(groups, process_group):
        for group, tensors in groups:
            local = tensors._replace(
                parameters=list(map(_local, tensors.parameters)),
                gradients=list(map(_local, tensors.gradients)),
                first=list(map(_local, tensors.first)),
            )
            muon_step_(group, local)
        return
    together: dict[tuple[Any, ...], Groups] = {}
    for group, tensors in groups:
        together.setdefault(tuple(group[key] for key in METHOD), []).append((group, tensors))
    for method, members in together.items():
        compute = partial(orthogonalized_updates, method=dict(zip(METHOD, method, strict=True)))
        _exchanged_step_(members, compute, process_group)


def orthogonalized_updates(updates: Sequence[Tensor], views: Sequence[MatrixView], method: Group) -> list[Tensor]:
    """`orthogonalized_stack` of full, plain updates of any shapes."""
    results = list(updates)
    for indices in equal_shapes(updates, views):
        done = orthogonalized_stack([updates[index] for index in indices], views[indices[0]], method)
        for index, result in zip(indices, done, strict=True):
            results[index] = result
    return results


def _has_one_process(groups: Groups, process_group: dist.ProcessGroup | None) -> bool:
    """Whether the process group and all meshes have a single rank, as after `fully_shard` on one device."""
    meshes = {getattr(parameter, "device_mesh", None) for _, tensors in groups for parameter in tensors.parameters}
    return (process_group is None or dist.get_world_size(process_group) == 1) and all(
        mesh is None or mesh.size() == 1 for mesh in meshes
    )


def _local(tensor: Any) -> Tensor:
    """The slice of a DTensor that this process holds, sharing its memory; a plain tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "device_mesh") else tensor


def _exchanged_step_(groups: Groups, compute: Compute, process_group: dist.ProcessGroup | None) -> None:
    updates: list[Tensor] = []
    for group, tensors in groups:
        own = list(tensors.first)
        for alike in _uniform(tensors):
            for place, update in zip(alike, momentum_updates(group, tensors.select(alike)), strict=True):
                own[place] = update
        updates += own
    views = [MatrixView(*view) for _, tensors in groups for view in tensors.views]
    everyone = [parameter for group, _ in groups for parameter in group["params"]]
    positions = [place for place, parameter in enumerate(everyone) if parameter.grad is not None]
    directions = orthogonalized(updates, views, compute, process_group, positions)
    start = 0
    for group, tensors in groups:
        for alike in _uniform(tensors):
            part = tensors.select(alike)
            move_(group, part.parameters, [directions[start + place] for place in alike], part.scales[0])
        start += len(tensors.parameters)


def _uniform(tensors: Tensors) -> Iterable[list[int]]:
    """The places of tensors of one scale and one mesh, or none: `torch._foreach_*` takes DTensors of one mesh only."""
    meshes = [getattr(parameter, "device_mesh", None) for parameter in tensors.parameters]
    return places(zip(meshes, tensors.scales, strict=True)).values()


def orthogonalized(
    updates: Sequence[Tensor],
    views: Sequence[MatrixView],
    compute: Compute,
    process_group: dist.ProcessGroup | None = None,
    positions: Sequence[int] | None = None,
) -> list[Tensor]:
    """Return `compute(updates, views)`, with the work shared among the processes that hold the updates.

    - Plain tensors: on this process. With a process group, whose ranks must hold equal updates as after DDP's backward
      pass, each rank computes what it owns (`replicated_exchange`).
    - DTensors that one dimension of their mesh shards, by FSDP2 or HSDP: two all_to_all for all of them. Replicated
      ones: as plain tensors, with the process group of their mesh. All other placements, as under tensor parallelism:
      every rank gathers one at a time, and computes it (`dtensors_orthogonalized`).

    All ranks of a group must call with the same parameters in the same order; `check_agreement` raises if they do not.

    Args:
        updates: Plain tensors or DTensors.
        views: The matrices of each update.
        compute: A function of full plain tensors and their views, so that a view means the same on any number of ranks.
        process_group: The ranks that hold equal plain tensors.
        positions: The index of each update's parameter among all parameters; default: its index among the updates.

    Returns:
        The results with the updates' dtypes and placements.
    """
    positions = range(len(updates)) if positions is None else positions
    dtensor_types = {kind for kind in set(map(type, updates)) if hasattr(kind, "device_mesh")}
    plain = [i for i, update in enumerate(updates) if type(update) not in dtensor_types]
    sharded = [i for i, update in enumerate(updates) if type(update) in dtensor_types]
    # Also without any plain update: the other ranks of the process group wait for this one.
    done = _plain_orthogonalized(*_chosen(plain, updates, views, positions), compute, process_group)
    if sharded:
        # Imported here, because DTensor takes a second to import.
        from orthoscope.optim.muon.distributed.sharded import dtensors_orthogonalized

        done = done + dtensors_orthogonalized(*_chosen(sharded, updates, views, positions), compute)
    results = dict(zip(plain + sharded, done, strict=True))
    return [results[i] for i in range(len(updates))]


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
    """Plain tensors: computed here, or shared by the ranks of the group, one exchange per dtype."""
    if group is None or dist.get_world_size(group) == 1:
        return compute(updates, views) if updates else []
    check_agreement(updates, views, positions, group)
    results = list(updates)
    for members in places(update.dtype for update in updates).values():
        done = replicated_exchange([updates[i] for i in members], [views[i] for i in members], compute, group)
        for i, result in zip(members, done, strict=True):
            results[i] = result
    return results
