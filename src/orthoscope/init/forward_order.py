"""Layers made one after another in the order they are called, by hooks, or none at all."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from orthoscope.init.patches import check_served
from orthoscope.init.schemes import weight_layers
from orthoscope.init.sharded import is_sharded
from orthoscope.init.weights import WeightLayer
from orthoscope.probe.batches import Call, as_call, copied, tensors_in
from orthoscope.probe.restoration import probing_mode, untouched


@runtime_checkable
class Maker(Protocol):
    """What becomes of a layer: it sees the layer's input, in one part or many, and then fills the layer."""

    def see(self, name: str, layer: WeightLayer, inputs: Tensor) -> None: ...
    def make(self, name: str, layer: WeightLayer) -> None: ...


# What is one batch; any other iterable is a stream of them.
ONE_BATCH = (Call, Tensor, Mapping, tuple, list)


def in_forward_order(
    model: nn.Module, batch: Any, keep: Collection[str] | None, maker: Maker
) -> list[tuple[str, WeightLayer]]:
    """Let `maker` fill every layer when its input is known, then undo it all, and return what was made, in order.

    The caller writes what the maker has made: so a failure on the way has changed nothing. With `keep` None the first
    and the last layer that are called are not made; the last is known as such only at the end, so it is made and left
    out, and if it cannot be made that is no failure.
    """
    layers = weight_layers(model)
    _check(layers, keep)
    calls = _stream(model, batch)
    walk = _Walk(maker, set(keep or ()), ends_too=keep is not None, at_once=isinstance(calls, list))
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            # Before any other hook: one that is stopped here must not have begun something.
            layer.register_forward_pre_hook(partial(walk.arrive, name), with_kwargs=True, prepend=True)
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        first: Tensor | None = None
        varied = False
        while not walk.ended:
            walk.begin_pass()
            for call in calls:
                first = _sample(call) if first is None else first
                varied = varied or _differs(call, first)
                args, kwargs = copied((call.args, dict(call.kwargs)), device)
                walk.begin_call()
                try:
                    model(*args, **kwargs)
                except _Stopped:
                    continue
            walk.end_pass(dict(layers))
    made = walk.made(layers)
    if not varied:
        raise ValueError("the batch is one sample again and again, so it has one direction: give different ones")
    return made


def _sample(call: Call) -> Tensor:
    return next(tensors_in((call.args, call.kwargs)))[:1]


def _differs(call: Call, first: Tensor) -> bool:
    """Whether another sample than the first is in the call, or none to compare with."""
    given = next(tensors_in((call.args, call.kwargs)))
    return len(given) == 1 or given.shape[1:] != first.shape[1:] or bool((given != first).any())


class _Stopped(Exception):  # noqa: N818 - no error: the rest of the network need not see this batch
    """A layer has its input, and other batches must come before it can be made."""


class _Walk:
    """How far the layers are made, and what was called in what order."""

    def __init__(self, maker: Maker, kept: set[str], ends_too: bool, at_once: bool) -> None:
        self.maker, self.kept, self.ends_too, self.at_once = maker, kept, ends_too, at_once
        self.done: list[str] = []
        self.ended = False
        self.waiting: str | None = None  # the layer that this pass looks at
        self.failed: str | None = None  # the layer that could not be made: no matter, if it is the last of all
        self.failure: ValueError | None = None
        self.called: list[str] = []
        self.calls = 0

    def begin_pass(self) -> None:
        self.waiting = None
        self.calls = 0

    def begin_call(self) -> None:
        self.called = []
        self.calls += 1

    def arrive(self, name: str, layer: WeightLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.failure is not None and self.failed in self.called:
            raise self.failure
        again, first = name in self.called, not self.called
        self.called.append(name)
        if name in self.kept:
            return
        if first and not self.ends_too:
            self.kept.add(name)
            return
        if again:
            raise ValueError(
                f"layer {name!r} is called more than once in a forward pass, so it has no one place in forward order: "
                "name it in `keep`"
            )
        if name not in self.done:
            self._look(name, layer, args, kwargs)

    def _look(self, name: str, layer: WeightLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.waiting not in (None, name):
            raise ValueError(
                f"after the same layers one batch of the stream comes to layer {self.waiting!r} and another to "
                f"{name!r}: there is no one forward order"
            )
        try:
            check_served(name, layer)
            self.maker.see(name, layer, _input(name, args, kwargs))
            if self.at_once:
                self._make(name, layer)
        except ValueError as reason:
            self._fail(name, reason)
        if not self.at_once:
            self.waiting = name
            raise _Stopped

    def _make(self, name: str, layer: WeightLayer) -> None:
        try:
            self.maker.make(name, layer)
        except (RuntimeError, TypeError, ValueError) as reason:
            if not parametrize.is_parametrized(layer, "weight"):
                raise
            raise ValueError(
                f"layer {name!r} is parametrized and refuses a weight made for a batch, so no layer was changed: "
                "parametrize it after initialising"
            ) from reason
        self.done.append(name)

    def _fail(self, name: str, reason: ValueError) -> None:
        if self.ends_too:
            raise reason
        self.failed, self.failure = name, reason
        self.done.append(name)

    def end_pass(self, layers: Mapping[str, WeightLayer]) -> None:
        if not self.calls:
            raise ValueError("the stream has no batch: give an iterable that can be gone through again and again")
        if self.at_once or self.waiting is None:
            self.ended = True
        elif self.waiting not in self.done:
            try:
                self._make(self.waiting, layers[self.waiting])
            except ValueError as reason:
                self._fail(self.waiting, reason)

    def made(self, layers: list[tuple[str, WeightLayer]]) -> list[tuple[str, WeightLayer]]:
        """Layers in the order they were called, once it is clear that all of them were."""
        by_name = dict(layers)
        for name in by_name:
            if name not in self.called and name not in self.kept:
                raise ValueError(
                    f"layer {name!r} is not called in a forward pass (its weight may be used without it, as attention "
                    "does), so its place in forward order cannot be found: name it in `keep`"
                )
        last = self.called[-1] if self.called else None
        names = [name for name in self.done if self.ends_too or name != last]
        if not names:
            raise ValueError(
                "no weight layer is left to make: a network has hidden layers from depth 3 on, or give keep=()"
            )
        return [(name, by_name[name]) for name in names]


def _input(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor):
        raise ValueError(
            f"layer {name!r} is called with a {type(given).__name__} for its input, which cannot be followed: "
            "name it in `keep`"
        )
    return given


def _check(layers: list[tuple[str, WeightLayer]], keep: Collection[str] | None) -> None:
    names = [name for name, _ in layers]
    unknown = [name for name in keep or () if name not in names]
    if unknown:
        raise ValueError(f"there is no weight layer {unknown[0]!r} to keep: choose of {', '.join(names)}")
    owners: dict[int, str] = {}
    for name, layer in layers:
        for parameter in layer.parameters():
            owner = owners.setdefault(id(parameter), name)
            if owner != name and not {owner, name} <= set(keep or ()):
                raise ValueError(
                    f"layers {owner!r} and {name!r} share a weight, so it has no one place in forward order: "
                    "name both in `keep`"
                )
        if keep is not None and name in keep:
            continue
        if is_lazy(layer.weight):
            raise ValueError(f"layer {name!r} has no weight yet: run one batch through the model first")
        if is_sharded(layer.weight):
            raise ValueError(
                f"layer {name!r} is sharded, and ranks would make it for batches of their own: shard it afterwards"
            )


def _stream(model: nn.Module, batch: Any) -> Iterable[Call]:
    """A list of one call for one batch; else an iterable of calls that can be gone through again."""
    if isinstance(batch, Iterator):
        raise ValueError(
            f"a {type(batch).__name__} can be gone through only once, and every layer needs all of the stream: "
            "give a DataLoader, or an object with __iter__"
        )
    if isinstance(batch, ONE_BATCH) or not isinstance(batch, Iterable):
        return [as_call(model, batch)]
    return _Stream(model, batch)


class _Stream:
    """Every batch of an iterable as a call; a pair is input and target, as a DataLoader gives them."""

    def __init__(self, model: nn.Module, batches: Iterable[Any]) -> None:
        self.model, self.batches = model, batches

    def __iter__(self) -> Iterator[Call]:
        return (as_call(self.model, batch, with_target=True) for batch in self.batches)
