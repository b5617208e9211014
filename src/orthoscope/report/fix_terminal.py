"""Fixes, comparisons and confirmations in a terminal: the answer first, then before and after, then code to paste."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.reading import Document
from orthoscope.report.wording import UNDEFINED, fixed, labeled, number, printable, significant, verdict_text

_LAYERS_SHOWN = 12


def comparison_terminal(document: Document) -> RenderableType:
    """Verdicts, headline numbers, findings that went and came, and layers evenly spaced along the depth."""
    verdict = document["verdict"]
    parts: list[RenderableType] = [
        labeled(
            "COMPARED",
            Text.assemble(
                verdict_text(verdict["before"]),
                " → ",
                verdict_text(verdict["after"]),
                "  ",
                printable(document["name"]),
            ),
        ),
        Padding(_numbers(document["numbers"]), (1, 0)),
        *_findings("gone", document["vanished"]),
        *_findings("new", document["appeared"]),
        Padding(_layers(document["layers"]), (1, 0, 0, 0)),
    ]
    return Group(*parts)


def fix_terminal(document: Document) -> RenderableType:
    """What was done and what it changed, then all that was thought of; `code_to_paste` goes below it."""
    parts: list[RenderableType] = [labeled("FIX", Text(printable(document["sentence"])))]
    if document["steps"]:
        parts.append(Padding(_numbers(document["comparison"]["numbers"]), (1, 0)))
    for when in ("before", "after"):
        confirmation = (document["confirmation"] or {}).get(when)
        if confirmation is not None:
            parts.append(labeled(when, Text(printable(confirmation["summary"]))))
    considered = [step for step in document["plan"] if not step["outcome"].startswith("does not apply")]
    if considered:
        parts.append(Padding(_plan(considered), (1, 0)))
    return Group(*parts)


def code_to_paste(document: Document) -> str:
    """The code of a fix, to be printed as it is: a terminal that breaks its lines breaks it. Empty if there is none."""
    return "\n".join(printable(line) for line in document.get("snippet", "").splitlines())


def confirmation_terminal(document: Document) -> RenderableType:
    """The outcome, then one row a learning rate."""
    table = _table("learning rate", "loss at the end", "best", "ended")
    for run in document["runs"]:
        table.add_row(
            significant(run["learning_rate"]), _loss(run["final"]), _loss(run["best"]), printable(run["stopped"])
        )
    return Group(labeled("CONFIRM", Text(printable(document["summary"]))), Padding(table, (1, 0, 0, 0)))


def comparison_markdown(document: Document) -> str:
    """The comparison for a comment on a pull request."""
    lines = [
        f"**Orthoscope: {document['verdict']['before']} → {document['verdict']['after']}** ({_cell(document['name'])})",
        "",
        "| | before | after |",
        "|---|---:|---:|",
    ]
    lines += [f"| {row['name']} | {_value(row, 'before')} | {_value(row, 'after')} |" for row in document["numbers"]]
    for title, found in (("no longer found", document["vanished"]), ("newly found", document["appeared"])):
        lines += ["", *(f"- {title}: {_cell(one['reason'])}" for one in found)] if found else []
    return "\n".join(lines) + "\n"


def _table(*headings: str) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="left" if index == 0 else "right", overflow="fold")
    return table


def _numbers(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("", "before", "after")
    for row in rows:
        table.add_row(Text(printable(row["name"])), _value(row, "before"), _value(row, "after"))
    return table


def _value(row: Mapping[str, Any], when: str) -> str:
    return number(row[when], 3)


def _findings(title: str, rows: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    return [
        labeled(title, Text.assemble(verdict_text(row["severity"]), f"  {printable(row['reason'])}")) for row in rows
    ]


def spaced_weights(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """About twelve weight layers evenly spaced along the depth, the first and the last among them."""
    weights = [row for row in rows if row["depth"] is not None]
    spaced = weights[:: max(1, -(-len(weights) // _LAYERS_SHOWN))]
    return spaced if not weights or spaced[-1] is weights[-1] else [*spaced, weights[-1]]


def _layers(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("layer", "gap", "→", "rank", "→", "|gradient|", "→")
    for row in spaced_weights(rows):
        cells: list[str] = []
        for name, write in (("gap", fixed), ("effective_rank", number), ("gradient_norm", number)):
            cells += [_of(row, when, name, write) for when in ("before", "after")]
        table.add_row(Text(printable(row["name"])), *cells)
    return table


def _of(row: Mapping[str, Any], when: str, name: str, write: Any) -> str:
    return UNDEFINED if row[when] is None else str(write(row[when][name]))


def _plan(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("prescription", "gap", "slope", "verdict", "outcome")
    for step in steps:
        measured = step["measured"] or {"gap": None, "slope": None}
        outcome = "advice" if step["advice"] else step["outcome"]
        table.add_row(
            Text(printable(step["name"])),
            fixed(measured["gap"]),
            fixed(measured["slope"], 3),
            UNDEFINED if step["verdict"] is None else verdict_text(step["verdict"]),
            Text(printable(outcome)),
        )
    return table


def _loss(value: float | None) -> str:
    return "diverged" if value is None else number(value, 3)


def _cell(text: str) -> str:
    """Text that cannot break a Markdown table or start a tag."""
    escaped = printable(text)
    for letter in "\\`*_[]<>|":
        escaped = escaped.replace(letter, f"\\{letter}")
    return escaped
