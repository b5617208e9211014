"""One file a run, written whole or not at all; whatever is not a whole run is named, never read as one."""

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NamedTuple

from orthoscope.report.documents import replace
from orthoscope.sweep.functions import name_of
from orthoscope.sweep.keys import run_key
from orthoscope.sweep.plain import checksum, decoded, encoded

SCHEMA = "orthoscope.run/1"
RUNS = "runs"
CHECKSUM = "checksum"


@dataclass(frozen=True)
class Run:
    """One finished run: nothing in it depends on where it ran, but for how many seconds it took."""

    function: str
    version: str
    config: dict[str, Any]
    result: Any
    seconds: float
    versions: dict[str, str]


class Problem(NamedTuple):
    """A file of a store that is no run, and why."""

    path: Path
    reason: str


class Runs(NamedTuple):
    """The table of a store, by file name, and what was left out of it."""

    runs: list[Run]
    problems: list[Problem]


def run_path(store: Path, key: str) -> Path:
    """Where a run is, once it is finished."""
    return store / RUNS / f"{key}.json"


def write_run(path: Path, run: Run) -> None:
    """Write a run; OSError leaves nothing behind, TypeError says what in the result is not plain."""
    content = {"schema": SCHEMA, **vars(run)}
    content["config"], content["result"] = encoded(run.config, "the config"), encoded(run.result, "the result")
    content[CHECKSUM] = checksum(content)
    replace(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_run(path: Path) -> Run:
    """A finished run; FileNotFoundError if there is none, ValueError with the reason if the file is something else."""
    try:
        return _read(path)
    except RecursionError as error:  # of the parser, or of what looks at its lists one by one
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


def check_version(version: object) -> None:
    """TypeError for what is not text: 1 and "1" would be two versions, and one of them is never found."""
    if not isinstance(version, str):
        raise TypeError(f"version={version!r} is not text: write version={str(version)!r}")


def is_stored(path: Path) -> bool:
    """Whether a run is there, and whole."""
    try:
        read_run(path)
    except (FileNotFoundError, ValueError):
        return False
    return True


def read_runs(
    store: str | Path,
    function: Callable[..., Any] | str | None = None,
    version: str | None = None,
    parse: Callable[[dict[str, Any]], Any] | None = None,
) -> Runs:
    """All runs of a store, or those of one function and version; every other file is a problem with its reason.

    `parse` is given every config, and a run whose config it refuses with an exception becomes a problem too.
    """
    if version is not None:
        check_version(version)
    folder = Path(store) / RUNS
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no sweep in {str(store)!r}: it has no folder {RUNS!r}")
    name = function if function is None or isinstance(function, str) else name_of(function)
    table = Runs([], [])
    # A hidden file is one that is being written.
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            run = read_run(path)
            if name in (None, run.function) and version in (None, run.version):
                _parsed(run, parse)
                table.runs.append(run)
        except FileNotFoundError:
            continue
        except ValueError as error:
            table.problems.append(Problem(path, str(error)))
    return table


@cache
def versions() -> dict[str, str]:
    """What a number depends on beside its configuration, without importing any of it."""
    found = {"python": platform.python_version()}
    for package in ("orthoscope", "torch", "numpy"):
        try:
            found[package] = installed_version(package)
        except PackageNotFoundError:
            continue
    return found


def _parsed(run: Run, parse: Callable[[dict[str, Any]], Any] | None) -> None:
    try:
        if parse is not None:
            parse(run.config)
    except Exception as error:
        raise ValueError(f"has a config that no longer parses: {type(error).__name__}: {error}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
