"""From text to a network (`resolve`) and to a batch (`resolve_batch`); a missing batch is guessed from the network."""

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from orthoscope.data import gaussians, images, tokens
from orthoscope.models.convolutional import ConvNet
from orthoscope.models.mlp import MLP
from orthoscope.models.resnet import ResNet
from orthoscope.models.targets import hugging_face, timm_zoo
from orthoscope.models.targets.target import Batch, BatchSource, Target, TargetError, batches, drawn_from, parse_call
from orthoscope.models.targets.user_code import UserCode, find, running
from orthoscope.models.transformer import Transformer

Made = TypeVar("Made")


@dataclass(frozen=True)
class Builtin:
    """The factory of a network, and the source of its batches from the network's arguments."""

    factory: Callable[..., nn.Module]
    batch: Callable[[Mapping[str, Any]], BatchSource]

    def arguments(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of the network, those not given with their defaults."""
        parameters = inspect.signature(self.factory).parameters.values()
        accepted = {p.name: p.default for p in parameters if p.name not in ("self", "generator")}
        for argument in given:
            if argument not in accepted:
                raise TargetError(f"{name} has no argument {argument!r}: choose from {', '.join(accepted)}")
        return accepted | dict(given)


def _vectors(given: Mapping[str, Any]) -> BatchSource:
    return batches(gaussians, given["width"] if given["in_features"] is None else given["in_features"])


def _images(given: Mapping[str, Any]) -> BatchSource:
    size = given.get("image_size", _IMAGE_SIZE)
    return batches(images, given["in_channels"], size, size)


BUILTIN: dict[str, Builtin] = {
    "mlp": Builtin(MLP, _vectors),
    "convnet": Builtin(ConvNet, _images),
    "resnet": Builtin(ResNet, _images),
    "transformer": Builtin(Transformer, lambda given: batches(tokens, given["length"], given["vocabulary"])),
}

ZOOS: dict[str, Callable[[str], Target]] = {
    timm_zoo.PREFIX: timm_zoo.resolve_timm,
    hugging_face.PREFIX: hugging_face.resolve_hugging_face,
}

_FORMS = "package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME"
_IMAGE_SIZE = 32  # pixels of an image whose size is not given
_LENGTH = 32  # tokens of a guessed sequence


def resolve(text: str) -> Target:
    """The network that the text names.

    Args:
        text: `package.module:callable`, `path/to/file.py::callable`, a built-in such as `mlp(depth=50)`, `timm:NAME` or
            `hf:NAME(config overrides)`.

    Raises:
        TargetError: If the text names no network; the message is one sentence with the remedy.

    Example:
        >>> orthoscope.models.resolve("mlp(depth=2, width=8)").name
        'mlp(depth=2, width=8)'
    """
    text = text.strip()
    name = text.partition("(")[0].strip()
    if name in BUILTIN:
        return _builtin_network(text)
    for prefix, zoo in ZOOS.items():
        if text.startswith(prefix) and not text.startswith(prefix + ":"):
            return zoo(text)
    if ":" in name:
        return _user_network(find(text))
    close = difflib.get_close_matches(name, BUILTIN, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise TargetError(f"{text!r} is not a target: give {_FORMS}, or one of {', '.join(BUILTIN)}{meant}")


def _builtin_network(text: str) -> Target:
    name, given = parse_call(text)
    builtin = BUILTIN[name]
    arguments = builtin.arguments(name, given)

    def checked(make: Callable[[], Made]) -> Made:
        try:
            return make()
        except (TypeError, ValueError, RuntimeError) as error:  # of the factory, for a wrong argument
            raise TargetError(f"{text!r} cannot be built: {error}") from error

    def build(generator: torch.Generator | None) -> nn.Module:
        return checked(partial(builtin.factory, **given, generator=generator))

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        return checked(lambda: builtin.batch(arguments)(samples, generator))

    return Target(text, build, batch)


def _user_network(code: UserCode) -> Target:
    guessed: list[BatchSource] = []

    def build(generator: torch.Generator | None) -> nn.Module:
        model = code.found
        if not isinstance(model, nn.Module):
            with drawn_from(generator):
                model = code.call()
        if not isinstance(model, nn.Module):
            raise TargetError(
                f"{code.text!r} returned an object of type {type(model).__name__}: it must return an nn.Module"
            )
        return model

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        if not guessed:
            # A generator of its own: the batch must not depend on whether the network was built before.
            guessed.append(batch_for(code.text, build(torch.Generator().manual_seed(0))))
        return guessed[0](samples, generator)

    return Target(code.text, build, batch)


def batch_for(text: str, model: nn.Module) -> BatchSource:
    """A batch for a network that came without one: from timm's and transformers' metadata, else the first layer."""
    config = getattr(model, "config", None)
    if hasattr(config, "model_type") and hasattr(model, "main_input_name"):
        return partial(hugging_face.batch_for_config, text, config, str(model.main_input_name))
    settings = getattr(model, "pretrained_cfg", None)
    if isinstance(settings, Mapping) and "input_size" in settings:
        return batches(images, *settings["input_size"])
    leaves = (m for m in model.modules() if next(m.children(), None) is None)
    first = next((m for m in leaves if next(m.parameters(), None) is not None), None)
    if isinstance(first, nn.Linear):
        return batches(gaussians, first.in_features)
    if isinstance(first, nn.Conv2d):
        return batches(images, first.in_channels, _IMAGE_SIZE, _IMAGE_SIZE)
    if isinstance(first, nn.Embedding):
        return batches(tokens, _LENGTH, first.num_embeddings)
    seen = "it has no layer with weights" if first is None else f"its first layer is a {type(first).__name__}"
    raise TargetError(
        f"no batch can be guessed for {text!r} ({seen}, not a Linear, Conv2d or Embedding): "
        "give one with --batch package.module:function"
    )


def resolve_batch(text: str) -> BatchSource:
    """The source of the batch that the text names.

    Args:
        text: `package.module:name` or `path/to/file.py::name` of a function, tensor, tuple, dict or DataLoader (its
            first batch is used). A function gets `samples` and `generator` if it has such parameters.

    Raises:
        TargetError: If the text names no batch; calling the source raises one if the user's code fails.
    """
    text = text.strip()
    if ":" not in text.partition("(")[0]:
        raise TargetError(f"{text!r} is not a batch: give package.module:function or path/to/file.py::function")
    code = find(text)

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        with drawn_from(generator):
            found = code.found
            if not isinstance(found, Tensor | tuple | list | dict | DataLoader):
                found = code.call(**_wanted(found, samples=samples, generator=generator))
            return _as_batch(text, found)

    return batch


def _as_batch(text: str, found: Any) -> Batch:
    if isinstance(found, DataLoader):
        with running(text):
            found = next(iter(found), None)
    if isinstance(found, list):
        found = tuple(found)  # a DataLoader collates pairs to lists
    if isinstance(found, Tensor | tuple | dict):
        return found
    raise TargetError(
        f"{text!r} gave an object of type {type(found).__name__}: "
        "a batch is a tensor, a tuple, a dict or a DataLoader that is not empty"
    )


def _wanted(function: Any, **offered: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in offered.items() if name in parameters}
