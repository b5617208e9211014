"""The section of one network on a page without scripts: verdict, prescriptions, findings, theory, layers, method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orthoscope.report.html import (
    details_list,
    environment,
    facts,
    findings_table,
    layers_table,
    look,
    safe,
    sources_list,
    table,
    verdict_sign,
)
from orthoscope.report.layer_table import folded
from orthoscope.report.reading import (
    Document,
    LayerRow,
    expected,
    first_sick,
    marks,
    metric,
    possible_rank,
    quoted_layer,
)
from orthoscope.report.wording import (
    LONGEST_TITLE,
    UNDEFINED,
    begins,
    count,
    fixed,
    isometry_gap,
    layer_name,
    number,
    printable,
    rank,
    rank_at_end,
    shape,
    shortened,
    signed,
    slope,
)


def prescriptions_list(document: Document) -> str:
    """The prescriptions of a diagnosis in the order given; nothing if it has none."""
    items = [f"<li>{_item(one)}</li>" for one in document.get("prescriptions") or ()]
    return f'<h3>What to change</h3><ol class="prescriptions">{"".join(items)}</ol>' if items else ""


def code_block(code: str) -> str:
    """Code to paste, line by line as it is."""
    lines = "\n".join(map(safe, code.splitlines()))
    return f"<pre><code>{lines}</code></pre>" if code else ""


def _item(one: Mapping[str, Any]) -> str:
    verdict = "" if one["verdict"] is None else verdict_sign(one)
    outcome = "advice for the training loop" if one["advice"] else one["outcome"]
    effects = "".join(f"<p>{name}: {_effect(one[name])}</p>" for name in ("predicted", "measured") if one[name])
    heading = f"<h4>{safe(one['name'])} {verdict} <i>{safe(outcome)}</i></h4>"
    return f"{heading}<p>{safe(one['why'])}</p>{effects}{code_block(one['code'])}"


def _effect(effect: Mapping[str, Any]) -> str:
    if effect["gap"] is None and effect["slope"] is None:
        return safe(effect["reason"] or "not known")
    return f"gap {fixed(effect['gap'])}, slope {signed(effect['slope'])}"


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
    layer = quoted_layer(document)
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
    layer = quoted_layer(document)
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


_DEFINITIONS = """<p>With the samples of a layer as the rows of <i>H</i>, and <i>n</i> of them:
the <b>orthogonality gap</b> is ‖HHᵀ/‖H‖² − I/n‖, in Frobenius norms;
the <b>effective rank</b> is the exponential of the entropy of the singular values, as shares of their sum;
the <b>overlap</b> is the mean cosine over pairs of samples;
the <b>isometry gap</b> is the log of the arithmetic over the geometric mean of the squared singular values,
and the word rank-deficient stands where the samples are linearly dependent;
<b>rms</b> is over all entries of the output;
<b>gradient</b> is the norm of the gradient with respect to the output.
A dash is an undefined number.</p>"""


def network(documents: Sequence[Document], index: int) -> str:
    """Everything about one network of a report."""
    document = documents[index]
    heading = f"<h2>{index + 1}. {safe(shortened(document['name'], LONGEST_TITLE))}</h2>" if len(documents) > 1 else ""
    return (
        f'<section class="network" id="network-{index + 1}">{heading}{_banner(document)}{_facts(document)}'
        f"<h3>Checks</h3>{findings_table(document)}<h3>Theory</h3>{theory(document)}"
        f"{prescriptions_list(document)}{_layers(document)}{_method(document)}</section>\n"
    )


def _banner(document: Document) -> str:
    answer = f"<div><p>{safe(document['summary'])}</p>{_where(document)}</div>"
    return f'<div class="banner {look(document)}">{verdict_sign(document)}{answer}</div>'


def _where(document: Document) -> str:
    first = first_sick(document)
    if first is None:
        return ""
    layer = document["layers"][first]
    place = f"module call {first + 1} of {len(document['layers'])}"
    return (
        f'<p class="where">{safe(begins(marks(document)[first]))} at <code>{safe(layer_name(layer))}</code>, '
        f"{place} ({safe(layer['kind'])}, {shape(layer['shape'])})</p>"
    )


def _facts(document: Document) -> str:
    entries = (
        ("parameters", count(document["parameters"])),
        ("samples", str(document["samples"])),
        ("orthogonality gap", fixed(document["gap"])),
        ("effective rank at the end", rank_at_end(document)),
        ("gradient slope ± s.e.", slope(document)),
        ("seconds", f"{document['seconds']:.1f}"),
    )
    return facts(entries)


def _layers(document: Document) -> str:
    """The folded table; the viewer has every layer."""
    layers = document["layers"]
    if not layers:
        return ""
    shown = [row for row in folded(layers, marks(document)) if isinstance(row, int)]
    hidden = len(layers) - len(shown)
    title = f"Layers ({hidden} like their neighbors left out)" if hidden else "Layers"
    return f"<h3>{title}</h3>{layers_table([(row, layers[row]) for row in shown], document)}"


def _method(document: Document) -> str:
    gradient = document["gradient_of"]
    source = f"the gradient is of {safe(gradient)}" if gradient else "nothing in the output could be differentiated"
    passes = f"<p>One forward and one backward pass on {document['samples']} samples; {source}.</p>"
    parts = [f"<details><summary>Method</summary>{passes}{_DEFINITIONS}</details>"]
    if document["notes"]:
        parts.append(details_list("Notes", [safe(note) for note in document["notes"]], is_open=True))
    unobserved = document["unobserved"]
    if unobserved:
        items = [f"<code>{safe(module['name'] or '(model)')}</code>: {safe(module['reason'])}" for module in unobserved]
        parts.append(details_list(f"{len(unobserved)} unobserved modules", items))
    parts.append(environment(document))
    return "".join(parts)
