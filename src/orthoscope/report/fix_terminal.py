"""Fixes, comparisons and confirmations in a terminal: the answer first, then before and after, then code to paste."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import (
    ChangedFinding,
    ComparisonDocument,
    ConfirmationDocument,
    FixDocument,
    LayerPair,
    Number,
    NumberPair,
    Prescription,
    as_document,
    quantity,
)
from orthoscope.report.folding import wrapped
from orthoscope.report.layout import labeled, table, verdict_text
from orthoscope.report.wording import (
    UNDEFINED,
    count,
    factor,
    fixed,
    is_growth,
    number,
    printable,
    significant,
    written,
)

_LAYERS_SHOWN = 12
_NAME_WIDTH = 34


def comparison_terminal(document: ComparisonDocument) -> RenderableType:
    """Verdicts, headline numbers, findings that went and came, and layers evenly spaced along the depth."""
    before, after = verdict_text(document.verdict.before), verdict_text(document.verdict.after)
    return Group(
        labeled("COMPARED", Text.assemble(before, " → ", after, "  ", printable(document.name))),
        Padding(_numbers(document.numbers), (1, 0)),
        *_findings("gone", document.vanished),
        *_findings("new", document.appeared),
        Padding(_layers(document), (1, 0, 0, 0)),
    )


def fix_terminal(document: FixDocument) -> RenderableType:
    """What was done and what it changed, then all that was considered; `code_to_paste` goes below it."""
    parts: list[RenderableType] = [labeled("FIX", document.sentence)]
    if document.steps:
        parts.append(Padding(_numbers(document.comparison.numbers), (1, 0)))
    if document.confirmation is not None:
        # Without steps nothing changed: there was one training.
        parts.append(labeled("before" if document.steps else "trained", document.confirmation.before.summary))
        if document.steps:
            parts.append(labeled("after", document.confirmation.after.summary))
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
        growth = f"gradient {factor(predicted.slope)} per weight layer"
        effect = f"predicted: orthogonality gap {fixed(predicted.gap)}, {growth}" if known else predicted.reason or ""
        lines += [f"{number_of}. {step.name}{' (advice)' if step.advice else ''}: {step.why}"]
        lines += [f"   {effect}"] if effect and not step.advice else []
        lines += [f"     {line}" for line in step.code.splitlines()]
    return "\n".join(map(printable, lines))


def confirmation_terminal(document: ConfirmationDocument) -> RenderableType:
    """The outcome, then one row a learning rate."""
    made = table("learning rate", "loss at the end", "least loss", "ended", words=("learning rate",))
    for run in document.runs:
        made.add_row(significant(run.learning_rate), _loss(run.final), _loss(run.best), Text(printable(run.stopped)))
    return Group(labeled("CONFIRM", document.summary), Padding(made, (1, 0, 0, 0)))


def comparison_markdown(content: Any) -> str:
    """Return a comparison, as its dataclass or as JSON data, for a comment on a pull request."""
    document = as_document(content)
    if not isinstance(document, ComparisonDocument):
        raise ValueError(f"a comment shows a comparison, got a document of {document.schema}")
    verdict = document.verdict
    lines = [f"**Orthoscope: {verdict.before} → {verdict.after}** ({_cell(document.name)})", ""]
    lines += ["| | before | after |", "|---|---:|---:|"]
    lines += [f"| {row.name} | {_written(row, row.before)} | {_written(row, row.after)} |" for row in document.numbers]
    for title, found in (("no longer found", document.vanished), ("newly found", document.appeared)):
        lines += ["", *(f"- {title}: {_cell(one.reason)}" for one in found)] if found else []
    return "\n".join(lines) + "\n"


def _numbers(rows: Sequence[NumberPair]) -> Table:
    made = table("", "before", "after", words=("",))
    for row in rows:
        made.add_row(Text(printable(row.name)), _written(row, row.before), _written(row, row.after))
    return made


def _written(row: NumberPair, value: Number | None) -> str:
    """Return one of the two numbers of a row: logarithms as factors, counts as counts."""
    if is_growth(row.unit):
        return factor(value)
    return count(int(value)) if row.name == "parameters" and value is not None else number(value, 3)


def _findings(title: str, rows: Sequence[ChangedFinding]) -> list[RenderableType]:
    return [labeled(title, Text.assemble(verdict_text(row.severity), f"  {printable(row.reason)}")) for row in rows]


def spaced_weights(rows: Sequence[LayerPair]) -> list[LayerPair]:
    """About twelve weight layers evenly spaced along the depth, the first and the last among them."""
    weights = [row for row in rows if row.depth is not None]
    spaced = weights[:: max(1, -(-len(weights) // _LAYERS_SHOWN))]
    return spaced if not weights or spaced[-1] is weights[-1] else [*spaced, weights[-1]]


def _layers(document: ComparisonDocument) -> Table:
    shown = [quantity("layer", key) for key in ("gap", "effective_rank", "gradient_norm")]
    made = table("layer", *(heading for one in shown for heading in (one.short, "after")), words=("layer",))
    for row in spaced_weights(document.layers):
        sides = ((row.before, document.before.layers), (row.after, document.after.layers))
        cells = (
            UNDEFINED if index is None else written(one, layers[index].measured(one.key))
            for one in shown
            for index, layers in sides
        )
        made.add_row(Text(wrapped(printable(row.name), _NAME_WIDTH)), *cells)
    return made


def _plan(steps: Sequence[Prescription]) -> Table:
    made = table(
        "prescription", "gap", "gradient per layer", "verdict", "outcome", words=("prescription", "verdict", "outcome")
    )
    for step in steps:
        measured = step.measured
        made.add_row(
            Text(printable(step.name)),
            fixed(None if measured is None else measured.gap),
            factor(None if measured is None else measured.slope),
            UNDEFINED if step.verdict is None else verdict_text(step.verdict),
            Text(printable("advice" if step.advice else step.outcome)),
        )
    return made


def _loss(value: Number | None) -> str:
    return "diverged" if value is None else number(value, 3)


def _cell(text: str) -> str:
    """Text that cannot break a Markdown table or start a tag."""
    escaped = printable(text)
    for letter in "\\`*_[]<>|":
        escaped = escaped.replace(letter, f"\\{letter}")
    return escaped
