"""The diagnosis in a terminal: verdict first, then the layers, what theory says, then every check."""

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
from orthoscope.report.fix_terminal import code_to_paste, comparison_terminal, confirmation_terminal, fix_terminal
from orthoscope.report.layer_table import LayerTable
from orthoscope.report.prediction_terminal import prediction_terminal
from orthoscope.report.reading import (
    COMPARISON,
    CONFIRMATION,
    FIX,
    Document,
    expected,
    findings,
    first_sick,
    is_prediction,
    is_residual,
    is_watch,
    metric,
    possible_rank,
    quoted_layer,
)
from orthoscope.report.residual import residual_terminal
from orthoscope.report.watch import history_text
from orthoscope.report.wording import (
    UNDEFINED,
    count,
    fixed,
    labeled,
    layer_name,
    printable,
    rank,
    rank_at_end,
    shortened,
    signed,
    significant,
    slope,
    verdict_text,
)

_CHANGES = {FIX: fix_terminal, COMPARISON: comparison_terminal, CONFIRMATION: confirmation_terminal}
_TEXT_WIDTH = 110
_NAMES_SHOWN = 4
_LONGEST_NAME = 60
_WIDE = 104  # columns from which a gallery has room for where a symptom begins and the gap


def terminal(document: Document) -> RenderableType:
    """Everything a reader needs, the answer in the first line; readable without color and at 80 columns."""
    if is_prediction(document):
        return prediction_terminal(document)
    if is_residual(document):
        return residual_terminal(document)
    if is_watch(document):
        return Text(history_text(document))
    if document["schema"] in _CHANGES:
        return _CHANGES[document["schema"]](document)
    parts: list[RenderableType] = [_headline(document), *_risk(document), _facts(document)]
    if document["layers"]:
        parts.append(Padding(LayerTable(document), (1, 0)))
    else:
        parts.append(Text("no layer was observed", "dim"))
    parts.append(labeled("theory", Text(theory_words(document))))
    parts.append(_checks(document))
    if document.get("residual"):
        parts += [Text("\nresidual alignment", "bold"), residual_terminal(document["residual"])]
    return Group(*parts)


def text(document: Document, width: int | None = None) -> str:
    """The terminal view as plain text, for logs, `print` and pages without scripts.

    Args:
        document: Any document that a terminal shows.
        width: Columns; those of the terminal if None.
    """
    return _plain(width, terminal(document), code_to_paste(document))


def gallery_text(documents: list[Document], width: int | None = None) -> str:
    """The table of several networks as plain text."""
    return _plain(width, gallery_table(documents))


def _plain(width: int | None, view: RenderableType, code: str = "") -> str:
    file = StringIO()
    columns = width or shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns
    console = Console(file=file, width=columns, color_system=None, force_terminal=False, highlight=False)
    console.print(view)
    console.print(code, markup=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines()) + "\n"


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
        verdict_text(document["verdict"]),
        Text(", ".join(document["symptoms"]) or "none"),
        *(if_wide if wide else []),
        rank_at_end(document),
        slope(document),
    ]


def _headline(document: Document) -> RenderableType:
    return labeled("VERDICT", Text.assemble(verdict_text(document["verdict"]), "  ", printable(document["summary"])))


def _risk(document: Document) -> list[RenderableType]:
    """The risk and what it is worth; a document of an earlier version has none."""
    risk = document.get("risk")
    if risk is None or risk["value"] is None:
        return []
    worth = f"calibrated on n={risk['networks']}; right for {risk['accuracy']:.0%} of {risk['tested_on']} held out"
    return [labeled("risk", Text(f"{risk['value']:.2f} that it does not train ({worth})"))]


def _facts(document: Document) -> RenderableType:
    facts = [
        f"{count(document['parameters'])} parameters",
        f"{document['samples']} samples",
        f"gap {fixed(document['gap'])}",
        f"slope {slope(document)} per weight layer toward the input",
        f"{document['seconds']:.1f} s",
    ]
    return labeled("network", Text(" · ".join([printable(document["name"]), *facts])))


def theory_words(document: Document) -> str:
    """One sentence: what theory predicts for the end of the network, measured values in brackets, and its sources."""
    prediction, layer = document["prediction"], quoted_layer(document)
    if prediction["reason"] is not None:
        return f"no prediction: {printable(prediction['reason'])}"
    rows: list[tuple[str, str, str, str]] = []
    if layer is not None:
        kinds = (("overlap", "overlap", fixed), ("gap", "gap", fixed), ("rank", "effective_rank", rank))
        for name, key, write in kinds:
            possible = f"of {possible_rank(layer)}" if name == "rank" else ""
            rows.append((name, write(expected(layer, key)), write(metric(layer, key)), possible))
    rows.append(("slope", signed(prediction["slope"]), signed(document["slope"]["value"]), ""))
    parts: list[str] = []
    for name, predicted, measured, possible in rows:
        if predicted != UNDEFINED:
            beside = f"({measured})" if parts else f"(measured {measured})"
            parts.append(" ".join(filter(None, (name, predicted, beside, possible))))
    if not parts:
        return "no prediction: theory has no number for where the network ends"
    keys = dict.fromkeys(source["source"].split(",")[0] for source in prediction["sources"])
    return "  ".join(filter(None, (" · ".join(parts), printable("; ".join(keys)))))


def _checks(document: Document) -> RenderableType:
    parts: list[RenderableType] = [labeled("found", _found(finding)) for finding in findings(document, State.FOUND)]
    clean = [finding["check"] for finding in findings(document, State.CLEAN)]
    if clean:
        parts.append(labeled("clean", Text(printable(", ".join(clean)))))
    for finding in findings(document, State.NOT_CHECKED):
        parts.append(labeled("not checked", Text(printable(f"{finding['check']}: {finding['reason']}"))))
    unobserved = [printable(module["name"]) or "(model)" for module in document["unobserved"]]
    if unobserved:
        names = ", ".join(unobserved[:_NAMES_SHOWN]) + (", …" if len(unobserved) > _NAMES_SHOWN else "")
        parts.append(
            labeled("unobserved", Text(f"{len(unobserved)} module{'s' if len(unobserved) > 1 else ''}: {names}"))
        )
    parts += [labeled("note", Text(printable(note))) for note in document["notes"]]
    return Group(*parts)


def _found(finding: Mapping[str, Any]) -> Text:
    severity = Verdict(finding["severity"])
    measured = (
        ""
        if finding["value"] is None
        else f" ({significant(finding['value'])}, limit {significant(finding['threshold'])})"
    )
    return Text.assemble(
        verdict_text(severity),
        f"  {printable(finding['check'])}: {printable(finding['reason'])}{measured}",
    )
