"""The section of one network without a script: verdict, findings, theory, layers, method."""

from collections.abc import Sequence

from orthoscope.report.folding import folded
from orthoscope.report.lists import details_list, environment, facts
from orthoscope.report.prescriptions_list import prescriptions_list
from orthoscope.report.reading import Document, first_sick, marks
from orthoscope.report.signs import look
from orthoscope.report.tables import findings_table, layers_table, safe, verdict_sign
from orthoscope.report.theory import theory
from orthoscope.report.wording import (
    LONGEST_TITLE,
    begins,
    count,
    fixed,
    layer_name,
    rank_at_end,
    shape,
    shortened,
    slope,
)

_DEFINITIONS = """<p>With the samples of a layer as the rows of <i>H</i>, and <i>n</i> of them:
the <b>orthogonality gap</b> is ‖HHᵀ/‖H‖² − I/n‖, in Frobenius norms;
the <b>effective rank</b> is the exponential of the entropy of the singular values, as shares of their sum,
<b>centred</b> when the batch mean is taken out first;
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
    title = f"Layers ({hidden} like their neighbours left out)" if hidden else "Layers"
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
