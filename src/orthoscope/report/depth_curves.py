"""Curves over depth in a terminal: one line of blocks a quantity, and a mark where the network stops being healthy."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from orthoscope.report.document import Number, PredictionDocument
from orthoscope.report.layout import LABEL_WIDTH, labeled
from orthoscope.report.wording import factor, fixed, rank

Values = Sequence[Number | None]
_BLOCKS = "▁▂▃▄▅▆▇█"
_VALUE_WIDTH = 8  # columns for the first value of a curve, and for the last
_LEGEND = (
    "cos: mean cosine of two samples, with the standard deviation of one pair; gap: orthogonality gap; rank: effective "
    "rank; growth: gradient norm at the input over that at the output"
)
_MOST_BLOCKS, _FEWEST_BLOCKS = 60, 10


def sparkline(values: Values, low: Number, high: Number, columns: int) -> str:
    """Values from `low` (lowest block) to `high` (full block); more of them than columns are thinned."""
    count = min(columns, len(values))
    return "".join(_block(values[place(column, count, len(values))], low, high) for column in range(count))


def place(index: int, count: int, among: int) -> int:
    """Where number `index` of `count` falls `among` others that span the same range."""
    return 0 if count < 2 else round(index * (among - 1) / (count - 1))


def pointer(column: int, columns: int, sentences: Sequence[str]) -> str:
    """A mark under a column with the first sentence that fits beside it; the mark alone if none does."""
    for sentence in sentences:
        if column + 2 + len(sentence) <= columns:
            return f"{' ' * column}▲ {sentence}"
        if len(sentence) + 1 <= column:
            return f"{sentence:>{column - 1}} ▲"
    return f"{' ' * column}▲"


def _block(value: Number | None, low: Number, high: Number) -> str:
    if value is None:
        return " "
    share = 0.5 if high == low else (value - low) / (high - low)
    return _BLOCKS[round(min(1.0, max(0.0, share)) * (len(_BLOCKS) - 1))]


@dataclass(frozen=True)
class DepthCurves:
    """Renders one line a quantity at the width it is given."""

    document: PredictionDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        depths = [row.depth for row in self.document.depths]
        room = options.max_width - LABEL_WIDTH - 2 * (_VALUE_WIDTH + 1)
        columns = min(len(depths), max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, room)))
        span = f"depth {depths[0]} to {depths[-1]}" if len(depths) > 1 else f"depth {depths[0]}"
        yield labeled("by depth", f"{span}; {_LEGEND}", "dim")
        for name, values, (low, high), (first, last) in _curves(self.document):
            line = f"{first:>{_VALUE_WIDTH}} {sparkline(values, low, high, columns)} {last}"
            yield labeled(name, Text(line, no_wrap=True))
        turn, sick = self.document.at_risk_from, self.document.sick_from
        if turn is not None:
            words = "sick from" if turn == sick else "at risk from"
            later = f", sick from {sick}" if sick not in (None, turn) else ""
            sentences = (f"{words} depth {turn}{later}", f"{words} {turn}", str(turn))
            column = place(depths.index(turn), len(depths), columns)
            line = pointer(column, max(columns, room + _VALUE_WIDTH), sentences)
            yield labeled("", Text(" " * (_VALUE_WIDTH + 1) + line, no_wrap=True))


def _curves(document: PredictionDocument) -> Iterator[tuple[str, Values, tuple[Number, Number], tuple[str, str]]]:
    """Yield the name of every curve, what is drawn, from where to where, and its first and last value in words."""

    def column(name: str) -> Values:
        return [getattr(row, name) for row in document.depths]

    def ends(values: Values, words: Callable[[Number | None], str]) -> tuple[str, str]:
        return words(values[0]), words(values[-1])

    def reach(values: Values, *others: Number) -> tuple[Number, Number]:
        known = [*(value for value in values if value is not None), *others]
        return min(known), max(known)

    overlaps, gaps, growths = column("overlap"), column("gap"), column("gradient_growth")
    ranks = column("effective_rank")
    shares = [None if value is None else value / document.possible_rank for value in ranks]
    logs = [None if share is None or share <= 0 else math.log10(share) for share in shares]
    yield "cos", overlaps, (reach(overlaps, 0)[0], 1), ends(overlaps, fixed)
    yield "gap", gaps, (0, 1), ends(gaps, fixed)
    # A decade at least: the rank of a network that keeps its directions must not look steep.
    yield "rank (log)", logs, (reach(logs, -1)[0], 0), ends(ranks, rank)
    yield "growth", growths, reach(growths, -1, 1), ends(growths, factor)
