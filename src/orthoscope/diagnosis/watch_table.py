"""What an optimizer did to each matrix, as a table in a terminal."""

import shutil
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orthoscope.report.wording import fixed, number, printable, rank, shape, shortened, signed

_TEXT_WIDTH = 110
_LONGEST_NAME = 30
_HEADINGS = ("step", "shape", "|grad|", "|ΔW|/|W|", "rms→rms", "rank", "uneven", "cos", "PII", "ΔPII", "Δangle")


def watch_table(document: Mapping[str, Any], step: int | None = None) -> str:
    """The rows of a step, or of the latest recorded of each matrix, under a line that says what was watched."""
    rows = _chosen(document["rows"], step)
    steps = {row["step"] for row in document["rows"]}
    what = f"{len(steps)} recorded steps, every {document['every']}" if steps else "no step recorded"
    file = StringIO()
    width = shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns
    console = Console(file=file, width=width, color_system=None, force_terminal=False, highlight=False)
    console.print(Text(f"updates of {printable(document['name'])}: {what}"))
    if rows:
        console.print(_table(rows))
    for skipped in document["skipped"]:
        console.print(Text(f"skipped  {printable(skipped['name'])}: {printable(skipped['reason'])}"))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _chosen(rows: Sequence[Mapping[str, Any]], step: int | None) -> list[Mapping[str, Any]]:
    if step is None:
        return list({(row["optimizer"], row["weight"]): row for row in rows}.values())  # of several, the last stays
    chosen = [row for row in rows if row["step"] == step]
    if not chosen:
        recorded = ", ".join(map(str, sorted({row["step"] for row in rows}))) or "none"
        raise ValueError(f"step {step} was not recorded: choose among {recorded}")
    return chosen


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("weight", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(shortened(printable(row["weight"]), _LONGEST_NAME)), *_cells(row))
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        str(row["step"]),
        shape(row["shape"]),
        number(row["gradient_norm"]),
        number(row["relative_size"], 3),
        number(row["rms_operator_norm"], 3),
        f"{rank(row['effective_rank'])}/{min(row['shape'])}",
        fixed(row["semi_orthogonality_defect"]),
        fixed(row["update_alignment"]),
        fixed(row["independence"], 3),
        signed(row["independence_change"], 4),
        number(row["angle_change"], 4),
    ]
