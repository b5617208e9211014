"""What a sweep asks of an engine."""

import importlib
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Protocol, runtime_checkable

Work = Callable[[str], str]


@runtime_checkable
class Engine(Protocol):
    """Takes jobs and answers them; a future that ends in an exception means that its worker was lost."""

    slots: int | None
    """How many jobs it is given at a time; None: all at once."""

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Begin a job, or queue it."""
        ...

    def close(self, *, at_once: bool) -> None:
        """End everything that this engine started; `at_once`: also what is under way."""
        ...


def required(package: str, engine: str, install: str) -> ModuleType:
    """A package that only this engine needs; ModuleNotFoundError says how to get it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"engine={engine!r} needs {package}, which is not installed here: pip install {install}"
        ) from error
