"""The table of depths in a terminal: about fourteen of them, as wide as the console allows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from orthoscope.report.labelled import verdict_text
from orthoscope.report.prediction_reading import DepthRow, most_directions, shown_depths
from orthoscope.report.reading import Document, Number
from orthoscope.report.wording import UNDEFINED, fixed, number, printable, rank, signed

_NARROW, _WIDE = 72, 92  # columns below which two numbers are left out, and from which symptoms fit too
_LEFT_OUT = ("rms", "isometry")


@dataclass(frozen=True)
class DepthTable:
    """Renders itself at the width it is given; an arrow is where the network stops being healthy."""

    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide, narrow = options.max_width >= _WIDE, options.max_width < _NARROW
        rows = shown_depths(self.document)
        numbers = [_numbers(row, most_directions(self.document)) for row in rows]
        shown = [name for name in numbers[0] if not (narrow and name in _LEFT_OUT)]
        table = _empty_table(shown, wide)
        for row, values in zip(rows, numbers, strict=True):
            first = row["depth"] == self.document["at_risk_from"]
            cells = [Text(values[name]) for name in shown]
            symptoms = [Text(_symptoms(row))] if wide else []
            depth = Text(f"{'→ ' if first else '  '}{row['depth']}")
            table.add_row(depth, *cells, verdict_text(row["verdict"]), *symptoms, style="bold" if first else None)
        yield table


def deviating(value: Number | None, deviation: Number | None) -> str:
    """`0.950 ± 0.021`, without the second where it is undefined."""
    return fixed(value, 3) if value is None or deviation is None else f"{fixed(value, 3)} ± {fixed(deviation, 3)}"


def growth(value: Number | None) -> str:
    """E-folds with their sign; thousands of them as a power of ten."""
    if value is None or abs(value) < 100:
        return signed(value, 2)
    return f"{'+' if value > 0 else ''}{number(value)}"


def _empty_table(numbers: Sequence[str], wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("depth", *numbers):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if wide:
        table.add_column("symptoms")
    return table


def _numbers(row: DepthRow, possible: int) -> dict[str, str]:
    effective = row["effective_rank"]
    return {
        "rms": number(row["rms"]),
        "overlap ± sd": deviating(row["overlap"], row["overlap_deviation"]),
        "gap": fixed(row["gap"]),
        "rank": UNDEFINED if effective is None else f"{rank(effective)}/{possible}",
        "isometry": number(row["isometry_gap"]),
        "growth": growth(row["gradient_growth"]),
    }


def _symptoms(row: DepthRow) -> str:
    return printable(", ".join(dict.fromkeys(finding["symptom"] for finding in row["findings"])))
