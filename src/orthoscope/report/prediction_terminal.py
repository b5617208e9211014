"""Predictions in a terminal: how deep a network trains, numbers by depth, curves in one line, sources, comparisons."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import Depth, Limit, Number, PredictionDocument, Source, as_document, quantities
from orthoscope.report.wording import (
    LABEL_WIDTH,
    UNDEFINED,
    factor,
    fixed,
    is_growth,
    labeled,
    printable,
    rank,
    significant,
    verdict_text,
    written,
)

_ABOUT = 14  # depths on one screen
_MOST = 16
_FINEST = 100  # steps; 48 of them already pass through 14 of the depths 1..17


def deepest_of(document: PredictionDocument) -> str:
    """`37 of 500`: the deepest network that should train, of the depths that were asked for."""
    deepest = "none" if document.deepest is None else document.deepest
    return f"{deepest} of {document.depths[-1].depth}"


def turning_point(document: PredictionDocument) -> tuple[int, str] | None:
    """The least depth that is not healthy, and in words what it is from there on."""
    at_risk, sick = document.at_risk_from, document.sick_from
    if at_risk is None:
        return None
    return int(at_risk), "sick from" if at_risk == sick else "at risk from"


def checks_that_found(document: PredictionDocument) -> list[str]:
    """Names of the checks that find something at some depth, in the order in which they do."""
    return list(dict.fromkeys(finding.check for row in document.depths for finding in row.findings))


def shown_depths(document: PredictionDocument) -> list[Depth]:
    """About fourteen depths on a logarithmic scale, with the first, the last and those where the verdict changes."""
    rows: Sequence[Depth] = document.depths
    if len(rows) <= _MOST:
        return list(rows)
    named = {document.deepest, document.at_risk_from, document.sick_from}
    kept = {0, len(rows) - 1} | {index for index, row in enumerate(rows) if row.depth in named}
    shown = kept
    for count in range(2, _FINEST):
        more = kept | set(_logarithmic(rows, count))
        if len(more) > _MOST:
            break
        shown = more
        if len(shown) >= _ABOUT:
            break
    return [rows[index] for index in sorted(shown)]


def _logarithmic(rows: Sequence[Depth], count: int) -> list[int]:
    """Indices of `count` depths in equal ratios, as nearly as whole numbers can be."""
    first, last = rows[0].depth, rows[-1].depth
    wanted = [round(first * (last / first) ** (step / (count - 1))) for step in range(count)]
    return [bisect_left(rows, depth, key=lambda row: row.depth) for depth in wanted]


_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[Number | None], low: Number, high: Number, columns: int) -> str:
    """Values from `low` (lowest block) to `high` (full block); more of them than columns are thinned."""
    count = min(columns, len(values))
    places = [place(column, count, len(values)) for column in range(count)]
    return "".join(_block(values[index], low, high) for index in places)


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


_NARROW, _WIDE = 72, 92  # columns below which two numbers are left out, and from which symptoms fit too
_LEFT_OUT = ("rms", "isometry")


@dataclass(frozen=True)
class DepthTable:
    """Renders itself at the width it is given; an arrow is where the network stops being healthy."""

    document: PredictionDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide, narrow = options.max_width >= _WIDE, options.max_width < _NARROW
        rows = shown_depths(self.document)
        numbers = [_numbers(row, self.document.possible_rank) for row in rows]
        shown = [name for name in numbers[0] if not (narrow and name in _LEFT_OUT)]
        table = _empty_table(shown, wide)
        for row, values in zip(rows, numbers, strict=True):
            first = row.depth == self.document.at_risk_from
            cells = [Text(values[name]) for name in shown]
            symptoms = [Text(_symptoms(row))] if wide else []
            depth = Text(f"{'→ ' if first else '  '}{row.depth}")
            table.add_row(depth, *cells, verdict_text(row.verdict), *symptoms, style="bold" if first else None)
        yield table


def deviating(value: Number | None, deviation: Number | None) -> str:
    """`0.950 ± 0.021`, without the second where it is undefined."""
    return fixed(value, 3) if value is None or deviation is None else f"{fixed(value, 3)} ± {fixed(deviation, 3)}"


def _empty_table(numbers: Sequence[str], wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("depth", *numbers):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if wide:
        table.add_column("symptoms")
    return table


def _numbers(row: Depth, possible: int) -> dict[str, str]:
    """Return the numbers of a depth under their headings: the quantities of layers that theory predicts, and growth."""
    found = {}
    for quantity in quantities("layer"):
        if not quantity.short or quantity.key not in Depth.__dataclass_fields__:
            continue
        value = getattr(row, quantity.key)
        if quantity.key == "overlap":
            found[f"{quantity.short} ± sd"] = deviating(value, row.overlap_deviation)
        else:
            found[quantity.short] = written(quantity, value, possible)
    return found | {"growth": factor(row.gradient_growth)}


def _symptoms(row: Depth) -> str:
    return printable(", ".join(dict.fromkeys(finding.symptom for finding in row.findings)))


Values = Sequence[Number | None]
_VALUE_WIDTH = 8  # columns for the first value of a curve, and for the last
_MOST_BLOCKS, _FEWEST_BLOCKS = 60, 10


def prediction_terminal(document: PredictionDocument) -> RenderableType:
    """The answer in the first line; readable without color and at 80 columns."""
    return Group(
        labeled("DEEPEST", Text.assemble((deepest_of(document), "bold"), "  ", printable(document.summary))),
        _facts(document),
        Padding(DepthTable(document), (1, 0)),
        _Picture(document),
        *(labeled("not checked", Text(printable(f"{row.check}: {row.reason}"))) for row in document.not_checked),
        *(labeled("deep limit" if index == 0 else "", Text(_limit(limit))) for index, limit in enumerate(document.limit)),
        *(labeled("theorems" if index == 0 else "", Text(_theorem(row))) for index, row in enumerate(document.sources)),
    )


def _facts(document: PredictionDocument) -> RenderableType:
    facts = [
        printable(document.name),
        f"{document.samples} samples",
        f"width {document.width}",
        f"mean cosine of the inputs {fixed(document.overlap)}",
        f"predicted, not measured, in {document.seconds:.1f} s",
    ]
    return labeled("network", Text(" · ".join(facts)))


def _limit(limit: Limit) -> str:
    is_factor = is_growth(limit.unit)
    unit = f" ({printable(limit.unit)})" if limit.unit and not is_factor else ""
    value = f"{factor(limit.value, 3)} per layer" if is_factor else significant(limit.value)
    return f"{printable(limit.name)} {value}{unit}, by {printable(limit.source)}"


def _theorem(row: Source) -> str:
    return printable(f"{row.source}, assuming {row.assumes}")


@dataclass(frozen=True)
class _Curve:
    name: str
    values: Values  # what is drawn
    low: Number
    high: Number
    ends: tuple[str, str]  # what is written at its first and last value


_LEGEND = (
    "cos: mean cosine of two samples, with the standard deviation of one pair; gap: orthogonality gap; rank: effective "
    "rank; growth: gradient norm at the input over that at the output"
)


@dataclass(frozen=True)
class _Picture:
    """One line a quantity over depth, and under them a mark where it stops being healthy."""

    document: PredictionDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        depths = [row.depth for row in self.document.depths]
        room = options.max_width - LABEL_WIDTH - 2 * (_VALUE_WIDTH + 1)
        columns = min(len(depths), max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, room)))
        span = f"depth {depths[0]} to {depths[-1]}" if len(depths) > 1 else f"depth {depths[0]}"
        yield labeled("by depth", Text(f"{span}; {_LEGEND}", "dim"))
        for curve in _curves(self.document):
            blocks = sparkline(curve.values, curve.low, curve.high, columns)
            line = f"{curve.ends[0]:>{_VALUE_WIDTH}} {blocks} {curve.ends[1]}"
            yield labeled(curve.name, Text(line, no_wrap=True))
        yield from self._mark(depths, columns, max(columns, room + _VALUE_WIDTH))

    def _mark(self, depths: Sequence[int], columns: int, room: int) -> Iterator[RenderableType]:
        turn = turning_point(self.document)
        if turn is None:
            return
        depth, words = turn
        sick = self.document.sick_from
        later = f", sick from {sick}" if sick not in (None, depth) else ""
        sentences = (f"{words} depth {depth}{later}", f"{words} {depth}", str(depth))
        line = pointer(place(depths.index(depth), len(depths), columns), room, sentences)
        yield labeled("", Text(" " * (_VALUE_WIDTH + 1) + line, no_wrap=True))


def _curves(document: PredictionDocument) -> list[_Curve]:
    overlaps, gaps = _column(document, "overlap"), _column(document, "gap")
    ranks = _column(document, "effective_rank")
    shares = [None if value is None else value / document.possible_rank for value in ranks]
    logs = [None if value is None or value <= 0 else math.log10(value) for value in shares]
    growths = _column(document, "gradient_growth")
    return [
        _Curve("cos", overlaps, min(0, _least(overlaps)), 1, _ends(overlaps, fixed)),
        _Curve("gap", gaps, 0, 1, _ends(gaps, fixed)),
        # A decade at least: the rank of a network that keeps its directions must not look steep.
        _Curve("rank (log)", logs, min(-1, _least(logs)), 0, _ends(ranks, rank)),
        _Curve("growth", growths, min(-1, _least(growths)), max(1, _most(growths)), _ends(growths, factor)),
    ]


def _column(document: PredictionDocument, name: str) -> Values:
    return [getattr(row, name) for row in document.depths]


def _least(values: Values) -> Number:
    return min((value for value in values if value is not None), default=0)


def _most(values: Values) -> Number:
    return max((value for value in values if value is not None), default=0)


def _ends(values: Values, worded: Callable[[Number | None], str]) -> tuple[str, str]:
    return worded(values[0]), worded(values[-1])


def comparison_table(documents: Sequence[Any]) -> RenderableType:
    """Return one row a network, in the order given, with the numbers at the deepest depth asked for."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("network", overflow="fold", min_width=20)
    for heading in ("deepest", "sick from"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("check that fails", overflow="fold")
    for heading in ("cos", "gap", "growth"):
        table.add_column(heading, justify="right", no_wrap=True)
    for document in (one for content in documents if isinstance(one := as_document(content), PredictionDocument)):
        last = document.depths[-1]
        table.add_row(
            Text(printable(document.name)),
            Text(deepest_of(document)),
            UNDEFINED if document.sick_from is None else str(document.sick_from),
            Text(printable(", ".join(checks_that_found(document))) or "nothing"),
            fixed(last.overlap),
            fixed(last.gap),
            factor(last.gradient_growth),
        )
    return table
