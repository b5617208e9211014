"""The module a user built, under the wrappers, and the names they know its parts by."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    *_, innermost = wrapping(model)
    return innermost


def wrapping(model: nn.Module) -> Iterator[nn.Module]:
    """A model, what it wraps, what that wraps, and so on to what the user built."""
    inner: object = model
    while isinstance(inner, nn.Module):
        yield inner
        wraps = isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel))
        inner = inner.module if wraps else getattr(inner, "_orig_mod", None)


def observable_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module with a name, the root as "", compiled wrappers and parametrizations left out.

    A parametrization maps weights to weights: what it returns is no representation.
    """
    for name, module in model.named_modules():
        parts = name.split(".")
        if "parametrizations" in parts or isinstance(module, ParametrizationList):
            continue
        if isinstance(getattr(module, "_orig_mod", None), nn.Module):
            continue
        yield ".".join(part for part in parts if part != "_orig_mod"), module


def owned_parameters(module: nn.Module) -> Iterator[torch.nn.Parameter]:
    """Parameters of the module itself, not of its children; those behind a parametrization included."""
    # Not `parameters(recurse=False)`: that walks the module tree, and this is asked for at every call.
    yield from (parameter for parameter in module._parameters.values() if parameter is not None)
    parametrizations = getattr(module, "parametrizations", None)
    if isinstance(parametrizations, nn.Module):
        yield from parametrizations.parameters()


def is_weight_layer(module: nn.Module) -> bool:
    """Whether the module multiplies by a matrix of its own: the layers that depth is counted in."""
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return False
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return True
    # A container may own a matrix that multiplies nothing, as a vision transformer its position embedding.
    children = [name for name, _ in module.named_children() if name != "parametrizations"]
    return not children and any(parameter.ndim >= 2 for parameter in owned_parameters(module))
