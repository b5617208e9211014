"""Models whose batch is split over ranks: which ranks, and how FSDP is kept from noticing the probe."""

import contextlib
import math
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations

from orthoscope.probe.names import wrapping
from orthoscope.probe.ranks import Ranks


def _loaded(module: str, name: str) -> Any:
    """A class of a part of torch that takes a second to import: nobody has one of its kind who has not done so."""
    return getattr(sys.modules.get(module), name, ())


def ranks_of(model: nn.Module) -> Ranks:
    """The ranks that each hold a part of the batch: those of DDP's group, or of the mesh FSDP2 shards over.

    A model that is neither has all of its batch here, whether or not other processes run.
    """
    if not dist.is_available():
        return Ranks()
    for module in wrapping(model):
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return Ranks([module.process_group], next(module.parameters()).device)
    mesh = _mesh(model)
    if mesh is None:
        return Ranks()
    _require_reduced_gradients(model)
    device = torch.device(mesh.device_type)
    if device.type != "cpu":
        device = torch.device(device.type, torch.get_device_module(device).current_device())
    return Ranks([mesh.get_group(dimension) for dimension in reversed(range(mesh.ndim))], device)


def _mesh(model: nn.Module) -> Any:
    """The one mesh of all parameters that FSDP2 shards, None if it shards none."""
    if not _fsdp_modules(model):
        return None
    for module in _fsdp_modules(model):
        module.reshard()  # what stays whole after a forward pass shows no mesh
    shards: list[Any] = [parameter for parameter in model.parameters() if is_shard(parameter)]
    meshes = {parameter.device_mesh for parameter in shards}
    twice = any(sum(placement.is_shard() for placement in parameter.placements) > 1 for parameter in shards)
    if len(meshes) > 1 or twice:
        raise ValueError(
            "the parameters lie on several meshes or are cut along several dimensions, as under tensor parallelism: "
            "a diagnosis needs every parameter sharded over the same ranks that the batch is split over"
        )
    return meshes.pop() if meshes else None


def _require_reduced_gradients(model: nn.Module) -> None:
    """FSDP must average gradients over all ranks, as it does unless told otherwise."""
    for module in _fsdp_modules(model):
        for group in getattr(module._get_fsdp_state(), "_fsdp_param_groups", ()):
            if not (group.reduce_grads and group.all_reduce_grads):
                raise ValueError(
                    "FSDP is accumulating gradients without reducing them: diagnose between optimizer steps, "
                    "after model.set_requires_gradient_sync(True)"
                )
            if group.gradient_divide_factor is not None:
                raise ValueError(
                    f"FSDP divides gradients by {group.gradient_divide_factor} instead of the number of ranks: "
                    "diagnose before set_gradient_divide_factor is called"
                )


def _fsdp_modules(model: nn.Module) -> list[Any]:
    kind = _loaded("torch.distributed.fsdp", "FSDPModule")
    return [module for module in model.modules() if isinstance(module, kind)] if kind else []


@contextlib.contextmanager
def resharded(model: nn.Module) -> Iterator[None]:
    """Parameters are shards when the model is given back, as they are when its mesh is looked up.

    After a forward pass FSDP leaves the root's parameters whole until the backward pass, and what is whole
    is another object: taken for the original, it would be put in the place of a shard.
    """
    modules = _fsdp_modules(model)
    try:
        yield
    except Exception:
        # A pass that broke off leaves FSDP in the middle of it.
        for module in modules:
            with contextlib.suppress(RuntimeError, AttributeError):  # only a root that has run once can be told
                module.reset_iter_state()
        raise
    finally:
        for module in modules:
            module.reshard()


def shard(tensor: Tensor) -> Tensor:
    """What this rank holds of a sharded tensor; any other tensor as it is."""
    return tensor.to_local() if is_shard(tensor) else tensor  # type: ignore[attr-defined]


def is_shard(tensor: Tensor) -> bool:
    """Whether a tensor is a DTensor."""
    return isinstance(tensor, _loaded("torch.distributed.tensor", "DTensor"))


def replicas(tensor: Any) -> int:
    """How many ranks hold each shard."""
    sizes = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
    return math.prod(size for placement, size in sizes if placement.is_replicate())


def class_name(module: nn.Module) -> str:
    """The name of the class the user wrote, under what parametrizations and FSDP put in its place."""
    kind = type_before_parametrizations(module)
    sharded = _loaded("torch.distributed.fsdp", "FSDPModule")
    return next(base for base in kind.__mro__ if not issubclass(base, sharded)).__name__
