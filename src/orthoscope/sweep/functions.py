"""Functions travel by name, `module:function`: nothing is pickled, and a store says what its runs are runs of."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAIN = "__main__"


def name_of(function: Callable[..., Any]) -> str:
    """The name by which a worker finds a function; TypeError if it cannot."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not path or "<" in path:
        raise TypeError(
            f"{path or function!r} is a lambda, a local function or another object without a lasting name, and workers "
            "find a function by its name: define it with `def` at the top of a module"
        )
    name = f"{_script() if module == MAIN else module}:{path}"
    # A script is not imported a second time here, only by its workers.
    if module != MAIN and _found(name) is not function:
        raise TypeError(
            f"{name} is not the function that was given (a method, or replaced since): workers find it by name"
        )
    return name


def function_named(name: str) -> Callable[[dict[str, Any]], Any]:
    """The function behind a name; ImportError or AttributeError if there is none."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _found(name: str) -> Any:
    try:
        return function_named(name)
    except (ImportError, AttributeError):
        return None


def _script() -> str:
    """The name under which the running program can be imported: that of `python -m a.b`, or of its file."""
    main = sys.modules[MAIN]
    specification = getattr(main, "__spec__", None)
    if specification is not None:
        return str(specification.name)
    file = getattr(main, "__file__", None)
    if file is not None and Path(file).stem.isidentifier():
        found = importlib.util.find_spec(Path(file).stem)
        if found is not None and found.origin is not None and os.path.samefile(found.origin, file):
            return Path(file).stem
    raise TypeError("a function of an interactive session has no file that workers could import: put it in one")
