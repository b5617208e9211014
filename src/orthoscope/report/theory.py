"""Theory beside measurement: what was predicted of a network that was diagnosed, and how it came out."""

from dataclasses import dataclass

from orthoscope.report.lists import sources_list
from orthoscope.report.reading import Document, LayerRow, expected, last_telling_layer, metric, possible_rank
from orthoscope.report.tables import safe, table
from orthoscope.report.wording import UNDEFINED, fixed, isometry_gap, layer_name, number, printable, rank, signed

_NOTHING = "theory has no number for where the network ends"


@dataclass(frozen=True)
class Comparison:
    """One quantity, twice; a dash where it is undefined."""

    name: str
    predicted: str
    measured: str
    possible: str = ""  # `of 64` for a rank
    short: str = ""  # its name in a terminal; empty if it is left out there


def comparisons(document: Document) -> list[Comparison]:
    """Predicted and measured at the layer that speaks for the end, and the slope of the whole network."""
    layer = last_telling_layer(document)
    slope = Comparison(
        "gradient slope",
        signed(document["prediction"]["slope"]),
        signed(document["slope"]["value"]),
        short="slope",
    )
    return [slope] if layer is None else [*_at(layer), slope]


def theory_words(document: Document) -> str:
    """One sentence for a terminal: what theory has, measured values in brackets, and who says so."""
    if document["prediction"]["reason"] is not None:
        return f"no prediction: {printable(document['prediction']['reason'])}"
    spoken = [row for row in comparisons(document) if row.short and row.predicted != UNDEFINED]
    if not spoken:
        return f"no prediction: {_NOTHING}"
    parts: list[str] = []
    for row in spoken:
        measured = row.measured if parts else f"measured {row.measured}"
        parts.append(" ".join(filter(None, (row.short, row.predicted, f"({measured})", row.possible))))
    keys = dict.fromkeys(source["source"].split(",")[0] for source in document["prediction"]["sources"])
    return "  ".join(filter(None, (" · ".join(parts), printable("; ".join(keys)))))


def theory(document: Document) -> str:
    """The part of a network's section: predicted and measured side by side, and what the prediction assumes."""
    prediction = document["prediction"]
    if prediction["reason"] is not None:
        return f'<p class="quiet">No prediction: {safe(prediction["reason"])}.</p>'
    layer = last_telling_layer(document)
    where = "" if layer is None else f" at <code>{safe(layer_name(layer))}</code>, the layer that speaks for the end"
    rows = [
        f"<tr><td>{row.name} {row.possible}</td>"
        f'<td class="n">{row.predicted}</td><td class="n">{row.measured}</td></tr>'
        for row in comparisons(document)
    ]
    compared = table(("quantity", "predicted", "measured"), rows, "compared")
    return f"<p>Predicted and measured{where}.</p>{compared}{sources_list(prediction['sources'])}"


def _at(layer: LayerRow) -> list[Comparison]:
    return [
        Comparison("overlap", fixed(expected(layer, "overlap")), fixed(metric(layer, "overlap")), short="overlap"),
        Comparison("orthogonality gap", fixed(expected(layer, "gap")), fixed(metric(layer, "gap")), short="gap"),
        Comparison(
            "effective rank",
            rank(expected(layer, "effective_rank")),
            rank(metric(layer, "effective_rank")),
            f"of {possible_rank(layer)}",
            short="rank",
        ),
        Comparison("isometry gap", number(expected(layer, "isometry_gap")), isometry_gap(layer)),
        Comparison("rms", number(expected(layer, "rms")), number(layer["rms"])),
    ]
