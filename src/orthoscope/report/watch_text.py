"""How a network fared in training, in a terminal: a line a look, the last ones if there are many."""

from collections.abc import Mapping
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orthoscope.report.labelled import verdict_text
from orthoscope.report.reading import Document, Number
from orthoscope.report.wording import fixed, number, printable, rank, signed

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
