"""From what a user calls a batch to what a model is called with."""

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Call:
    """The arguments of one forward pass, and the target that came with them for a loss."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None

    @property
    def samples(self) -> int:
        """Size of the first dimension of the first tensor: what the whole of Orthoscope calls samples."""
        first = next(tensors_in((self.args, self.kwargs)), None)
        if first is None or first.ndim == 0:
            raise ValueError(
                "the batch holds no tensor with a sample dimension: give a tensor, or a tuple, dict or "
                "DataLoader of tensors whose first dimension counts samples"
            )
        return first.shape[0]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists, dicts and dataclasses, in the order a reader would meet them."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for entry in dataclasses.fields(value):
            yield from tensors_in(getattr(value, entry.name))


def as_call(model: nn.Module, batch: Any) -> Call:
    """Read a tensor, tuple, dict or DataLoader as the arguments of `model.forward`.

    A dict is keyword arguments. A tuple is positional arguments; if `forward` takes only one, the
    second entry is the target, as data loaders give it. A DataLoader stands for its first batch.
    """
    if isinstance(batch, Call):
        return batch
    if isinstance(batch, torch.utils.data.DataLoader):
        batch = next(iter(batch), None)
        if batch is None:
            raise ValueError("the DataLoader is empty: give one with at least one batch")
    if isinstance(batch, Mapping):
        return Call(kwargs=dict(batch))
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2 and _positional_arguments(model) == 1:
            return Call(args=(batch[0],), target=batch[1])
        return Call(args=tuple(batch))
    if isinstance(batch, Tensor):
        return Call(args=(batch,))
    raise ValueError(
        f"a batch is a tensor, tuple, dict or DataLoader, got {type(batch).__name__}: "
        "give what you would call the model with"
    )


def _positional_arguments(model: nn.Module) -> int | None:
    """How many positional arguments `forward` takes, or None if any number."""
    parameters = inspect.signature(model.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def differentiable_copy(value: Any, device: torch.device) -> Any:
    """The same nested value on `device`, every tensor a copy, floating ones part of the gradient graph.

    Copies keep the user's batch safe from in-place models; the extra clone makes them non-leaves,
    so that such models do not fail either.
    """
    if isinstance(value, Tensor):
        copy = value.detach().to(device).clone()
        return copy.requires_grad_().clone() if copy.is_floating_point() else copy
    if isinstance(value, Mapping):
        return {key: differentiable_copy(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(differentiable_copy(item, device) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(differentiable_copy(item, device) for item in value)
    return value
