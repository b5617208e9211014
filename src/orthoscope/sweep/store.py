"""A store of finished runs: one JSON file per run, written atomically and named by what was run.

A run is identified by its function, the version of the experiment's code and its configuration. Functions are known by
name, `module:function`; nothing is pickled. A file is read as a run only if it is intact; any other file is reported as
a problem.
"""

import hashlib
import importlib
import importlib.util
import json
import math
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NamedTuple

from orthoscope.files import replace

SCHEMA = "orthoscope.run/1"
RUNS = "runs"
CHECKSUM = "checksum"
# Strict JSON has no nan and no infinity: they are written {"$float": "nan"}.
MARK = "$float"
# 128 bits: two of a billion runs share a key with probability 1e-21.
DIGITS = 32
MAIN = "__main__"


@dataclass(frozen=True)
class Run:
    """A finished run: nothing in it but `seconds` depends on where it was executed.

    Attributes:
        function: Name of the function, `module:function`.
        version: Version of the experiment's code.
        config: What the function was called with.
        result: What it returned.
        seconds: Duration.
        versions: Of Python and of the packages that results depend on.
    """

    function: str
    version: str
    config: dict[str, Any]
    result: Any
    seconds: float
    versions: dict[str, str]


class Problem(NamedTuple):
    """A file of a store that is not an intact run, and the reason.

    Attributes:
        path: The file.
        reason: What is wrong with it.
    """

    path: Path
    reason: str


class Runs(NamedTuple):
    """The runs of a store, by file name, and the files that were left out.

    Attributes:
        runs: The intact runs.
        problems: The files that were left out.
    """

    runs: list[Run]
    problems: list[Problem]


def read_runs(
    store: str | Path,
    function: Callable[..., Any] | str | None = None,
    version: str | None = None,
) -> Runs:
    """Read all runs of a store, or those of one function and version.

    Args:
        store: The folder.
        function: The function, or its name `module:function`; None for all.
        version: Version of the experiment's code; None for all.

    Raises:
        FileNotFoundError: If the folder is no store.
    """
    if version is not None:
        check_version(version)
    folder = Path(store) / RUNS
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no sweep in {str(store)!r}: it has no folder {RUNS!r}")
    name = function if function is None or isinstance(function, str) else name_of(function)
    table = Runs([], [])
    # Hidden files are being written.
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            run = read_run(path)
            if name in (None, run.function) and version in (None, run.version):
                table.runs.append(run)
        except FileNotFoundError:
            continue
        except ValueError as error:
            table.problems.append(Problem(path, str(error)))
    return table


def run_path(store: Path, key: str) -> Path:
    """Return the path of a finished run."""
    return store / RUNS / f"{key}.json"


def write_run(path: Path, run: Run) -> None:
    """Write a run atomically.

    Raises:
        OSError: If it cannot be written; no part of it is left.
        TypeError: If the result is not a JSON value; the message says where.
    """
    content = {"schema": SCHEMA, **vars(run)}
    content["config"], content["result"] = encoded(run.config, "the config"), encoded(run.result, "the result")
    content[CHECKSUM] = checksum(content)
    replace(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_run(path: Path) -> Run:
    """Read a run; FileNotFoundError if there is none, ValueError with the reason if the file is damaged."""
    try:
        return _read(path)
    except RecursionError as error:  # of the parser, or of `decoded`
        raise ValueError("is not whole: its brackets are nested deeper than those of any run") from error


def _read(path: Path) -> Run:
    try:
        content = json.loads(path.read_bytes(), parse_constant=_refuse)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"is not whole: {error}") from error
    schema = content.pop("schema", None) if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"is not a run of a sweep: its schema is {schema!r}, not {SCHEMA!r}")
    if content.pop(CHECKSUM, None) != checksum({"schema": SCHEMA, **content}):
        raise ValueError("was changed after it was written: its checksum is another")
    if set(content) != set(Run.__dataclass_fields__):
        raise ValueError(f"holds {', '.join(sorted(content))}, not {', '.join(Run.__dataclass_fields__)}")
    if path.stem != run_key(content["function"], content["version"], content["config"]):
        raise ValueError("has another name than its contents give: it was renamed or copied")
    return Run(**{**content, "config": decoded(content["config"]), "result": decoded(content["result"])})


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def is_stored(path: Path) -> bool:
    """Return whether an intact run is there."""
    try:
        read_run(path)
    except (FileNotFoundError, ValueError):
        return False
    return True


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on, without importing them."""
    found = {"python": platform.python_version()}
    for package in ("orthoscope", "torch", "numpy"):
        try:
            found[package] = installed_version(package)
        except PackageNotFoundError:
            continue
    return found


def check_version(version: object) -> None:
    """Raise TypeError if the version is not text: 1 and "1" would be two versions, of which one is never found."""
    if not isinstance(version, str):
        raise TypeError(f"version={version!r} is not text: write version={str(version)!r}")


def run_key(function: str, version: str, config: Any) -> str:
    """Return the first 32 hexadecimal digits of SHA-256 of the JSON text of [function, version, encoded config]."""
    return checksum([function, version, config])[:DIGITS]


def name_of(function: Callable[..., Any]) -> str:
    """Return the name by which a worker imports a function; TypeError if it cannot."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not module or not path or "<" in path:
        raise TypeError(
            f"{path or function!r} is a lambda, a local function or another object without a lasting name, and workers "
            "find a function by its name: define it with `def` at the top of a module"
        )
    name = f"{_script() if module == MAIN else module}:{path}"
    # The running script is not imported a second time here, only by its workers.
    if module != MAIN and _found(name) is not function:
        raise TypeError(
            f"{name} is not the function that was given (a method, or replaced since): workers find it by name"
        )
    return name


def function_named(name: str) -> Callable[[dict[str, Any]], Any]:
    """Import a function by name; ImportError or AttributeError if there is none."""
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
    """Return the name under which the running program can be imported: that of `python -m a.b`, or of its file."""
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


def encoded(value: Any, where: str) -> Any:
    """Return `value` as strict JSON values: tuples as lists, nan and infinities marked; TypeError for other types."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {MARK: repr(float(value))}
    if isinstance(value, list | tuple):
        return [encoded(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str) or name == MARK:
                raise TypeError(f"{where} has the key {name!r}: use text, other than {MARK!r}, which marks nan")
        return {name: encoded(item, f"{where}[{name!r}]") for name, item in value.items()}
    raise TypeError(
        f"{where} is a {type(value).__name__}, which JSON cannot carry: "
        "use None, bool, int, float, str, and lists and dicts of them"
    )


def decoded(value: Any) -> Any:
    """Return what `encoded` was given, with lists for tuples."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        return float(value[MARK]) if MARK in value else {name: decoded(item) for name, item in value.items()}
    return value


def canonical(value: Any) -> str:
    """Return the unique text of an encoded value: independent of the order of keys; 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(value: Any) -> str:
    """Return SHA-256 of the unique text of an encoded value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
