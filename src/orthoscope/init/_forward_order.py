"""Data-dependent weights set layer by layer in the order of a forward pass, by hooks; all of them or none.

One forward pass is enough: each layer is written when its input arrives.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.init.weights import WeightLayer, check_kept, check_unsharded, weight_layers
from orthoscope.probe.restore import probing_mode, untouched
from orthoscope.probe.samples import Call, copied, tensors_in

# Computes and writes the weight of a layer from the layer's input.
Make: TypeAlias = Callable[[str, WeightLayer, Tensor], None]


def in_forward_order(
    model: nn.Module, call: Call, keep: Collection[str] | None, make: Make
) -> list[tuple[str, WeightLayer]]:
    """Let `make` compute the weight of every layer from its input, then restore the model.

    The caller writes the weights afterwards, so that a failure changes nothing.

    Args:
        model: The network.
        call: The batch, as the arguments of the network.
        keep: Names of layers to leave unchanged. None for the first and the last layer that are called; the last is
            known only at the end, so it is computed and discarded, and a failure to compute it is ignored.
        make: Computes the weights.

    Returns:
        The layers whose weights were computed, with their names, in forward order.
    """
    layers = weight_layers(model)
    _check(layers, keep)
    progress = _Progress(make, set(keep or ()), includes_ends=keep is not None)
    samples = next(tensors_in((call.args, call.kwargs)))
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            layer.register_forward_pre_hook(partial(progress.arrive, name), with_kwargs=True, prepend=True)
        args, kwargs = copied((call.args, dict(call.kwargs)), device)
        model(*args, **kwargs)
    made = progress.made(layers)
    # A single sample cannot be compared.
    if len(samples) > 1 and not bool((samples != samples[:1]).any()):
        raise ValueError("the batch is one sample repeated, which has rank 1: give different samples")
    return made


class _Progress:
    """Which layers were called, in order, and which of them are set."""

    def __init__(self, make: Make, kept: set[str], includes_ends: bool) -> None:
        self.make, self.kept, self.includes_ends = make, kept, includes_ends
        self.called: list[str] = []
        self.done: list[str] = []
        self.failure: ValueError | None = None  # of a layer that could not be set; ignored if it is the last of all

    def arrive(self, name: str, layer: WeightLayer, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if self.failure is not None:
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
        try:
            self._make(name, layer, _input(name, args, kwargs))
        except ValueError as reason:
            if self.includes_ends:
                raise
            self.failure = reason
        self.done.append(name)

    def _make(self, name: str, layer: WeightLayer, inputs: Tensor) -> None:
        try:
            self.make(name, layer, inputs)
        except (RuntimeError, TypeError, ValueError) as reason:
            if not parametrize.is_parametrized(layer, "weight"):
                raise
            raise ValueError(
                f"layer {name!r} is parametrized and refuses the computed weight, so no layer was changed: "
                "parametrize it after initializing"
            ) from reason

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
