"""How what users call a batch is read as the arguments of `forward` and a target; the table is in docs/diagnose.md."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.samples import Call, graph_parts

# Names of an entry that is compared with the output, in the order in which they are looked for.
TARGETS = ("labels", "label", "target", "targets", "y")

# Names of an argument that takes a whole dict.
_WHOLE = ("batch", "data", "sample", "inputs", "features")


@dataclass(frozen=True)
class _Forward:
    """What `forward` can be called with."""

    needed: tuple[str, ...]  # positional arguments without a default
    named: tuple[str, ...]  # all arguments that can be given by name
    required: frozenset[str]  # those of them without a default
    most: float  # positional arguments; infinite with *args
    any_name: bool  # takes **kwargs
    takes_dict: bool  # the first argument is annotated or named as one that holds a whole batch

    def accepts(self, names: Iterable[str]) -> bool:
        """Whether keyword arguments of these names can be given, and none is missing."""
        given = set(names)
        return (self.any_name or given <= set(self.named)) and self.required <= given

    def reads(self, count: int) -> bool:
        """Whether it can be called with so many positional arguments."""
        return len(self.needed) <= count <= self.most

    @property
    def words(self) -> str:
        """Its arguments, for an error message."""
        return f"forward({', '.join(self.named)})"


def as_call(model: nn.Module, batch: Any, with_target: bool = False) -> Call:
    """Read a batch as the arguments of `model.forward`, and the target that a loss is given.

    * A tensor is the argument.
    * A tuple or list is positional arguments; the last entry is the target if `forward` takes one entry less, or could
      do with one less and the batch comes from a loader or `with_target` is set. `((x, t), y)` is arguments and target.
      More entries than an only argument and a target are that argument, a list.
    * A dict, namedtuple or dataclass is keyword arguments if the names fit. An entry named as in `TARGETS` is the
      target; `forward` gets it too if it has an argument of this name. If names do not fit an only argument, it is the
      one entry besides the target, or the whole where there are several, or where it is annotated as a dict, or
      named `batch`.
    * A graph (an object with tensors `x` and `edge_index`) is the argument, or those of its attributes that `forward`
      names; `y` is the target.
    * A DataLoader, or another iterable that can be iterated repeatedly, stands for its first batch.

    Args:
        model: The network; nothing is run.
        batch: What is read.
        with_target: Whether the loss takes a target.

    Raises:
        ValueError: If `forward` cannot be called with it; the message says what it takes.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be an nn.Module, got {type(model).__name__}: pass the network itself")
    if isinstance(batch, Call):
        return batch
    forward = _forward(unwrapped(model))
    if _is_loader(batch):
        with torch.random.fork_rng(devices=()):  # a loader that shuffles must not move the user's generator
            first = next(iter(batch), None)
        if first is None:
            raise ValueError(f"the {type(batch).__name__} is empty: give one with at least one batch")
        return _read(forward, first, with_target, from_loader=True)
    return _read(forward, batch, with_target, from_loader=False)


def _is_loader(batch: Any) -> bool:
    known = isinstance(batch, (Tensor, Mapping, tuple, list, str, bytes, Iterator))
    return isinstance(batch, Iterable) and not known and not _is_record(batch) and graph_parts(batch) is None


def _is_record(batch: Any) -> bool:
    """Whether it has named fields: a dataclass or a namedtuple."""
    return (dataclasses.is_dataclass(batch) and not isinstance(batch, type)) or hasattr(batch, "_fields")


def _read(forward: _Forward, batch: Any, with_target: bool, from_loader: bool) -> Call:
    if isinstance(batch, Tensor):
        _require(forward, 1, f"a tensor of shape {tuple(batch.shape)}")
        return Call(args=(batch,))
    if (parts := graph_parts(batch)) is not None:
        return _graph(forward, batch, parts)
    if _is_record(batch):
        named = (
            batch._asdict()
            if hasattr(batch, "_fields")
            else {entry.name: getattr(batch, entry.name) for entry in dataclasses.fields(batch)}
        )
        if hasattr(batch, "_fields") and not _names_fit(forward, named):
            return _sequence(forward, tuple(batch), with_target, from_loader)
        return _named(forward, named, batch, with_target)
    if isinstance(batch, Mapping):
        return _named(forward, dict(batch), batch, with_target)
    if isinstance(batch, (tuple, list)):
        return _sequence(forward, batch, with_target, from_loader)
    raise ValueError(
        f"a batch is a tensor, tuple, dict or DataLoader, got {type(batch).__name__}: "
        "pass what the model is called with"
    )


def _sequence(forward: _Forward, batch: Any, with_target: bool, from_loader: bool) -> Call:
    """Positional arguments, the last of them the target where `forward` takes, or may do with, one less."""
    count = len(batch)
    if count == 2 and (nested := _nested(forward, *batch)) is not None:
        return nested
    if count >= 2 and forward.reads(count - 1):
        wanted = with_target or (from_loader and forward.most < math.inf)
        if wanted or not forward.reads(count):
            return Call(args=tuple(batch[:-1]), target=batch[-1])
    if forward.most == 1 and count > 2:
        return Call(args=(batch,))
    _require(forward, count, f"a {type(batch).__name__} of {count}")
    return Call(args=tuple(batch))


def _nested(forward: _Forward, inputs: Any, target: Any) -> Call | None:
    """`((x, t), y)` and `({...}, y)`, if the inputs are the arguments of `forward`."""
    if isinstance(inputs, (tuple, list)) and not hasattr(inputs, "_fields"):
        fits = len(inputs) > 1 and len(forward.needed) == len(inputs)
        return Call(args=tuple(inputs), target=target) if fits else None
    if isinstance(inputs, Mapping) and forward.accepts(inputs) and isinstance(target, Tensor):
        return Call(kwargs=dict(inputs), target=target)
    return None


def _named(forward: _Forward, entries: dict[str, Any], whole: Any, with_target: bool) -> Call:
    """Keyword arguments and target by name; or the entry, or the whole, that an only argument takes."""
    target = next((name for name in TARGETS if name in entries), None)
    # An argument of this name, as models of transformers have; **kwargs would take anything.
    passed = target is not None and (target in forward.named or (forward.any_name and not with_target))
    value = None if target is None else entries[target]
    arguments = entries if passed else {name: item for name, item in entries.items() if name != target}
    if forward.accepts(arguments):
        return Call(kwargs=arguments, target=value if with_target or not passed else None)
    if forward.reads(1):
        inputs = [item for name, item in entries.items() if name != target]
        if target is not None and len(inputs) == 1 and not forward.takes_dict:
            return Call(args=(inputs[0],), target=value)
        return Call(args=(whole,), target=value)
    unknown = [name for name in arguments if name not in forward.named]
    missing = sorted(forward.required - set(arguments))
    problem = f"has no argument {unknown[0]!r}" if unknown else f"needs {missing[0]!r} too"
    raise ValueError(
        f"the batch has the entries {', '.join(map(repr, entries))}, and the model's {forward.words} {problem}: name "
        "the entries as the arguments, and the target 'labels'"
    )


def _names_fit(forward: _Forward, entries: Mapping[str, Any]) -> bool:
    return forward.accepts(entries) or forward.accepts([name for name in entries if name not in TARGETS])


def _graph(forward: _Forward, graph: Any, parts: Mapping[str, Any]) -> Call:
    """The graph whole, or those of its attributes that `forward` names."""
    target = next((parts[name] for name in TARGETS if parts.get(name) is not None), None)
    if forward.reads(1) and "edge_index" not in forward.named:
        return Call(args=(graph,), target=target)
    named = {name: parts[name] for name in forward.named if parts.get(name) is not None}
    if not forward.required <= set(named):
        missing = sorted(forward.required - set(named))[0]
        raise ValueError(
            f"the graph has no {missing!r}, which the model's {forward.words} needs: name its attributes as the "
            "arguments, or give a tuple"
        )
    return Call(kwargs=named, target=target)


def _require(forward: _Forward, count: int, given: str) -> None:
    """Raise a ValueError if `forward` cannot be called with so many arguments."""
    if forward.reads(count):
        return
    least = len(forward.needed)
    if forward.most < 0:
        raise ValueError(
            f"the batch is {given}, and the model's {forward.words} takes keyword arguments: give a dict of them"
        )
    expected = f"{least}" if forward.most == least else f"{least} to {forward.most:g}"
    raise ValueError(
        f"the batch is {given}, and the model's {forward.words} takes {expected} arguments: give a tuple of them, "
        "followed by the target if the loss has one"
    )


def _forward(model: nn.Module) -> _Forward:
    """Read the signature of `forward`; where there is none, as of scripted modules, anything is accepted."""
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        return _Forward((), (), frozenset(), math.inf, True, False)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keyword_only = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    return _Forward(
        needed=tuple(p.name for p in positional if p.default is p.empty),
        named=tuple(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is p.empty),
        # Names that must be given are missing from any tuple.
        most=-1.0 if keyword_only else math.inf if several else float(len(positional)),
        any_name=any(p.kind is p.VAR_KEYWORD for p in parameters),
        takes_dict=bool(positional) and _is_dict(positional[0]),
    )


def _is_dict(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name in _WHOLE
    if isinstance(annotation, type) and (typing.is_typeddict(annotation) or issubclass(annotation, Mapping)):
        return True
    return any(word in str(annotation).lower() for word in ("dict", "mapping"))


def calls_of(model: nn.Module, batches: Any, with_target: bool = True) -> Iterator[Call]:
    """Read every batch of a loader or a list, each as `as_call` reads the first batch of a loader."""
    forward = _forward(unwrapped(model))
    for batch in batches:
        yield batch if isinstance(batch, Call) else _read(forward, batch, with_target, from_loader=True)


def is_one_batch(batches: Any) -> bool:
    """Whether this is one batch, and not several: a list of anything but tensors is several, as loaders are."""
    if isinstance(batches, list):
        return bool(batches) and isinstance(batches[0], Tensor)
    return not isinstance(batches, Iterator) and not _is_loader(batches)
