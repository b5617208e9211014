"""Lines of a terminal: a label with its sentence beside it, a verdict in its colour."""

from rich.table import Table
from rich.text import Text

from orthoscope.findings import Verdict

LABEL_WIDTH = 13  # columns, with the space after it
_COLOURS = {Verdict.HEALTHY: "bold green", Verdict.AT_RISK: "bold yellow", Verdict.SICK: "bold red"}


def labelled(label: str, content: Text) -> Table:
    """A label and a sentence that wraps beside it, not under it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=LABEL_WIDTH - 2, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, "bold"), content)
    return grid


def verdict_text(verdict: str) -> Text:
    """The word in its colour; it is told by the word alone as well."""
    return Text(str(verdict), _COLOURS[Verdict(verdict)])
