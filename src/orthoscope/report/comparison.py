"""Several predictions side by side: how deep each network trains, and what ends it."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from orthoscope.report.prediction_reading import checks_that_found, deepest_of
from orthoscope.report.reading import Document
from orthoscope.report.wording import UNDEFINED, fixed, number, printable


def comparison_table(documents: Sequence[Document]) -> RenderableType:
    """One row a network, in the order given, with the numbers at the deepest depth asked for."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("network", overflow="fold", min_width=20)
    for heading in ("deepest", "sick from"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("ended by", overflow="fold")
    for heading in ("overlap", "gap", "growth"):
        table.add_column(heading, justify="right", no_wrap=True)
    for document in documents:
        last = document["depths"][-1]
        table.add_row(
            Text(printable(document["name"])),
            Text(deepest_of(document)),
            UNDEFINED if document["sick_from"] is None else str(document["sick_from"]),
            Text(printable(", ".join(checks_that_found(document))) or "nothing"),
            fixed(last["overlap"]),
            fixed(last["gap"]),
            number(last["gradient_growth"]),
        )
    return table
