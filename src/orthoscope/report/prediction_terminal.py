"""Predictions in a terminal: how deep a network trains, numbers by depth, curves in one line, sources, comparisons."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.depth_curves import DepthCurves
from orthoscope.report.document import Depth, Limit, PredictionDocument, as_document, quantities
from orthoscope.report.layout import labeled, table, verdict_text
from orthoscope.report.wording import (
    UNDEFINED,
    factor,
    fixed,
    is_growth,
    printable,
    significant,
    symptom_words,
    written,
)

_ABOUT = 14  # depths on one screen
_MOST = 16
_FINEST = 100  # steps; 48 of them already pass through 14 of the depths 1..17


def deepest_of(document: PredictionDocument) -> str:
    """`37 of 500`: the deepest network that should train, of the depths that were asked for."""
    deepest = "none" if document.deepest is None else document.deepest
    return f"{deepest} of {document.depths[-1].depth}"


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


_NARROW, _WIDE = 72, 92  # columns below which two numbers are left out, and from which symptoms fit too
_LEFT_OUT = ("rms", "isometry")


@dataclass(frozen=True)
class _DepthTable:
    """Renders itself at the width it is given; an arrow is where the network stops being healthy."""

    document: PredictionDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide, narrow = options.max_width >= _WIDE, options.max_width < _NARROW
        rows = shown_depths(self.document)
        numbers = [_numbers(row, self.document.possible_rank) for row in rows]
        shown = [name for name in numbers[0] if not (narrow and name in _LEFT_OUT)]
        made = table("depth", *shown, "verdict", *(["symptoms"] if wide else []), words=("verdict", "symptoms"))
        for row, values in zip(rows, numbers, strict=True):
            first = row.depth == self.document.at_risk_from
            cells = [values[name] for name in shown]
            symptoms = [symptom_words(finding.symptom for finding in row.findings)] if wide else []
            depth = f"{'→ ' if first else '  '}{row.depth}"
            made.add_row(depth, *cells, verdict_text(row.verdict), *symptoms, style="bold" if first else None)
        yield made


def _numbers(row: Depth, possible: int) -> dict[str, str]:
    """Return the numbers of a depth under their headings: the quantities of layers that theory predicts, and growth."""
    found = {}
    for quantity in quantities("layer"):
        if not quantity.short or quantity.key not in Depth.__dataclass_fields__:
            continue
        value = getattr(row, quantity.key)
        if quantity.key == "overlap":
            deviation = None if value is None else row.overlap_deviation
            after = "" if deviation is None else f" ± {fixed(deviation, 3)}"
            found[f"{quantity.short} ± sd"] = fixed(value, 3) + after
        else:
            found[quantity.short] = written(quantity, value, possible)
    return found | {"growth": factor(row.gradient_growth)}


def prediction_terminal(document: PredictionDocument) -> RenderableType:
    """The answer in the first line; readable without color and at 80 columns."""
    return Group(
        labeled("DEEPEST", Text.assemble((deepest_of(document), "bold"), "  ", printable(document.summary))),
        _facts(document),
        Padding(_DepthTable(document), (1, 0)),
        DepthCurves(document),
        *(labeled("not checked", f"{row.check}: {row.reason}") for row in document.not_checked),
        *(labeled("" if index else "limits", _limit(limit)) for index, limit in enumerate(document.limit)),
        *(
            labeled("" if index else "theorems", f"{row.source}, assuming {row.assumes}")
            for index, row in enumerate(document.sources)
        ),
    )


def _facts(document: PredictionDocument) -> RenderableType:
    facts = [
        document.name,
        f"{document.samples} samples",
        f"width {document.width}",
        f"mean cosine of the inputs {fixed(document.overlap)}",
        f"predicted, not measured, in {document.seconds:.1f} s",
    ]
    return labeled("network", " · ".join(facts))


def _limit(limit: Limit) -> str:
    is_factor = is_growth(limit.unit)
    unit = f" ({limit.unit})" if limit.unit and not is_factor else ""
    value = f"{factor(limit.value)} per layer" if is_factor else significant(limit.value)
    return f"{limit.name} {value} at infinite depth{unit}, by {limit.source}"


def comparison_table(documents: Sequence[Any]) -> RenderableType:
    """Return one row a network, in the order given, with the numbers at the deepest depth asked for."""
    headings = ("network", "deepest", "sick from", "check that fails", "cos", "gap", "growth")
    made = table(*headings, words=("network", "check that fails"))
    made.columns[0].min_width = 20
    for document in (one for content in documents if isinstance(one := as_document(content), PredictionDocument)):
        last = document.depths[-1]
        made.add_row(
            Text(printable(document.name)),
            Text(deepest_of(document)),
            UNDEFINED if document.sick_from is None else str(document.sick_from),
            Text(printable(", ".join(checks_that_found(document))) or "nothing"),
            fixed(last.overlap),
            fixed(last.gap),
            factor(last.gradient_growth),
        )
    return made
