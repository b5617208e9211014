"""The diagnosis in a terminal: verdict first, then the layers, what theory says, every check, and what to do next."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.findings import State
from orthoscope.report.document import (
    ComparisonDocument,
    ConfirmationDocument,
    DiagnosisDocument,
    Finding,
    FixDocument,
    PredictionDocument,
    ResidualDocument,
    as_document,
    quantities,
)
from orthoscope.report.fix_terminal import code_to_paste, comparison_terminal, confirmation_terminal, fix_terminal
from orthoscope.report.layer_table import LayerTable
from orthoscope.report.names import folded_names, layer_name, wrapped
from orthoscope.report.prediction_terminal import prediction_terminal
from orthoscope.report.residual import residual_terminal
from orthoscope.report.watch import history_text
from orthoscope.report.wording import (
    UNDEFINED,
    count,
    factor,
    fixed,
    gradient_growth,
    is_growth,
    labeled,
    printable,
    rank_at_end,
    shortened,
    significant,
    verdict_text,
    whole_growth,
    written,
)

_TEXT_WIDTH = 110
_NAMES_SHOWN = 4
_LONGEST_NAME = 60
_WIDE = 104  # columns from which a gallery has room for where a symptom begins and the gap


def terminal(content: Any) -> RenderableType:
    """Return what a reader needs, the answer in the first line; readable without color and at 80 columns.

    Args:
        content: A document, as its dataclass or as JSON data.
    """
    document = as_document(content)
    match document:
        case DiagnosisDocument():
            return _diagnosis(document)
        case PredictionDocument():
            return prediction_terminal(document)
        case ResidualDocument():
            return residual_terminal(document)
        case ComparisonDocument():
            return comparison_terminal(document)
        case FixDocument():
            return fix_terminal(document)
        case ConfirmationDocument():
            return confirmation_terminal(document)
    return Text(history_text(document))


def _diagnosis(document: DiagnosisDocument) -> RenderableType:
    parts: list[RenderableType] = [_headline(document), *_risk(document), _facts(document)]
    if document.layers:
        parts.append(Padding(LayerTable(document), (1, 0)))
    else:
        parts.append(Text("no layer was observed", "dim"))
    parts.append(labeled("theory", Text(theory_words(document))))
    parts.append(_checks(document))
    if document.residual is not None:
        parts += [Text("\nresidual alignment", "bold"), residual_terminal(document.residual)]
    # A command that a terminal breaks into lines cannot be pasted: `code_to_paste` prints it.
    parts += [labeled("next", Text(printable(step.split("`")[0].rstrip()))) for step in document.next_steps]
    return Group(*parts)


def text(content: Any, width: int | None = None) -> str:
    """The terminal view as plain text, for logs, `print` and pages without scripts.

    Args:
        content: A document, as its dataclass or as JSON data.
        width: Columns; those of the terminal if None.
    """
    document = as_document(content)
    return _plain(width, terminal(document), code_to_paste(document))


def gallery_text(documents: Sequence[Any], width: int | None = None) -> str:
    """The table of several networks as plain text."""
    return _plain(width, gallery_table(documents))


def _plain(width: int | None, view: RenderableType, code: str = "") -> str:
    file = StringIO()
    columns = width or shutil.get_terminal_size((_TEXT_WIDTH, 24)).columns
    console = Console(file=file, width=columns, color_system=None, force_terminal=False, highlight=False)
    console.print(view)
    console.print(code, markup=False, soft_wrap=True)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip().splitlines()) + "\n"


def gallery_table(documents: Sequence[Any]) -> RenderableType:
    """Return one row a network, in the order given; where a symptom begins and the gap only where there is room."""
    diagnoses = [document for one in documents if isinstance(document := as_document(one), DiagnosisDocument)]
    return _GalleryTable(diagnoses)


@dataclass(frozen=True)
class _GalleryTable:
    documents: list[DiagnosisDocument]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.max_width >= _WIDE
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("network", overflow="fold", min_width=12)
        table.add_column("verdict", no_wrap=True)
        table.add_column("symptoms")
        if wide:
            table.add_column("begins", overflow="fold")
            table.add_column("gap", justify="right", no_wrap=True)
        table.add_column("end rank", justify="right", no_wrap=True)
        table.add_column("gradient", justify="right", no_wrap=True)
        table.add_column("per layer", justify="right", no_wrap=True)
        for document in self.documents:
            table.add_row(*_gallery_row(document, wide))
        yield table
        yield Text(_GALLERY_LEGEND, "dim")


_GALLERY_LEGEND = (
    "end rank: effective rank of the samples at the last layer at least as wide as the batch; gradient: growth of its "
    "norm from the output to the input, and per weight layer"
)


def _gallery_row(document: DiagnosisDocument, wide: bool) -> list[RenderableType]:
    first = document.first_sick
    where = "" if first is None else wrapped(layer_name(document.layers[first]), _LONGEST_NAME)
    if_wide: list[RenderableType] = [Text(where), fixed(document.gap)]
    return [
        Text(shortened(printable(document.name), _LONGEST_NAME)),
        verdict_text(document.verdict),
        Text(", ".join(document.symptoms) or "none"),
        *(if_wide if wide else []),
        rank_at_end(document),
        factor(whole_growth(document)),
        factor(document.slope.value, 3),
    ]


def _headline(document: DiagnosisDocument) -> RenderableType:
    return labeled("VERDICT", Text.assemble(verdict_text(document.verdict), "  ", printable(document.summary)))


def _risk(document: DiagnosisDocument) -> list[RenderableType]:
    risk = document.risk
    if risk.value is None:
        return []
    worth = f"fitted to {risk.networks} trained networks; the verdict is right for {risk.accuracy:.0%} of others"
    return [labeled("risk", Text(f"{risk.value:.0%} that it does not train ({worth})"))]


def _facts(document: DiagnosisDocument) -> RenderableType:
    at = "" if document.quoted is None else f" at layer {layer_name(document.quoted)}"
    facts = [
        f"{count(document.parameters)} parameters",
        f"{document.samples} sample{'s' * (document.samples != 1)}",
        "orthogonality gap not measured" if document.gap is None else f"orthogonality gap {fixed(document.gap)}{at}",
        gradient_growth(document),
        f"{document.seconds:.1f} s",
    ]
    return labeled("network", Text(" · ".join([printable(document.name), *facts])))


def theory_words(document: DiagnosisDocument) -> str:
    """Return what theory predicts at the quoted layer, measured values in brackets, and the papers it is from."""
    prediction, layer = document.prediction, document.quoted
    if prediction.reason is not None:
        return f"no prediction: {printable(prediction.reason)}"
    rows: list[tuple[str, str, str, str]] = []
    for quantity in quantities("layer"):
        if layer is not None and quantity.is_main and quantity.is_predicted and quantity.place == "sample_view":
            possible = f"of {layer.possible_rank}" if quantity.written == "rank" else ""
            predicted, measured = (write(quantity.key) for write in (layer.expected, layer.measured))
            rows.append((quantity.label, written(quantity, predicted), written(quantity, measured), possible))
    rows.append(("gradient per weight layer", factor(prediction.slope, 3), factor(document.slope.value, 3), ""))
    parts: list[str] = []
    for name, predicted_text, measured_text, possible in rows:
        if predicted_text != UNDEFINED:
            beside = f"({measured_text})" if parts else f"(measured {measured_text})"
            parts.append(" ".join(filter(None, (name, predicted_text, beside, possible))))
    if not parts:
        return "no prediction: theory has no number for where the network ends"
    keys = dict.fromkeys(source.source.split(",")[0] for source in prediction.sources)
    by = f", by {', '.join(keys)}" if keys else ""
    return f"predicted {' · '.join(parts)}{printable(by)}"


def _checks(document: DiagnosisDocument) -> RenderableType:
    parts: list[RenderableType] = [labeled("found", _found(one)) for one in document.findings_in(State.FOUND)]
    clean = [finding.check for finding in document.findings_in(State.CLEAN)]
    if clean:
        parts.append(labeled("clean", Text(printable(", ".join(clean)))))
    for finding in document.findings_in(State.NOT_CHECKED):
        parts.append(labeled("not checked", Text(printable(f"{finding.check}: {finding.reason}"))))
    unobserved = document.unobserved
    if unobserved:
        names = folded_names(printable(module.name) or "(model)" for module in unobserved)
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        modules = f"{len(unobserved)} module{'s' if len(unobserved) > 1 else ''}"
        parts.append(labeled("unobserved", Text(f"{modules}: {shown}")))
    parts += [labeled("note", Text(printable(note))) for note in document.notes]
    return Group(*parts)


def _found(finding: Finding) -> Text:
    reason = f"  {printable(finding.check)}: {printable(finding.reason)}"
    # The sentence has the measured number; where any count is too many there is no limit to name.
    limit = f" (limit {limit_text(finding)})" if finding.threshold else ""
    return Text.assemble(verdict_text(finding.severity), reason, limit)


def limit_text(finding: Finding) -> str:
    """Return a limit in the unit of the sentence: growth as a factor, a share in percent."""
    if is_growth(finding.unit):
        return factor(finding.threshold)
    is_share = str(finding.unit).startswith("share") and finding.threshold is not None
    return f"{100 * finding.threshold:.3g}%" if is_share else significant(finding.threshold)
