"""The parts of a terminal view: a sentence beside its label, a verdict in its color, a table, and all of it as text."""

import shutil
from collections.abc import Collection, Iterable
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from orthoscope.findings import Verdict
from orthoscope.report.folding import folded_names
from orthoscope.report.wording import printable

LABEL_WIDTH = 13  # columns, with the space after it
_TEXT_WIDTH = 110
_NAMES_SHOWN = 4
_COLORS = {
    Verdict.HEALTHY: "bold green",
    Verdict.UNKNOWN: "bold cyan",
    Verdict.AT_RISK: "bold yellow",
    Verdict.SICK: "bold red",
}


def labeled(label: str, content: str | Text, style: str = "") -> Table:
    """A label and a sentence that wraps beside it, not under it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL_WIDTH - 2, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, "bold"), Text(printable(content), style) if isinstance(content, str) else content)
    return grid


def verdict_text(verdict: str) -> Text:
    """The word in its color; it is told by the word alone as well."""
    return Text(str(verdict), _COLORS[Verdict(verdict)])


def table(*headings: str, words: Collection[str], gap: int = 1) -> Table:
    """Return an empty table.

    Args:
        headings: Heading of every column.
        words: Those of columns of words; the others are numbers, aligned to the right and never broken.
        gap: Spaces between two columns.
    """
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    for heading in headings:
        if heading in words:
            made.add_column(heading, overflow="fold", no_wrap=heading == "verdict")
        else:
            made.add_column(heading, justify="right", no_wrap=True)
    return made


def some_names(names: Iterable[str]) -> str:
    """Return the first names of modules, runs of alike ones in one word."""
    folded = folded_names(printable(name) or "(model)" for name in names)
    return ", ".join(folded[:_NAMES_SHOWN]) + (", …" if len(folded) > _NAMES_SHOWN else "")


def columns() -> int:
    """Width of the terminal."""
    return shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns


def as_text(view: RenderableType, width: int | None = None, code: str = "") -> str:
    """Return a view as plain text.

    Args:
        view: What to render.
        width: Columns; those of the terminal if None.
        code: What follows below it as it is: lines that were broken could not be pasted.
    """
    file = StringIO()
    console = Console(file=file, width=width or columns(), color_system=None, force_terminal=False, highlight=False)
    console.print(view)
    console.print(code, markup=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines()) + "\n"
