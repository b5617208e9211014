"""What an experiment leaves behind: `results/<paper>/<figure>/{table.csv, meta.json, figure.svg}`."""

import csv
import dataclasses
import hashlib
import io
import json
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch

from orthoscope.report.documents import replace
from orthoscope.version import VERSION

Row = TypeVar("Row")  # a NamedTuple whose fields are str, int or float
TABLE, META, FIGURE = "table.csv", "meta.json", "figure.svg"


def reproduce(
    name: str,
    config: Any,
    row: type[Row],
    run: Callable[[Any], list[Row]],
    plot: Callable[[list[Row]], str],
    check: Callable[[list[Row]], dict[str, bool]],
    root: Path = Path("results"),
) -> dict[str, bool]:
    """Run an experiment, write its results to `root/name`, and return what `check` found in the table as written.

    Each file appears whole or not at all; `meta.json` comes last and holds the table's checksum, so that files of
    two runs cannot be taken for those of one.
    """
    began = time.perf_counter()
    rows = run(config)
    seconds = time.perf_counter() - began
    table = _text(rows, row)
    # From the text, not from memory: the figure and the checks are those of the saved table.
    saved = _rows(table, row)
    checks = check(saved)
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / TABLE, table)
    replace(folder / FIGURE, plot(saved))
    replace(folder / META, json.dumps(_meta(name, config, seconds, table, checks), indent=2) + "\n")
    return checks


def read_table(folder: Path, row: type[Row]) -> list[Row]:
    """The rows of a saved table; ValueError if it is not the one that `meta.json` describes."""
    table = (folder / TABLE).read_text(encoding="utf-8")
    if read_meta(folder)["table_sha256"] != _checksum(table):
        raise ValueError(f"{TABLE} in {folder} is not the table that its {META} describes: run the experiment again")
    return _rows(table, row)


def read_meta(folder: Path) -> dict[str, Any]:
    """Configuration, seeds, versions, commit, seconds and checks of a saved run."""
    return json.loads((folder / META).read_text(encoding="utf-8"))


def plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON would return it: tuples become lists."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def report(checks: dict[str, bool]) -> int:
    """Print what was found, one line a check; the exit status, 1 if one of them fails."""
    for statement, holds in checks.items():
        print(f"{'holds' if holds else 'FAILS'}  {statement}")
    return 0 if all(checks.values()) else 1


def _text(rows: Sequence[Any], row: type[Any]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(row.__annotations__)
    writer.writerows(rows)
    return buffer.getvalue()


def _rows(table: str, row: type[Row]) -> list[Row]:
    make: Any = row
    columns, kinds = list(row.__annotations__), row.__annotations__.values()
    header, *lines = csv.reader(io.StringIO(table))
    if header != columns:
        raise ValueError(f"the table has columns {', '.join(header)}, expected {', '.join(columns)}")
    return [make(*(kind(text) for kind, text in zip(kinds, line, strict=True))) for line in lines]


def _meta(name: str, config: Any, seconds: float, table: str, checks: dict[str, bool]) -> dict[str, Any]:
    return {
        "experiment": name,
        "config": plain(config),
        "seeds": list(range(config.num_seeds)),
        "checks": checks,
        **provenance(),
        "seconds": round(seconds, 1),
        "table_sha256": _checksum(table),
    }


def provenance() -> dict[str, Any]:
    """What a number depends on beside its configuration: commit, versions, threads."""
    return {
        "commit": _commit(),
        "versions": {
            "orthoscope": VERSION,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "threads": torch.get_num_threads(),
    }


def _commit() -> str | None:
    """The commit of this source, with "+changes" if files differ from it; None outside a checkout."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        status = subprocess.run(["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+changes" if status.stdout.strip() else "")


def _checksum(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()
