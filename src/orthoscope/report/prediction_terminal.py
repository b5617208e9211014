"""A prediction in a terminal: how deep it trains, the numbers by depth, their curves, and who says so."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from orthoscope.report.depth_table import DepthTable, growth
from orthoscope.report.labelled import LABEL_WIDTH, labelled
from orthoscope.report.prediction_reading import deepest_of, most_directions, turning_point
from orthoscope.report.reading import Document, Number, share
from orthoscope.report.sparkline import place, pointer, sparkline
from orthoscope.report.wording import fixed, printable, significant

Values = Sequence[Number | None]
_VALUE_WIDTH = 8  # columns for the first value of a curve, and for the last
_MOST_BLOCKS, _FEWEST_BLOCKS = 60, 10


def prediction_terminal(document: Document) -> RenderableType:
    """The answer in the first line; readable without colour and at 80 columns."""
    return Group(
        labelled("DEEPEST", Text.assemble((deepest_of(document), "bold"), "  ", printable(document["summary"]))),
        _facts(document),
        Padding(DepthTable(document), (1, 0)),
        _Picture(document),
        *(
            labelled("not checked", Text(printable(f"{row['check']}: {row['reason']}")))
            for row in document["not_checked"]
        ),
        *(labelled("limit", Text(_limit(limit))) for limit in document["limit"]),
        *(labelled("says", Text(printable(f"{row['source']}: {row['assumes']}"))) for row in document["sources"]),
    )


def _facts(document: Document) -> RenderableType:
    facts = [
        printable(document["name"]),
        f"{document['samples']} samples",
        f"width {document['width']}",
        f"starting overlap {fixed(document['overlap'])}",
        f"predicted, not measured, in {document['seconds']:.1f} s",
    ]
    return labelled("network", Text(" · ".join(facts)))


def _limit(limit: Document) -> str:
    unit = f" ({printable(limit['unit'])})" if limit["unit"] else ""
    value = significant(limit["value"])
    return f"{printable(limit['name'])} {value} as depth grows{unit}  {printable(limit['source'])}"


@dataclass(frozen=True)
class _Curve:
    name: str
    values: Values  # what is drawn
    low: Number
    high: Number
    ends: tuple[str, str]  # what is written at its first and last value


@dataclass(frozen=True)
class _Picture:
    """One line a quantity over depth, and under them a mark where it stops being healthy."""

    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        depths = [row["depth"] for row in self.document["depths"]]
        room = options.max_width - LABEL_WIDTH - 2 * (_VALUE_WIDTH + 1)
        columns = min(len(depths), max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, room)))
        span = f"depth {depths[0]} to {depths[-1]}" if len(depths) > 1 else f"depth {depths[0]}"
        yield labelled("by depth", Text(f"{span}; gradient growth in e-folds from output to input", "dim"))
        for curve in _curves(self.document):
            blocks = sparkline(curve.values, curve.low, curve.high, columns)
            line = f"{curve.ends[0]:>{_VALUE_WIDTH}} {blocks} {curve.ends[1]}"
            yield labelled(curve.name, Text(line, no_wrap=True))
        yield from self._mark(depths, columns, max(columns, room + _VALUE_WIDTH))

    def _mark(self, depths: Sequence[int], columns: int, room: int) -> Iterator[RenderableType]:
        turn = turning_point(self.document)
        if turn is None:
            return
        depth, words = turn
        sick = self.document["sick_from"]
        later = f", sick from {sick}" if sick not in (None, depth) else ""
        sentences = (f"{words} depth {depth}{later}", f"{words} {depth}", str(depth))
        line = pointer(place(depths.index(depth), len(depths), columns), room, sentences)
        yield labelled("", Text(" " * (_VALUE_WIDTH + 1) + line, no_wrap=True))


def _curves(document: Document) -> list[_Curve]:
    overlaps, gaps = _column(document, "overlap"), _column(document, "gap")
    shares = [share(rank, most_directions(document)) for rank in _column(document, "effective_rank")]
    logs = [None if value is None or value <= 0 else math.log10(value) for value in shares]
    growths = _column(document, "gradient_growth")
    return [
        _Curve("overlap", overlaps, min(0, _least(overlaps)), 1, _ends(overlaps, fixed)),
        _Curve("gap", gaps, 0, 1, _ends(gaps, fixed)),
        # A decade at least: the rank of a network that keeps its directions must not look steep.
        _Curve("rank (log)", logs, min(-1, _least(logs)), 0, _ends(shares, significant)),
        _Curve("gradient", growths, min(-1, _least(growths)), max(1, _most(growths)), _ends(growths, growth)),
    ]


def _column(document: Document, name: str) -> Values:
    return [row[name] for row in document["depths"]]


def _least(values: Values) -> Number:
    return min((value for value in values if value is not None), default=0)


def _most(values: Values) -> Number:
    return max((value for value in values if value is not None), default=0)


def _ends(values: Values, worded: Callable[[Number | None], str]) -> tuple[str, str]:
    return worded(values[0]), worded(values[-1])
