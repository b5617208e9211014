"""The files of an experiment's results: `results/<paper>/<figure>/{table.csv, meta.json, figure.svg}`.

Without matplotlib there is no figure; everything else is written all the same.
"""

import csv
import dataclasses
import hashlib
import io
import json
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch

from orthoscope.files import replace
from orthoscope.version import VERSION
from orthoscope_papers.catalog import Setting, folder_of
from orthoscope_papers.drawing import can_draw, svg

Row = TypeVar("Row")  # a NamedTuple whose fields are str, int or float
TABLE, META, FIGURE = "table.csv", "meta.json", "figure.svg"


def save(
    root: Path, name: str, experiment: Any, config: Any, table: str, *, setting: Setting = "default", seconds: float
) -> list[Any]:
    """Write the results of an experiment under `root`.

    Each file is written atomically; `meta.json` comes last and holds the table's checksum, so that files of two runs
    cannot be taken for those of one.

    Returns:
        The rows as read from the table that was written.
    """
    # From the text, not from memory: the figure and the checks are those of the saved table.
    rows = rows_of(table, experiment.Row)
    meta = {
        "experiment": name,
        "setting": setting,
        "config": plain(config),
        "seeds": seeds_of(config),
        "checks": experiment.check(rows),
        **provenance(),
        "seconds": round(seconds, 1),
        "table_sha256": _checksum(table),
    }
    figure = svg(experiment.plot(rows)) if can_draw() else None
    folder = folder_of(name, setting, root)
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / TABLE, table)
    if figure is None:
        (folder / FIGURE).unlink(missing_ok=True)  # one that was drawn from another table
    else:
        replace(folder / FIGURE, figure)
    replace(folder / META, json.dumps(meta, indent=2) + "\n")
    return rows


def redraw(folder: Path, experiment: Any) -> None:
    """Check and draw a saved table again, after `check` or `plot` changed; the record of the run stays as it is."""
    rows, meta = read_table(folder, experiment.Row), read_meta(folder)
    if can_draw():
        replace(folder / FIGURE, svg(experiment.plot(rows)))
    replace(folder / META, json.dumps({**meta, "checks": experiment.check(rows)}, indent=2) + "\n")


def read_table(folder: Path, row: type[Row]) -> list[Row]:
    """Return the rows of a saved table.

    Raises:
        ValueError: if it is not the table that `meta.json` describes.
    """
    table = (folder / TABLE).read_text(encoding="utf-8")
    if read_meta(folder)["table_sha256"] != _checksum(table):
        raise ValueError(f"{TABLE} in {folder} is not the table that its {META} describes: run the experiment again")
    return rows_of(table, row)


def read_meta(folder: Path) -> dict[str, Any]:
    """Return configuration, seeds, versions, commit, seconds and checks of a saved run."""
    try:
        return json.loads((folder / META).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{folder / META} is not whole ({error}): run the experiment again") from error


def plain(config: Any) -> dict[str, Any]:
    """Return a configuration as JSON would: tuples become lists."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def seeds_of(config: Any) -> list[int]:
    """Return `config.seeds`, or the first `config.num_seeds` integers; none if nothing is random."""
    return list(getattr(config, "seeds", range(getattr(config, "num_seeds", 0))))


def table_of(rows: Sequence[Any], row: type[Any]) -> str:
    """Return rows as CSV with a header; floats are read back bit for bit."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(row.__annotations__)
    writer.writerows(rows)
    return buffer.getvalue()


def rows_of(table: str, row: type[Row]) -> list[Row]:
    """Return the rows of the CSV that `table_of` writes.

    Raises:
        ValueError: if it has other columns.
    """
    make: Any = row
    columns, kinds = list(row.__annotations__), row.__annotations__.values()
    header, *lines = csv.reader(io.StringIO(table))
    if header != columns:
        raise ValueError(f"the table has columns {', '.join(header)}, expected {', '.join(columns)}")
    return [make(*(kind(text) for kind, text in zip(kinds, line, strict=True))) for line in lines]


def provenance() -> dict[str, Any]:
    """Return what a number depends on beside its configuration: commit, versions, threads."""
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
    """Return the commit of this source, with "+changes" if source files differ from it; None outside a checkout."""
    here = Path(__file__).parents[1]
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True)
        status = subprocess.run(
            ["git", "status", "--porcelain", "--", "."], cwd=here, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+changes" if status.stdout.strip() else "")


def _checksum(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()
