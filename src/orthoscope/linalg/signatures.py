"""Signatures that are read once: torch asks for that of an autograd function's forward at every call."""

import inspect
from collections.abc import Callable
from typing import TypeVar

Body = TypeVar("Body", bound=Callable[..., object])


def with_known_signature(function: Body) -> Body:
    """The same function, with its signature in the attribute where `inspect.signature` looks first.

    For the `forward` of a `torch.autograd.Function` that has a `setup_context`: to find the signature again takes
    as long as three or four products of small matrices.
    """
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function
