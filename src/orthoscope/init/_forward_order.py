"""Data-dependent weights set layer by layer in the order of a forward pass, by hooks; all of them or none.

A `Maker` gets the input of a layer and computes its weight. For one batch a single forward pass is enough: each layer
is written when its input arrives. For a stream every layer needs all batches before the next one can be computed, so
there is one pass over the stream per layer, stopped at that layer.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.init.weights import WeightLayer, check_kept, check_unsharded, weight_layers
from orthoscope.probe.batches import as_call
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import Call, copied, tensors_in


@runtime_checkable
class Maker(Protocol):
    """Computes weights: `see` accumulates the input of a layer, `make` then writes the layer's weight."""

    def see(self, name: str, layer: WeightLayer, inputs: Tensor) -> None:
        """Accumulate (a part of) the layer's input."""

    def make(self, name: str, layer: WeightLayer) -> None:
        """Write the layer's weight."""


# Types that are one batch; any other iterable is a stream of batches.
ONE_BATCH = (Call, Tensor, Mapping, tuple, list)


def in_forward_order(
    model: nn.Module, batch: Any, keep: Collection[str] | None, maker: Maker
) -> list[tuple[str, WeightLayer]]:
    """Let `maker` compute the weight of every layer from its input, then restore the model.

    The caller writes the weights afterwards, so that a failure changes nothing.

    Args:
        model: The network.
        batch: One batch, or an iterable of batches that can be iterated repeatedly.
        keep: Names of layers to leave unchanged. None for the first and the last layer that are called; the last is
            known only at the end, so it is computed and discarded, and a failure to compute it is ignored.
        maker: Computes the weights.

    Returns:
        The layers whose weights were computed, with their names, in forward order.
    """
    layers = weight_layers(model)
    _check(layers, keep)
    if isinstance(batch, Iterator):
        raise ValueError(
            f"a {type(batch).__name__} can be iterated only once, and every layer needs the whole stream: "
            "give a DataLoader, or an object with __iter__"
        )
    at_once = isinstance(batch, ONE_BATCH) or not isinstance(batch, Iterable)
    progress = _Progress(maker, set(keep or ()), includes_ends=keep is not None, at_once=at_once)
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            # Prepended: hooks of the user must not run before a pass is stopped here.
            layer.register_forward_pre_hook(partial(progress.arrive, name), with_kwargs=True, prepend=True)
        device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
        first: Tensor | None = None
        varied = False
        while not progress.ended:
            progress.begin_pass()
            # A pair in a stream is input and target, as a DataLoader yields them.
            for call in (as_call(model, one, with_target=not at_once) for one in ([batch] if at_once else batch)):
                samples = next(tensors_in((call.args, call.kwargs)))
                first = samples[:1] if first is None else first
                # One sample, or another shape, cannot be compared.
                comparable = len(samples) > 1 and samples.shape[1:] == first.shape[1:]
                varied = varied or not comparable or bool((samples != first).any())
                args, kwargs = copied((call.args, dict(call.kwargs)), device)
                progress.begin_call()
                try:
                    model(*args, **kwargs)
                except _Stopped:
                    continue
            progress.end_pass(dict(layers))
    made = progress.made(layers)
    if not varied:
        raise ValueError("the batch is one sample repeated, which has rank 1: give different samples")
    return made


class _Stopped(Exception):  # noqa: N818 - not an error: ends the forward pass of one batch early
    """The layer has seen its input of this batch and needs the other batches before it can be set."""


class _Progress:
    """State of the passes: which layers are set, and the order in which layers were called."""

    def __init__(self, maker: Maker, kept: set[str], includes_ends: bool, at_once: bool) -> None:
        self.maker, self.kept, self.includes_ends, self.at_once = maker, kept, includes_ends, at_once
        self.done: list[str] = []
        self.ended = False
        self.waiting: str | None = None  # the layer whose input this pass accumulates
        self.failed: str | None = None  # a layer that could not be set; ignored if it is the last of all
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
        if first and not self.includes_ends:
            self.kept.add(name)
            return
        if again:
            raise ValueError(
                f"layer {name!r} is called more than once in a forward pass, so its place in forward order is not "
                "unique: name it in `keep`"
            )
        if name not in self.done:
            self._visit(name, layer, args, kwargs)

    def _visit(self, name: str, layer: WeightLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.waiting not in (None, name):
            raise ValueError(
                f"after the same layers one batch of the stream reaches layer {self.waiting!r} and another {name!r}: "
                "the forward order depends on the batch"
            )
        try:
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
                f"layer {name!r} is parametrized and refuses the computed weight, so no layer was changed: "
                "parametrize it after initializing"
            ) from reason
        self.done.append(name)

    def _fail(self, name: str, reason: ValueError) -> None:
        if self.includes_ends:
            raise reason
        self.failed, self.failure = name, reason
        self.done.append(name)

    def end_pass(self, layers: Mapping[str, WeightLayer]) -> None:
        if not self.calls:
            raise ValueError("the stream has no batch: give an iterable that can be iterated repeatedly")
        if self.at_once or self.waiting is None:
            self.ended = True
        elif self.waiting not in self.done:
            try:
                self._make(self.waiting, layers[self.waiting])
            except ValueError as reason:
                self._fail(self.waiting, reason)

    def made(self, layers: list[tuple[str, WeightLayer]]) -> list[tuple[str, WeightLayer]]:
        """Layers in the order of their calls; a ValueError if one was never called."""
        by_name = dict(layers)
        for name in by_name:
            if name not in self.called and name not in self.kept:
                raise ValueError(
                    f"layer {name!r} is not called in a forward pass (its weight may be used without it, as attention "
                    "does), so its place in forward order cannot be found: name it in `keep`"
                )
        last = self.called[-1] if self.called else None
        names = [name for name in self.done if self.includes_ends or name != last]
        if not names:
            raise ValueError(
                "no weight layer is left to set: a network has hidden layers from depth 3 on, or give keep=()"
            )
        return [(name, by_name[name]) for name in names]


def _input(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    given = args[0] if args else kwargs.get("input")
    if not isinstance(given, Tensor):
        raise ValueError(
            f"layer {name!r} is called with a {type(given).__name__} instead of a tensor: name it in `keep`"
        )
    return given


def _check(layers: list[tuple[str, WeightLayer]], keep: Collection[str] | None) -> None:
    check_kept(layers, keep or ())
    owners: dict[int, str] = {}
    for name, layer in layers:
        for parameter in layer.parameters():
            owner = owners.setdefault(id(parameter), name)
            if owner != name and not {owner, name} <= set(keep or ()):
                raise ValueError(
                    f"layers {owner!r} and {name!r} share a weight, so its place in forward order is not unique: "
                    "name both in `keep`"
                )
        if keep is None or name not in keep:
            check_unsharded(name, layer)
