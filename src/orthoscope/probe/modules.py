"""The modules of a model under its wrappers: their names as the user knows them, their parameters, their kind."""

import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList, type_before_parametrizations


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    *_, innermost = wrappers(model)
    return innermost


def wrappers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a model, the module that it wraps, and so on down to the module that the user built."""
    inner: object = model
    while isinstance(inner, nn.Module):
        yield inner
        wraps = isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel))
        inner = inner.module if wraps else getattr(inner, "_orig_mod", None)


def observable_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield every module with its name, the root as "", without compiled wrappers and parametrizations.

    A parametrization maps weights to weights: what it returns is not a representation.
    """
    for name, module in model.named_modules():
        parts = name.split(".")
        if "parametrizations" in parts or isinstance(module, ParametrizationList):
            continue
        if isinstance(getattr(module, "_orig_mod", None), nn.Module):
            continue
        yield ".".join(part for part in parts if part != "_orig_mod"), module


def owned_parameters(module: nn.Module) -> Iterator[torch.nn.Parameter]:
    """Yield the parameters of the module itself, not of its children; those behind a parametrization included."""
    # Not `parameters(recurse=False)`, which walks the module tree: this runs at every module call.
    yield from (parameter for parameter in module._parameters.values() if parameter is not None)
    parametrizations = module._modules.get("parametrizations")
    if parametrizations is not None:
        yield from parametrizations.parameters()


def is_weight_layer(module: nn.Module) -> bool:
    """True if the module multiplies by a matrix of its own: the layers in which depth is counted."""
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return False
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return True
    # A container may own a matrix that multiplies nothing, such as the position embedding of a vision transformer.
    has_children = any(child is not None and name != "parametrizations" for name, child in module._modules.items())
    return not has_children and any(parameter.ndim >= 2 for parameter in owned_parameters(module))


def class_name(module: nn.Module) -> str:
    """Return the name of the class that the user wrote, under what parametrizations and FSDP put in its place."""
    kind = type_before_parametrizations(module)
    # `torch.distributed.fsdp` takes a second to import: without it no module is one of its kind.
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    return next(base for base in kind.__mro__ if not issubclass(base, sharded)).__name__
