"""Parameters of which every rank holds a slice (FSDP2): written from, and read as, full tensors."""

import torch
from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor; asked without importing it, which takes a second."""
    return hasattr(tensor, "device_mesh")


@torch.no_grad()
def write_(parameter: Tensor, values: Tensor) -> None:
    """Copy full values into a parameter; of a sharded one, each rank keeps its slice of what the first rank drew.

    Random numbers drawn shard by shard are wrong: on ranks with equal seeds every shard repeats the first, and
    a matrix whose shards are each orthogonal is not. So the full tensor is drawn, and travels from the first rank of
    the mesh, since the others may have other seeds. The numbers are then those of one process, on any number of ranks.
    """
    if is_sharded(parameter):
        from torch.distributed.tensor import distribute_tensor

        mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
        values = distribute_tensor(values.to(parameter.device, parameter.dtype), mesh, placements)
    parameter.copy_(values)


def whole(tensor: Tensor) -> Tensor:
    """The tensor, gathered if it is sharded; all ranks must ask for it."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]
