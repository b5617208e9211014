"""Parametrized modules that can be pickled, saved whole, sent to another process, and copied independently.

torch gives a parametrized module a class of its own, made on the spot, which nothing can import by name.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize


def make_picklable(module: nn.Module) -> None:
    """Teach the class that torch made for this parametrized module to leave by parts and to be rebuilt."""
    made = type(module)
    made.__reduce_ex__ = _reduce  # type: ignore[assignment]
    # torch's copies share that class, so that removing the parametrization of one breaks the other.
    if "__deepcopy__" in vars(made):
        made.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]


def blank_parametrized(cls: type[nn.Module], names: tuple[str, ...]) -> nn.Module:
    """A module of a class like `cls` whose attributes `names` are parametrized; its state is still to be set."""
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name in names:
        module.register_parameter(name, nn.Parameter(torch.empty(0)))
        parametrize.register_parametrization(module, name, nn.Identity(), unsafe=True)
    make_picklable(module)
    return module


def _parts(module: nn.Module) -> tuple[type[nn.Module], tuple[str, ...], Any]:
    names = tuple(module.parametrizations)  # type: ignore[arg-type]
    cls = parametrize.type_before_parametrizations(module)
    # Recurrent layers recompute their weights here; a graph behind those could not be copied.
    with torch.no_grad():
        return cls, names, cls.__getstate__(module)  # type: ignore[call-arg]


def _reduce(module: nn.Module, protocol: Any) -> tuple[Callable[..., nn.Module], tuple[Any, ...], Any]:
    cls, names, state = _parts(module)
    return blank_parametrized, (cls, names), state


def _deepcopy(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    cls, names, state = _parts(module)
    memo[id(module)] = duplicate = blank_parametrized(cls, names)
    duplicate.__setstate__(copy.deepcopy(state, memo))
    return duplicate
