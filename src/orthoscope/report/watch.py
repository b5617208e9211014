"""A watched training in a terminal: scalars over steps, and what the optimizer did to every matrix."""

import shutil
import textwrap
from collections.abc import Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import Quantity, Snapshot, Update, WatchDocument, quantities
from orthoscope.report.names import without_shared_start, wrapped
from orthoscope.report.wording import printable, shape, verdict_text, written

_MOST = 12
_TEXT_WIDTH = 110
_NAME_WIDTH = 40
_UNLIMITED = 100_000  # columns, more than any table has


def history_text(document: WatchDocument) -> str:
    """Return how many snapshots were taken and how often, then the table, then what went wrong."""
    history = document.history
    snapshots = f"{len(history)} snapshot{'s' * (len(history) != 1)}, every {document.every} steps"
    lines = [f"watch of {printable(document.name)}: {snapshots}, {document.steps} steps taken"]
    if history:
        lines += _lines(_history_table(history), _width())
        lines.append(f"after {history[-1].step} steps: {printable(history[-1].summary)}")
    if document.stopped:
        lines.append(f"stopped  {printable(document.stopped)}")
    lines += [f"failed   {printable(problem)}" for problem in document.problems[-3:]]
    return "\n".join(lines) + "\n"


def _width() -> int:
    return shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns


def _history_table(history: Sequence[Snapshot]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("step", justify="right")
    table.add_column("verdict", no_wrap=True)
    for quantity in quantities("snapshot"):
        table.add_column(quantity.short, justify="right")
    first = [history[0]] if len(history) > _MOST else []  # where it began is worth a line
    for record in [*first, *history[-_MOST + len(first) :]]:
        numbers = (Text(written(quantity, record.scalar(quantity.key))) for quantity in quantities("snapshot"))
        table.add_row(str(record.step), verdict_text(record.verdict), *numbers)
    return table


def _lines(table: Table, width: int) -> list[str]:
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as text:
        console.print(table)
    return [line.rstrip() for line in text.get().splitlines()]


def watch_table(document: WatchDocument, step: int | None = None, width: int | None = None) -> str:
    """Return the rows of a step, or the latest recorded of each matrix, under a line that says what was watched.

    Columns that do not fit into the terminal are left out, and named under the table; no number or name is ever cut.
    """
    rows = _chosen(document.rows, step)
    count = len({row.step for row in document.rows})
    what = f"{count} recorded step{'s' * (count > 1)}, every {document.every}" if count else "no step recorded"
    lines = [f"updates of {printable(document.name)}: {what}"]
    if rows:
        lines += _fitting(rows, width or _width())
    lines += [f"skipped  {printable(skipped.name)}: {printable(skipped.reason)}" for skipped in document.skipped]
    return "\n".join(lines) + "\n"


def _chosen(rows: Sequence[Update], step: int | None) -> list[Update]:
    if step is None:
        return list({(row.optimizer, row.weight): row for row in rows}.values())  # of several, the last stays
    chosen = [row for row in rows if row.step == step]
    if not chosen:
        recorded = ", ".join(map(str, sorted({row.step for row in rows}))) or "none"
        raise ValueError(f"step {step} was not recorded: choose among {recorded}")
    return chosen


def _fitting(rows: Sequence[Update], width: int) -> list[str]:
    """Return the table with as many columns as there is room for, what they mean, and which were left out."""
    console = Console(file=StringIO(), width=_UNLIMITED, color_system=None, force_terminal=False, highlight=False)
    known = quantities("update")
    for count in range(len(known), -1, -1):
        table = _updates_table(rows, known[:count])
        if Measurement.get(console, console.options, table).maximum <= width:
            break
    meanings = "; ".join(f"{quantity.short}: {quantity.label}" for quantity in known[:count])
    left_out = ", ".join(quantity.short for quantity in known[count:])
    legend = textwrap.wrap(meanings, max(width, 20))
    return _lines(table, _UNLIMITED) + legend + [f"no room for: {left_out}"] * bool(left_out)


def _updates_table(rows: Sequence[Update], shown: Sequence[Quantity]) -> Table:
    start, names = without_shared_start([printable(row.weight) for row in rows])
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(wrapped(f"weight of {start}" if start else "weight", _NAME_WIDTH), no_wrap=True)
    for heading in ("step", "shape", *(quantity.short for quantity in shown)):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, row in zip(names, rows, strict=True):
        cells = [written(quantity, getattr(row, quantity.key), min(row.shape)) for quantity in shown]
        table.add_row(Text(wrapped(name, _NAME_WIDTH)), str(row.step), shape(row.shape), *map(Text, cells))
    return table
