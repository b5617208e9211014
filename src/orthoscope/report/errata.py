"""The errata in a terminal: what is printed, the case that refutes it, and what holds instead."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

Row = Mapping[str, str]


def errata_list(rows: Sequence[Row], bibliography: Mapping[str, str]) -> RenderableType:
    """Every erratum under the paper it belongs to, refuted and corrected in numbers."""
    parts: list[RenderableType] = []
    for key in dict.fromkeys(row["source"] for row in rows):
        own = [row for row in rows if row["source"] == key]
        parts.append(Text.assemble((key, "bold"), f"  {bibliography[key]}: {len(own)} statements"))
        parts += [Padding(_erratum(row), (0, 0, 1, 2)) for row in own]
    return Group(*parts)


def _erratum(row: Row) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("", Text.assemble((row["where"], "bold"), f"  ({row['key']})"))
    grid.add_row(Text("printed", "red"), Text(row["printed"]))
    grid.add_row("but", Text(f"{row['case']}: {row['printed_at_case']}"))
    grid.add_row(Text("corrected", "green"), Text(f"{row['corrected']}  [{row['corrected_at_case']}]"))
    grid.add_row("why", Text(row["why"]))
    return grid
