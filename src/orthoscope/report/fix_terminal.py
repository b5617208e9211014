"""Fixes, comparisons and confirmations in a terminal: the answer first, then before and after, then code to paste."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import (
    ChangedFinding,
    ComparisonDocument,
    ConfirmationDocument,
    DiagnosisDocument,
    Document,
    FixDocument,
    LayerPair,
    LayerProfile,
    Number,
    NumberPair,
    Prescription,
    as_document,
    quantity,
)
from orthoscope.report.names import wrapped
from orthoscope.report.wording import (
    LABEL_WIDTH,
    UNDEFINED,
    count,
    factor,
    fixed,
    is_growth,
    labeled,
    number,
    printable,
    significant,
    verdict_text,
    written,
)

_LAYERS_SHOWN = 12
_NAME_WIDTH = 34


def comparison_terminal(document: ComparisonDocument) -> RenderableType:
    """Verdicts, headline numbers, findings that went and came, and layers evenly spaced along the depth."""
    before, after = verdict_text(document.verdict.before), verdict_text(document.verdict.after)
    parts: list[RenderableType] = [
        labeled("COMPARED", Text.assemble(before, " → ", after, "  ", printable(document.name))),
        Padding(_numbers(document.numbers), (1, 0)),
        *_findings("gone", document.vanished),
        *_findings("new", document.appeared),
        Padding(_layers(document.layers), (1, 0, 0, 0)),
    ]
    return Group(*parts)


def fix_terminal(document: FixDocument) -> RenderableType:
    """What was done and what it changed, then all that was considered; `code_to_paste` goes below it."""
    parts: list[RenderableType] = [labeled("FIX", Text(printable(document.sentence)))]
    if document.steps:
        parts.append(Padding(_numbers(document.comparison.numbers), (1, 0)))
    if document.confirmation is not None:
        parts.append(labeled("before", Text(printable(document.confirmation.before.summary))))
        parts.append(labeled("after", Text(printable(document.confirmation.after.summary))))
    considered = [step for step in document.plan if not step.outcome.startswith("does not apply")]
    if considered:
        parts.append(Padding(_plan(considered), (1, 0)))
    return Group(*parts)


def plan_text(prescriptions: Sequence[Prescription]) -> str:
    """Return prescriptions as text: why each is made, what theory predicts of it, and its code."""
    lines: list[str] = []
    for number_of, step in enumerate(prescriptions, start=1):
        predicted = step.predicted
        known = predicted.gap is not None or predicted.slope is not None
        growth = f"gradient {factor(predicted.slope, 3)} per weight layer"
        effect = f"orthogonality gap {fixed(predicted.gap)}, {growth}" if known else predicted.reason or ""
        lines += [f"{number_of}. {step.name}{' (advice)' if step.advice else ''}: {step.why}"]
        lines += [f"   predicted: {effect}"] if effect and not step.advice else []
        lines += [f"     {line}" for line in step.code.splitlines()]
    return "\n".join(map(printable, lines))


def code_to_paste(document: Document) -> str:
    """Return code or a command to be printed as it is: a terminal that breaks its lines breaks it. Empty if none."""
    if isinstance(document, FixDocument):
        return "\n".join(printable(line) for line in document.snippet.splitlines())
    steps = document.next_steps if isinstance(document, DiagnosisDocument) else ()
    commands = (step.split("`")[1] for step in steps if step.count("`") == 2)
    return "\n".join(f"{'':{LABEL_WIDTH}}{printable(command)}" for command in commands)


def confirmation_terminal(document: ConfirmationDocument) -> RenderableType:
    """The outcome, then one row a learning rate."""
    table = _table("learning rate", "loss at the end", "least loss", "stopped early")
    for run in document.runs:
        table.add_row(significant(run.learning_rate), _loss(run.final), _loss(run.best), printable(run.stopped))
    return Group(labeled("CONFIRM", Text(printable(document.summary))), Padding(table, (1, 0, 0, 0)))


def comparison_markdown(content: Any) -> str:
    """Return a comparison, as its dataclass or as JSON data, for a comment on a pull request."""
    document = as_document(content)
    if not isinstance(document, ComparisonDocument):
        raise ValueError(f"a comment shows a comparison, got a document of {document.schema}")
    verdict = document.verdict
    lines = [f"**Orthoscope: {verdict.before} → {verdict.after}** ({_cell(document.name)})", ""]
    lines += ["| | before | after |", "|---|---:|---:|"]
    lines += [f"| {row.name} | {pair_number(row, row.before)} | {pair_number(row, row.after)} |" for row in document.numbers]
    for title, found in (("no longer found", document.vanished), ("newly found", document.appeared)):
        lines += ["", *(f"- {title}: {_cell(one.reason)}" for one in found)] if found else []
    return "\n".join(lines) + "\n"


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", overflow="fold")
    return table


def _numbers(rows: Sequence[NumberPair]) -> Table:
    table = _table("", "before", "after")
    for row in rows:
        table.add_row(Text(printable(row.name)), pair_number(row, row.before), pair_number(row, row.after))
    return table


def pair_number(row: NumberPair, value: Number | None) -> str:
    """One of the two numbers of a row: logarithms as factors, counts as counts."""
    if is_growth(row.unit):
        return factor(value, 3)
    return count(int(value)) if row.name == "parameters" and value is not None else number(value, 3)


def _findings(title: str, rows: Sequence[ChangedFinding]) -> list[RenderableType]:
    return [labeled(title, Text.assemble(verdict_text(row.severity), f"  {printable(row.reason)}")) for row in rows]


def spaced_weights(rows: Sequence[LayerPair]) -> list[LayerPair]:
    """About twelve weight layers evenly spaced along the depth, the first and the last among them."""
    weights = [row for row in rows if row.depth is not None]
    spaced = weights[:: max(1, -(-len(weights) // _LAYERS_SHOWN))]
    return spaced if not weights or spaced[-1] is weights[-1] else [*spaced, weights[-1]]


def _layers(rows: Sequence[LayerPair]) -> Table:
    keys = ("gap", "effective_rank", "gradient_norm")
    headings = [text for key in keys for text in (quantity("layer", key).short, "after")]
    table = _table("layer", *headings)
    for row in spaced_weights(rows):
        cells = [_cell_of(profile, key) for key in keys for profile in (row.before, row.after)]
        table.add_row(Text(wrapped(printable(row.name), _NAME_WIDTH)), *cells)
    return table


def _cell_of(profile: LayerProfile | None, key: str) -> str:
    return UNDEFINED if profile is None else written(quantity("layer", key), getattr(profile, key))


def _plan(steps: Sequence[Prescription]) -> Table:
    table = _table("prescription", "gap", "gradient per layer", "verdict", "outcome")
    for step in steps:
        measured = step.measured
        table.add_row(
            Text(printable(step.name)),
            fixed(None if measured is None else measured.gap),
            factor(None if measured is None else measured.slope, 3),
            UNDEFINED if step.verdict is None else verdict_text(step.verdict),
            Text(printable("advice" if step.advice else step.outcome)),
        )
    return table


def _loss(value: Number | None) -> str:
    return "diverged" if value is None else number(value, 3)


def _cell(text: str) -> str:
    """Text that cannot break a Markdown table or start a tag."""
    escaped = printable(text)
    for letter in "\\`*_[]<>|":
        escaped = escaped.replace(letter, f"\\{letter}")
    return escaped
