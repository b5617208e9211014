"""The batch of a user, read as the arguments of `forward`."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
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
        """Number of samples: the size of the first dimension of the first tensor."""
        first = next(tensors_in((self.args, self.kwargs)), None)
        if first is None or first.ndim == 0:
            raise ValueError(
                "the batch holds no tensor with a sample dimension: give a tensor, or a tuple, dict or "
                "DataLoader of tensors whose first dimension counts samples"
            )
        return first.shape[0]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists, dicts and dataclasses, in order."""
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


def as_call(model: nn.Module, batch: Any, with_target: bool = False) -> Call:
    """Read a tensor, tuple, dict or DataLoader as the arguments of `model.forward`.

    A dict is keyword arguments, or the single argument if the names do not fit. A tuple is positional arguments. The
    second of a pair is the target if `forward` takes only one argument, or if it requires only one and the pair comes
    from a DataLoader or `with_target` is set. A DataLoader stands for its first batch.
    """
    if isinstance(batch, Call):
        return batch
    if isinstance(batch, torch.utils.data.DataLoader):
        with torch.random.fork_rng(devices=()):  # a loader that shuffles must not move the user's generator
            batch, with_target = next(iter(batch), None), True
        if batch is None:
            raise ValueError("the DataLoader is empty: give one with at least one batch")
    if isinstance(batch, Mapping):
        whole = not _accepts(model, batch) and _takes_one_argument(model, or_needs_one=True)
        return Call(args=(batch,)) if whole else Call(kwargs=dict(batch))
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2 and _takes_one_argument(model, or_needs_one=with_target):
            return Call(args=(batch[0],), target=batch[1])
        return Call(args=tuple(batch))
    if isinstance(batch, Tensor):
        return Call(args=(batch,))
    raise ValueError(
        f"a batch is a tensor, tuple, dict or DataLoader, got {type(batch).__name__}: "
        "pass what the model is called with"
    )


def first_samples(call: Call, samples: int) -> Call:
    """The first samples of every tensor that counts them; all of them, if there are no more."""
    count = call.samples
    if count <= samples:
        return call
    cut = mapped(
        (tuple(call.args), dict(call.kwargs), call.target),
        lambda tensor: tensor[:samples] if tensor.ndim and tensor.shape[0] == count else tensor,
    )
    return Call(*cut)


def _accepts(model: nn.Module, names: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(model.forward).bind(**names)
    except TypeError:
        return False
    return True


def _takes_one_argument(model: nn.Module, or_needs_one: bool) -> bool:
    """Whether `forward` takes, or at least needs, just one positional argument."""
    parameters = inspect.signature(model.forward).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return False
    counted = [p for p in positional if p.default is p.empty] if or_needs_one else positional
    return len(counted) == 1


def mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The same nested tuples, lists, dicts and dataclasses, with `function` of every tensor in its place."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {key: mapped(item, function) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = (mapped(item, function) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [entry.name for entry in dataclasses.fields(value) if entry.init]
        return dataclasses.replace(value, **{name: mapped(getattr(value, name), function) for name in names})
    return value


def copied(value: Any, device: torch.device, differentiable: bool = False, precision: torch.dtype | None = None) -> Any:
    """The same nested value on `device`, every tensor a copy; floating ones part of the gradient graph if asked.

    Copies keep the user's batch safe from in-place models; the extra clone makes them non-leaves,
    so that such models do not fail either.
    """

    def copy(tensor: Tensor) -> Tensor:
        floating = tensor.is_floating_point()
        fresh = tensor.detach().to(device, precision if floating else None).clone()
        return fresh.requires_grad_().clone() if differentiable and floating else fresh

    return mapped(value, copy)
