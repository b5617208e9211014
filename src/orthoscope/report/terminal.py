"""The diagnosis in a terminal: verdict first, then the layers, then every check."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.findings import State, Verdict
from orthoscope.report.layer_table import LayerTable
from orthoscope.report.reading import Document, findings, first_sick
from orthoscope.report.wording import (
    count,
    fixed,
    layer_name,
    printable,
    rank_at_end,
    shortened,
    significant,
    slope,
)

_COLOURS = {Verdict.HEALTHY: "bold green", Verdict.AT_RISK: "bold yellow", Verdict.SICK: "bold red"}
_TEXT_WIDTH = 110
_NAMES_SHOWN = 4
_LONGEST_NAME = 60
_WIDE = 104  # columns from which a gallery has room for where a symptom begins and the gap


def terminal(document: Document) -> RenderableType:
    """Everything a reader needs, the answer in the first line; readable without colour and at 80 columns."""
    parts: list[RenderableType] = [_headline(document), _facts(document)]
    if document["layers"]:
        parts.append(Padding(LayerTable(document), (1, 0)))
    else:
        parts.append(Text("no layer was observed", "dim"))
    parts.append(_checks(document))
    return Group(*parts)


def text(document: Document) -> str:
    """The terminal view as plain text, for logs and `print`."""
    file = StringIO()
    width = shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns
    console = Console(file=file, width=width, color_system=None, force_terminal=False, highlight=False)
    console.print(terminal(document))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def gallery_table(documents: list[Document]) -> RenderableType:
    """One row a network, in the order given; where it begins and the gap only where there is room."""
    return _GalleryTable(documents)


@dataclass(frozen=True)
class _GalleryTable:
    documents: list[Document]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide = options.max_width >= _WIDE
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("network", overflow="fold", min_width=12)
        table.add_column("verdict", no_wrap=True)
        table.add_column("symptoms")
        if wide:
            table.add_column("begins", overflow="fold")
            table.add_column("gap", justify="right", no_wrap=True)
        table.add_column("end rank", justify="right", no_wrap=True)
        table.add_column("slope ± se", justify="right", no_wrap=True)
        for document in self.documents:
            table.add_row(*_gallery_row(document, wide))
        yield table


def _gallery_row(document: Document, wide: bool) -> list[RenderableType]:
    first = first_sick(document)
    where = "" if first is None else shortened(layer_name(document["layers"][first]), _LONGEST_NAME)
    if_wide: list[RenderableType] = [Text(where), fixed(document["gap"])]
    return [
        Text(shortened(printable(document["name"]), _LONGEST_NAME)),
        _verdict(document),
        Text(", ".join(document["symptoms"]) or "none"),
        *(if_wide if wide else []),
        rank_at_end(document),
        slope(document),
    ]


def _verdict(document: Document) -> Text:
    return Text(document["verdict"], _COLOURS[Verdict(document["verdict"])])


def _labelled(label: str, content: Text) -> Table:
    """A label and a sentence that wraps beside it, not under it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=11, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, "bold"), content)
    return grid


def _headline(document: Document) -> RenderableType:
    return _labelled("VERDICT", Text.assemble(_verdict(document), "  ", printable(document["summary"])))


def _facts(document: Document) -> RenderableType:
    facts = [
        f"{count(document['parameters'])} parameters",
        f"{document['samples']} samples",
        f"gap {fixed(document['gap'])}",
        f"slope {slope(document)} per weight layer toward the input",
        f"{document['seconds']:.1f} s",
    ]
    return _labelled("network", Text(" · ".join([printable(document["name"]), *facts])))


def _checks(document: Document) -> RenderableType:
    parts: list[RenderableType] = [_labelled("found", _found(finding)) for finding in findings(document, State.FOUND)]
    clean = [finding["check"] for finding in findings(document, State.CLEAN)]
    if clean:
        parts.append(_labelled("clean", Text(printable(", ".join(clean)))))
    for finding in findings(document, State.NOT_CHECKED):
        parts.append(_labelled("not checked", Text(printable(f"{finding['check']}: {finding['reason']}"))))
    unobserved = [printable(module["name"]) or "(model)" for module in document["unobserved"]]
    if unobserved:
        names = ", ".join(unobserved[:_NAMES_SHOWN]) + (", …" if len(unobserved) > _NAMES_SHOWN else "")
        parts.append(
            _labelled("unobserved", Text(f"{len(unobserved)} module{'s' if len(unobserved) > 1 else ''}: {names}"))
        )
    parts += [_labelled("note", Text(printable(note))) for note in document["notes"]]
    return Group(*parts)


def _found(finding: Mapping[str, Any]) -> Text:
    severity = Verdict(finding["severity"])
    measured = (
        ""
        if finding["value"] is None
        else f" ({significant(finding['value'])}, limit {significant(finding['threshold'])})"
    )
    return Text.assemble(
        (str(severity), _COLOURS[severity]),
        f"  {printable(finding['check'])}: {printable(finding['reason'])}{measured}",
    )
