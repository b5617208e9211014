"""Find and run the user's code: `package.module:callable` or `path/to/file.py::callable`."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from orthoscope.models.targets.target import TargetError, parse_call


@dataclass(frozen=True)
class UserCode:
    """An object of the user's code, and the arguments to call it with."""

    text: str
    found: Any
    arguments: dict[str, Any]
    folders: tuple[Path, ...]  # importable while the code runs

    def call(self, **more: Any) -> Any:
        """Call the object; an exception becomes a TargetError that names it."""
        if not callable(self.found):
            raise TargetError(
                f"{self.text!r} is an object of type {type(self.found).__name__}: name a function or class"
            )
        with running(self.text, *self.folders):
            return self.found(**self.arguments, **more)


def find(text: str) -> UserCode:
    """Import the module or run the file, and follow the attributes."""
    place, separator, rest = text.partition("::" if "::" in text else ":")
    path, arguments = parse_call(rest)
    if not place or not path:
        raise TargetError(f"{text!r} is incomplete: write package.module:callable or file.py::callable")
    folders: tuple[Path, ...] = (Path.cwd(),)
    if separator == "::":
        file = Path(place).expanduser().absolute()
        if not file.is_file():
            raise TargetError(f"there is no file {place!r}: write path/to/file.py::callable")
        folders = (file.parent, *folders)
        with running(text, *folders):
            module = _run_file(file)
    elif place.endswith(".py"):
        raise TargetError(f"{text!r} names a file with one colon: write {place}::{path}")
    else:
        module = _import(place, text, folders)
    return UserCode(text, _attribute(module, path, text), arguments, folders)


@contextmanager
def running(text: str, *folders: Path) -> Iterator[None]:
    """Run user code with its folders importable, as under `python -m`; exceptions become TargetErrors."""
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        yield
    except TargetError:
        raise
    # A script may call sys.exit: SystemExit is not an Exception.
    except (Exception, SystemExit) as error:
        message = next(iter(str(error).strip().splitlines()), "no message")
        raise TargetError(f"{text!r} raised {type(error).__name__}: {message}") from error
    finally:
        # Only what was added here: user code may have added folders of its own.
        for folder in added:
            sys.path.remove(folder)


def _import(name: str, text: str, folders: tuple[Path, ...]) -> ModuleType:
    with running(text, *folders):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            # Only if this module or a package around it is missing, not a module that it imports.
            missing = error.name or ""
            if name != missing and not name.startswith(f"{missing}."):
                raise
            raise TargetError(
                f"there is no module {missing!r} (for {text!r}): install it, or run in the folder that has it"
            ) from error


def _run_file(file: Path) -> ModuleType:
    # A unique name: a user's `model.py` or `test.py` must not shadow, or be shadowed by, another module.
    name = f"orthoscope_target_{file.stem}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise TargetError(f"{str(file)!r} is not a Python file: write path/to/file.py::callable")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses and pickles look their module up by name.
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, path: str, text: str) -> Any:
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            names = getattr(found, "__dict__", {})
            offered = [n for n, value in names.items() if callable(value) and not n.startswith("_")]
            owner = getattr(found, "__name__", type(found).__name__).removeprefix("orthoscope_target_")
            raise TargetError(f"{owner!r} has no {name!r} (for {text!r}): it offers {', '.join(offered) or 'nothing'}")
        found = getattr(found, name)
    return found
