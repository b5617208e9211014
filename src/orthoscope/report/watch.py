"""A watched training in a terminal: scalars over steps, and what the optimizer did to every matrix."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from orthoscope.report.reading import Document, Number
from orthoscope.report.wording import fixed, number, printable, rank, shape, signed, verdict_text

_MOST = 12
_WIDTH = 110
# Heading, scalar, how it is written.
COLUMNS = (
    ("worst gap", "worst_gap", fixed),
    ("least rank", "min_effective_rank", rank),
    ("overlap", "mean_overlap", fixed),
    ("slope", "gradient_slope", signed),
    ("seconds", "record_seconds", number),
)


def history_text(document: Document) -> str:
    """What was looked at and how often, then the table, then what went wrong."""
    history = document["history"]
    looks = f"{len(history)} look{'s' * (len(history) != 1)}, every {document['every']} steps"
    lines = [f"watch of {printable(document['name'])}: {looks}, {document['steps']} steps taken"]
    if history:
        lines += _table(history)
        lines.append(f"after {history[-1]['step']} steps: {printable(history[-1]['summary'])}")
    if document["stopped"]:
        lines.append(f"stopped  {printable(document['stopped'])}")
    lines += [f"failed   {printable(problem)}" for problem in document["problems"][-3:]]
    return "\n".join(lines) + "\n"


def scalar(record: Mapping[str, Any], name: str) -> Number | None:
    """A scalar of a record, None where it is undefined."""
    value: Number | None = record["scalars"].get(f"orthoscope/{name}")
    return value


def _table(history: list[Mapping[str, Any]]) -> list[str]:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("step", justify="right")
    table.add_column("verdict", no_wrap=True)
    for heading, _, _ in COLUMNS:
        table.add_column(heading, justify="right")
    first = [history[0]] if len(history) > _MOST else []  # where it began is worth a line
    for record in [*first, *history[-_MOST + len(first) :]]:
        numbers = (Text(write(scalar(record, name))) for _, name, write in COLUMNS)
        table.add_row(str(record["step"]), verdict_text(record["verdict"]), *numbers)
    console = Console(file=StringIO(), width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as text:
        console.print(table)
    return [line.rstrip() for line in text.get().splitlines()]


_TEXT_WIDTH = 110
_LONGEST_NAME = 30
_UNLIMITED = 100_000  # columns, more than any table has
_HEADINGS = ("step", "shape", "|grad|", "|ΔW|/|W|", "rms→rms", "rank", "uneven", "cos", "PII", "ΔPII", "Δangle")
# In a narrow terminal these are left out, the first first; the name, the step and the size always stay.
_LEAST_FIRST = ("shape", "|grad|", "cos", "rms→rms", "ΔPII", "PII", "Δangle", "uneven", "rank")
_LEGEND = {"uneven": "0 if all singular values of ΔW are equal", "PII": "mean |cos| of two rows"}


def watch_table(document: Mapping[str, Any], step: int | None = None, width: int | None = None) -> str:
    """The rows of a step, or of the latest recorded of each matrix, under a line that says what was watched.

    Columns that do not fit into the terminal are left out, and named under the table; no number is ever cut.
    """
    rows = _chosen(document["rows"], step)
    count = len({row["step"] for row in document["rows"]})
    what = f"{count} recorded step{'s' * (count > 1)}, every {document['every']}" if count else "no step recorded"
    lines = [f"updates of {printable(document['name'])}: {what}"]
    if rows:
        lines += _fitting(rows, width or shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns)
    lines += [
        f"skipped  {printable(skipped['name'])}: {printable(skipped['reason'])}" for skipped in document["skipped"]
    ]
    return "\n".join(lines) + "\n"


def _chosen(rows: Sequence[Mapping[str, Any]], step: int | None) -> list[Mapping[str, Any]]:
    if step is None:
        return list({(row["optimizer"], row["weight"]): row for row in rows}.values())  # of several, the last stays
    chosen = [row for row in rows if row["step"] == step]
    if not chosen:
        recorded = ", ".join(map(str, sorted({row["step"] for row in rows}))) or "none"
        raise ValueError(f"step {step} was not recorded: choose among {recorded}")
    return chosen


def _fitting(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """The table with as many columns as there is room for, what they mean, and which were left out."""
    console = Console(file=StringIO(), width=_UNLIMITED, color_system=None, force_terminal=False, highlight=False)
    for count in range(len(_LEAST_FIRST) + 1):
        hidden = _LEAST_FIRST[:count]
        table = _updates_table(rows, hidden)
        if Measurement.get(console, console.options, table).maximum <= width:
            break
    with console.capture() as text:
        console.print(table)
    lines = [line.rstrip() for line in text.get().splitlines()]
    legend = "; ".join(f"{heading}: {meaning}" for heading, meaning in _LEGEND.items() if heading not in hidden)
    left_out = ", ".join(heading for heading in _HEADINGS if heading in hidden)
    return lines + [legend] * bool(legend) + [f"no room for: {left_out}"] * bool(left_out)


def _updates_table(rows: Sequence[Mapping[str, Any]], hidden: Collection[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("weight", no_wrap=True)
    shown = [heading not in hidden for heading in _HEADINGS]
    for heading, is_shown in zip(_HEADINGS, shown, strict=True):
        if is_shown:
            table.add_column(heading, justify="right", no_wrap=True)
    labels = _labels([printable(row["weight"]) for row in rows])
    for label, row in zip(labels, rows, strict=True):
        cells = zip(_cells(row), shown, strict=True)
        table.add_row(Text(label), *(Text(cell) for cell, is_shown in cells if is_shown))
    return table


def _labels(names: Sequence[str]) -> list[str]:
    """The ends of long names, where the part and its matrix `[0]` stand: as long as it takes to tell them apart."""
    longest = max(map(len, names))
    for length in range(_LONGEST_NAME, longest):
        labels = [name if len(name) <= length else f"…{name[1 - length :]}" for name in names]
        if len(set(labels)) == len(set(names)):
            return labels
    return list(names)


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
