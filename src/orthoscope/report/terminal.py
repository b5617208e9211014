"""The diagnosis in a terminal: verdict first, then the layers, what theory says, every check, and what to do next.

Documents of other kinds have views of their own; `terminal` and `text` find them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.findings import State, Status, Symptom
from orthoscope.report.document import (
    ComparisonDocument,
    ConfirmationDocument,
    DiagnosisDocument,
    Document,
    Finding,
    FixDocument,
    Layer,
    PredictionDocument,
    Quantity,
    ResidualDocument,
    as_document,
    quantities,
    quantity,
)
from orthoscope.report.fix_terminal import comparison_terminal, confirmation_terminal, fix_terminal
from orthoscope.report.folding import Fold, folded, layer_name, span_of, wrapped
from orthoscope.report.inside_terminal import inside_terminal
from orthoscope.report.layout import LABEL_WIDTH, as_text, labeled, some_names, table, verdict_text
from orthoscope.report.prediction_terminal import prediction_terminal
from orthoscope.report.residual_terminal import residual_terminal
from orthoscope.report.watch_terminal import history_text
from orthoscope.report.wording import (
    UNDEFINED,
    count,
    factor,
    fixed,
    gradient_growth,
    is_growth,
    printable,
    shape,
    shortened,
    significant,
    symptom_words,
    whole_growth,
    written,
)

_WIDE = 104  # columns from which a table has room for the kind of a layer, and for where a symptom begins
_KIND = "kind, shape"
_NAME, _LONGEST_NAME, _LONGEST_TITLE, _LONGEST_KIND, _LONGEST_STATUS = 32, 44, 60, 26, 15


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


def text(content: Any, width: int | None = None) -> str:
    """The terminal view as plain text, for logs, `print` and pages without scripts.

    Args:
        content: A document, as its dataclass or as JSON data.
        width: Columns; those of the terminal if None.
    """
    document = as_document(content)
    return as_text(terminal(document), width, code_to_paste(document))


def code_to_paste(document: Document) -> str:
    """Return code or a command to be printed as it is: a terminal that breaks its lines breaks it. Empty if none."""
    if isinstance(document, FixDocument):
        return "\n".join(printable(line) for line in document.snippet.splitlines())
    steps = document.next_steps if isinstance(document, DiagnosisDocument) else ()
    commands = (step.split("`")[1] for step in steps if step.count("`") == 2)
    return "\n".join(f"{'':{LABEL_WIDTH}}{printable(command)}" for command in commands)


def gallery_table(documents: Sequence[Any]) -> RenderableType:
    """Return one row a network, in the order given; where a symptom begins and the gap only where there is room."""
    return _GalleryTable([one for made in documents if isinstance(one := as_document(made), DiagnosisDocument)])


@dataclass(frozen=True)
class _GalleryTable:
    documents: list[DiagnosisDocument]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.max_width >= _WIDE
        only_if_wide = ("begins", "gap") if wide else ()
        headings = ("network", "verdict", "symptoms", *only_if_wide, "end rank", "gradient", "per layer")
        made = table(*headings, words=("network", "verdict", "symptoms", "begins"))
        made.columns[0].min_width = 12
        for document in self.documents:
            made.add_row(*_gallery_row(document, wide))
        yield made
        yield Text(_GALLERY_LEGEND, "dim")


_GALLERY_LEGEND = (
    "end rank: effective rank of the samples at the last layer where they can have the most directions; gradient: "
    "growth of its norm from the output to the input, and per weight layer"
)


def _gallery_row(document: DiagnosisDocument, wide: bool) -> list[RenderableType]:
    first, last = document.first_sick, document.quoted
    where = "" if first is None else wrapped(layer_name(document.layers[first]), _LONGEST_TITLE)
    only_if_wide: list[RenderableType] = [Text(where), fixed(document.gap)]
    rank = None if last is None else last.measured("effective_rank")
    return [
        Text(shortened(printable(document.name), _LONGEST_TITLE)),
        verdict_text(document.verdict),
        symptom_words(document.symptoms) or "none",
        *(only_if_wide if wide else []),
        UNDEFINED if last is None or rank is None else f"{rank:.1f} of {last.possible_rank}",
        factor(whole_growth(document)),
        factor(document.slope.value),
    ]


def _diagnosis(document: DiagnosisDocument) -> RenderableType:
    headline = Text.assemble(verdict_text(document.verdict), "  ", printable(document.summary))
    parts: list[RenderableType] = [labeled("VERDICT", headline), *_risk(document), _facts(document)]
    parts.append(Padding(_LayerTable(document), (1, 0)) if document.layers else Text("no layer was observed", "dim"))
    parts += [*inside_terminal(document)]
    parts.append(labeled("theory", theory_words(document)))
    parts += _checks(document)
    if document.residual is not None:
        parts += [Text("\nresidual alignment", "bold"), residual_terminal(document.residual)]
    # A command that a terminal breaks into lines cannot be pasted: `code_to_paste` prints it.
    return Group(*parts, *(labeled("next", step.split("`")[0].rstrip()) for step in document.next_steps))


def _risk(document: DiagnosisDocument) -> list[RenderableType]:
    risk = document.risk
    if risk.value is None:
        return []
    worth = f"fitted to {risk.networks} trained networks; the verdict is right for {risk.accuracy:.0%} of others"
    return [labeled("risk", f"{risk.value:.0%} that it does not train ({worth})")]


def _facts(document: DiagnosisDocument) -> RenderableType:
    name = "" if document.quoted is None else layer_name(document.quoted)
    at = "" if document.quoted is None else f" at {'module ' if name.isdigit() else ''}{name}"
    facts = [
        document.name,
        f"{count(document.parameters)} parameters",
        f"{document.samples} sample{'s' * (document.samples != 1)}",
        "orthogonality gap not measured" if document.gap is None else f"orthogonality gap {fixed(document.gap)}{at}",
        gradient_growth(document),
        f"{document.seconds:.1f} s",
    ]
    return labeled("network", " · ".join(facts))


def theory_words(document: DiagnosisDocument) -> str:
    """Return what theory predicts at the quoted layer, measured values in brackets, and the papers it is from."""
    prediction, layer = document.prediction, document.quoted
    if prediction.reason is not None:
        return f"no prediction: {printable(prediction.reason)}"
    parts: list[str] = []

    def compare(one: Quantity, predicted: float | None, measured: float | None, possible: str = "") -> None:
        if predicted is not None:
            beside = f"({'' if parts else 'measured '}{written(one, measured)})"
            parts.append(" ".join(filter(None, (one.label, written(one, predicted), beside, possible))))

    for one in quantities("layer"):
        if layer is not None and one.is_main and one.is_predicted and one.place == "sample_view":
            possible = f"of {layer.possible_rank}" if one.written == "rank" else ""
            compare(one, layer.expected(one.key), layer.measured(one.key), possible)
    compare(quantity("network", "slope"), prediction.slope, document.slope.value)
    if not parts:
        return "no prediction: theory has no number for where the network ends"
    keys = dict.fromkeys(source.source.split(",")[0] for source in prediction.sources)
    by = f", by {', '.join(keys)}" if keys else ""
    return f"predicted {' · '.join(parts)}{printable(by)}"


def _checks(document: DiagnosisDocument) -> Iterator[RenderableType]:
    for finding in document.findings_in(State.FOUND):
        yield labeled("found", _found(finding))
    clean = [finding.check for finding in document.findings_in(State.CLEAN)]
    if clean:
        yield labeled("clean", ", ".join(clean))
    reasons: dict[str, list[str]] = {}
    for finding in document.findings_in(State.NOT_CHECKED):
        reasons.setdefault(finding.reason, []).append(finding.check)
    for reason, checks in reasons.items():
        yield labeled("not checked", f"{', '.join(checks)}: {reason}")
    unobserved = document.unobserved
    if unobserved:
        modules = f"{len(unobserved)} module{'s' if len(unobserved) > 1 else ''}"
        yield labeled("unobserved", f"{modules}: {some_names(module.name for module in unobserved)}")
    for note in document.notes:
        yield labeled("note", note)


def _found(finding: Finding) -> Text:
    reason = f"  {printable(finding.check)}: {printable(finding.reason)}"
    # The sentence has the measured number; where any count is too many there is no limit to name.
    limit = f"; limit {_limit(finding.threshold, str(finding.unit))}" if finding.threshold else ""
    return Text.assemble(verdict_text(finding.severity), reason, limit)


def _limit(value: float, unit: str) -> str:
    """Return a limit in the unit of the sentence: growth as a factor, a share in percent."""
    if is_growth(unit):
        return factor(value)
    return f"{100 * value:.3g}%" if unit.startswith("share") else significant(value)


@dataclass(frozen=True)
class _LayerTable:
    """Renders itself at the width it is given: numbers are left out before names are broken, and names are never cut.

    The numbers are the quantities of a layer that have a heading, in the order of the table of quantities.
    """

    document: DiagnosisDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table | Text]:
        layers, begin, first = self.document.layers, self.document.marks, self.document.first_sick
        rows = folded(layers, begin)
        shown = [row for row in rows if isinstance(row, int)]
        names = {row: ("→ " if row == first else "  ") + layer_name(layers[row]) for row in shown}
        statuses = {row: _status(layers[row], begin.get(row, [])) for row in shown}
        wanted = max(*map(len, names.values()), *(len(_words(layers, row)) for row in rows if isinstance(row, Fold)), 7)
        columns = _columns(layers, shown, options.max_width >= _WIDE)
        status = max(6, *(min(len(words), _LONGEST_STATUS) for words in statuses.values()))
        width, gap = _fit(columns, options.max_width - status, wanted, wide=options.max_width >= _WIDE)
        headings = ("  layer", *(column.heading for column in columns), "status")
        made = table(*headings, words=("  layer", _KIND, "status"), gap=gap - 1)
        made.columns[0].width, made.columns[-1].min_width = width, len("status")
        for row in rows:
            if isinstance(row, Fold):
                made.add_row(Text(wrapped(_words(layers, row), width), "dim"))
                continue
            cells = (Text(column.cells[row]) for column in columns)
            style = "bold" if row in begin else None
            made.add_row(Text(wrapped(names[row], width)), *cells, Text(statuses[row]), style=style)
        yield made
        legend = (f"{column.heading}: {column.meaning}" for column in columns if column.meaning)
        yield Text("\n" + "; ".join(legend), "dim")


@dataclass(frozen=True)
class _Column:
    """What every layer that is shown has in a column, and whether it is left out where there is no room."""

    heading: str
    cells: dict[int, str]
    meaning: str = ""
    is_spare: bool = False


def _columns(layers: Sequence[Layer], shown: Sequence[int], wide: bool) -> list[_Column]:
    kinds = {row: f"{printable(layers[row].kind)} {shape(layers[row].shape)}" for row in shown}
    first = _Column(_KIND, {row: shortened(kind, _LONGEST_KIND) for row, kind in kinds.items()})
    return [first] * wide + [
        _Column(one.short, {row: layer_number(one, layers[row]) for row in shown}, one.label, not one.is_main)
        for one in quantities("layer")
        if one.short
    ]


def _fit(columns: list[_Column], room: int, wanted: int, wide: bool) -> tuple[int, int]:
    """Leave out columns until names fit beside them; returns the width of names, and what separates two columns."""
    gap = 2 if wide else 1
    while True:
        widths = (max(len(column.heading), *map(len, column.cells.values())) for column in columns)
        left = room - sum(widths) - gap * (len(columns) + 1)
        spare = [column for column in columns if column.is_spare]
        if left >= min(wanted, _NAME) or not spare:
            return min(max(left, 1), wanted, wanted if wide else _LONGEST_NAME), gap
        columns.remove(spare[-1])


def layer_number(quantity: Quantity, layer: Layer) -> str:
    """Return how a quantity of a layer reads in a narrow column: a rank as `12/64`."""
    if quantity.key == "isometry_gap" and layer.rank_deficient:
        return "∞"
    return written(quantity, layer.measured(quantity.key), layer.possible_rank)


def _words(layers: Sequence[Layer], fold: Fold) -> str:
    span = span_of([printable(layers[index].name) for index in range(fold.start, fold.stop)])
    return f"… {span}: {len(fold)} layers folded" if span else f"… {len(fold)} layers folded"


def _status(layer: Layer, symptoms: Sequence[Symptom]) -> str:
    """Return what is worth saying of a layer: nothing of one that was measured."""
    if symptoms:
        return f"{symptom_words(symptoms)} from here on"
    if layer.rank_deficient and layer.units >= layer.samples:  # fewer units than samples are no news
        return "rank-deficient"
    return "" if layer.status is Status.MEASURED else printable(layer.status)
