"""From the text a user types to a network, `resolve`, and to a batch, `resolve_batch`."""

import difflib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from orthoscope.models.targets import hugging_face, timm_zoo
from orthoscope.models.targets.builtin import BUILTIN, resolve_builtin
from orthoscope.models.targets.calls import parse_call
from orthoscope.models.targets.guess import batch_for
from orthoscope.models.targets.target import Batch, BatchSource, Target, TargetError, drawn_from
from orthoscope.models.targets.user_code import UserCode, find, running

__all__ = ["BUILTIN", "Batch", "BatchSource", "Target", "TargetError", "parse_call", "resolve", "resolve_batch"]

ZOOS: dict[str, Callable[[str], Target]] = {
    timm_zoo.PREFIX: timm_zoo.resolve_timm,
    hugging_face.PREFIX: hugging_face.resolve_hugging_face,
}

_FORMS = "package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME"


def resolve(text: str) -> Target:
    """The network that the text names.

    `package.module:callable`, `path/to/file.py::callable`, a built-in such as `mlp(depth=50)`, `timm:NAME`
    or `hf:NAME(config overrides)`. Everything wrong with the text is a TargetError of one sentence.
    """
    text = text.strip()
    name = text.partition("(")[0].strip()
    if name in BUILTIN:
        return resolve_builtin(text)
    for prefix, zoo in ZOOS.items():
        if text.startswith(prefix) and not text.startswith(prefix + ":"):
            return zoo(text)
    if ":" in name:
        return _user_network(find(text))
    close = difflib.get_close_matches(name, BUILTIN, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    raise TargetError(f"{text!r} is no target: give {_FORMS}, or one of {', '.join(BUILTIN)}{meant}")


def resolve_batch(text: str) -> BatchSource:
    """What makes the batch that the text names: a function, or a tensor, tuple, dict or DataLoader.

    The function is called without arguments, but for `samples` and `generator` if it has such parameters;
    a DataLoader stands for its first batch.
    """
    text = text.strip()
    if ":" not in text.partition("(")[0]:
        raise TargetError(f"{text!r} is no batch: give package.module:function or path/to/file.py::function")
    code = find(text)

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        with drawn_from(generator):
            found = code.found
            if not _is_batch(found):
                found = code.call(**_wanted(found, samples=samples, generator=generator))
            return _as_batch(text, found)

    return batch


def _user_network(code: UserCode) -> Target:
    guessed: list[BatchSource] = []

    def build(generator: torch.Generator | None) -> nn.Module:
        model = code.found
        if not isinstance(model, nn.Module):
            with drawn_from(generator):
                model = code.call()
        if not isinstance(model, nn.Module):
            raise TargetError(f"{code.text!r} returned a {type(model).__name__}: it must return an nn.Module")
        return model

    def batch(samples: int = 64, generator: torch.Generator | None = None) -> Batch:
        if not guessed:
            # A generator of its own: the batch must not depend on whether the network was asked for before.
            guessed.append(batch_for(code.text, build(torch.Generator().manual_seed(0))))
        return guessed[0](samples, generator)

    return Target(code.text, build, batch)


def _is_batch(found: Any) -> bool:
    return isinstance(found, Tensor | tuple | list | dict | DataLoader)


def _as_batch(text: str, found: Any) -> Batch:
    if isinstance(found, DataLoader):
        with running(text):
            found = next(iter(found), None)
    if isinstance(found, list):
        found = tuple(found)  # what a DataLoader makes of pairs
    if isinstance(found, Tensor | tuple | dict):
        return found
    raise TargetError(
        f"{text!r} gave a {type(found).__name__}: "
        "a batch is a tensor, a tuple, a dict or a DataLoader that is not empty"
    )


def _wanted(function: Any, **offered: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in offered.items() if name in parameters}
