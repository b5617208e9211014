"""The networks of Orthoscope by name: `mlp(depth=50, activation=relu)`."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import nn

from orthoscope.data import gaussians, images, tokens
from orthoscope.models.convolutional import ConvNet, alexnet_like
from orthoscope.models.mlp import MLP
from orthoscope.models.resnet import ResNet
from orthoscope.models.targets.target import Batch, Target, TargetError, parse_call
from orthoscope.models.transformer import Transformer

Arguments = Mapping[str, Any]
Generator = torch.Generator | None
Made = TypeVar("Made")


@dataclass(frozen=True)
class Builtin:
    """The factory of a network, and of a batch from the network's arguments."""

    factory: Callable[..., nn.Module]
    batch: Callable[[Arguments, int, Generator], Batch]

    def accepted(self) -> dict[str, Any]:
        """The arguments a user may give, with their defaults."""
        parameters = inspect.signature(self.factory).parameters.values()
        return {p.name: p.default for p in parameters if p.name not in ("self", "generator")}


def _vector_batch(arguments: Arguments, samples: int, generator: Generator) -> Batch:
    units = arguments["in_features"]
    return gaussians(samples, arguments["width"] if units is None else units, generator=generator)


def _image_batch(arguments: Arguments, samples: int, generator: Generator) -> Batch:
    size = arguments.get("image_size", 32)
    return images(samples, arguments["in_channels"], size, size, generator=generator)


def _token_batch(arguments: Arguments, samples: int, generator: Generator) -> Batch:
    return tokens(samples, arguments["length"], arguments["vocabulary"], generator=generator)


BUILTIN: dict[str, Builtin] = {
    "mlp": Builtin(MLP, _vector_batch),
    "convnet": Builtin(ConvNet, _image_batch),
    "alexnet_like": Builtin(alexnet_like, _image_batch),
    "resnet": Builtin(ResNet, _image_batch),
    "transformer": Builtin(Transformer, _token_batch),
}


def resolve_builtin(text: str) -> Target:
    """The target of a call such as `mlp(depth=50)`; its name must be in `BUILTIN`."""
    name, given = parse_call(text)
    builtin = BUILTIN[name]
    accepted = builtin.accepted()
    for argument in given:
        if argument not in accepted:
            raise TargetError(f"{name} has no argument {argument!r}: choose from {', '.join(accepted)}")
    arguments = accepted | given

    def build(generator: Generator) -> nn.Module:
        return _checked(text, partial(builtin.factory, **given, generator=generator))

    def batch(samples: int = 64, generator: Generator = None) -> Batch:
        return _checked(text, partial(builtin.batch, arguments, samples, generator))

    return Target(text, build, batch)


def _checked(text: str, make: Callable[[], Made]) -> Made:
    """Turn an exception of the factory, caused by a wrong argument, into a TargetError."""
    try:
        return make()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TargetError(f"{text!r} cannot be built: {error}") from error
