"""A watched training in a terminal: scalars over steps, and what the optimizer did to every matrix."""

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import Quantity, Snapshot, Update, WatchDocument, quantities
from orthoscope.report.folding import without_shared_start, wrapped
from orthoscope.report.layout import as_text, columns, table, verdict_text
from orthoscope.report.wording import printable, shape, written

_MOST = 12
_NAME_WIDTH = 40
_UNLIMITED = 100_000  # columns, more than any table has


def history_text(document: WatchDocument) -> str:
    """Return how many snapshots were taken and how often, the loss, then the table, then what went wrong."""
    history = document.history
    snapshots = f"{len(history)} snapshot{'s' * (len(history) != 1)}, every {document.every} steps"
    lines = [f"watch of {printable(document.name)}: {snapshots}, {document.steps} steps taken"]
    if history:
        lines += as_text(_history_table(history)).splitlines()
        lines.append(f"after {history[-1].step} steps: {printable(history[-1].summary)}")
    lines += _loss_lines(document)
    lines += [f"warning  after {one.step} steps {printable(one.sentence)}" for one in document.warnings]
    if document.warnings and document.last_healthy_step is not None:
        lines.append(f"healthy  last snapshot without a finding: after {document.last_healthy_step} steps")
    if document.stopped:
        lines.append(f"stopped  {printable(document.stopped)}")
    lines += [f"failed   {printable(problem)}" for problem in document.problems[-3:]]
    return "\n".join(lines) + "\n"


def _loss_lines(document: WatchDocument) -> list[str]:
    """Return the first, the least and the last loss beside that of guessing; nothing if no loss was read."""
    known = [one for one in document.losses if one.loss is not None]
    if not known:
        return []
    least = min(known, key=lambda one: one.loss or 0.0)
    told = f"first {known[0].loss:.4g}, least {least.loss:.4g} after {least.step} steps, last {known[-1].loss:.4g}"
    guessing = "" if document.guessing is None else f", of guessing {document.guessing:.4g}"
    return [f"loss     {told}{guessing}"]


def _history_table(history: Sequence[Snapshot]) -> Table:
    made = table("step", "verdict", *(one.short for one in quantities("snapshot")), words=["verdict"])
    first = [history[0]] if len(history) > _MOST else []  # where it began is worth a line
    for record in [*first, *history[-_MOST + len(first) :]]:
        numbers = (written(one, record.scalar(one.key)) for one in quantities("snapshot"))
        made.add_row(str(record.step), verdict_text(record.verdict), *numbers)
    return made


def watch_table(document: WatchDocument, step: int | None = None, width: int | None = None) -> str:
    """Return the rows of a step, or the latest recorded of each matrix, under a line that says what was watched.

    Columns that do not fit into the terminal are left out, and named under the table; no number or name is ever cut.
    """
    rows = _chosen(document.rows, step)
    count = len({row.step for row in document.rows})
    what = f"{count} recorded step{'s' * (count > 1)}, every {document.every}" if count else "no step recorded"
    lines = [f"updates of {printable(document.name)}: {what}"]
    if rows:
        lines += _fitting(rows, width or columns())
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
    console = Console(width=_UNLIMITED)
    known = quantities("update")
    for count in range(len(known), -1, -1):
        made = _updates_table(rows, known[:count])
        if Measurement.get(console, console.options, made).maximum <= width:
            break
    meanings = "; ".join(f"{quantity.short}: {quantity.label}" for quantity in known[:count])
    left_out = ", ".join(quantity.short for quantity in known[count:])
    legend = textwrap.wrap(meanings, max(width, 20))
    return as_text(made, _UNLIMITED).splitlines() + legend + [f"no room for: {left_out}"] * bool(left_out)


def _updates_table(rows: Sequence[Update], shown: Sequence[Quantity]) -> Table:
    start, names = without_shared_start([printable(row.weight) for row in rows])
    heading = wrapped(f"weight of {start}" if start else "weight", _NAME_WIDTH)
    made = table(heading, "step", "shape", *(one.short for one in shown), words=[heading])
    for name, row in zip(names, rows, strict=True):
        cells = [written(one, getattr(row, one.key), min(row.shape)) for one in shown]
        made.add_row(Text(wrapped(name, _NAME_WIDTH)), str(row.step), shape(row.shape), *cells)
    return made
