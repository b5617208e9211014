"""What every view reads off a document: its kind, where it goes wrong, and which layer speaks for the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.findings import State, Verdict

Document = dict[str, Any]
LayerRow = Mapping[str, Any]
Number = int | float  # JSON has one kind: a writer may turn 1.0 into 1
DIAGNOSIS, PREDICTION = "orthoscope.diagnosis/3", "orthoscope.prediction/1"
RESIDUAL = "orthoscope.residual/1"
WATCH = "orthoscope.watch/2"
FIX, COMPARISON, CONFIRMATION = "orthoscope.fix/1", "orthoscope.comparison/1", "orthoscope.confirmation/1"
_DRAWN = (DIAGNOSIS, PREDICTION, RESIDUAL, FIX, COMPARISON, CONFIRMATION, WATCH)
# What a file holds one of, in words.
_SINGLE = {
    PREDICTION: "prediction",
    RESIDUAL: "alignment",
    FIX: "fix",
    COMPARISON: "comparison",
    CONFIRMATION: "confirmation",
    WATCH: "watch",
}


def is_prediction(document: Document) -> bool:
    """Whether a document speaks of a network that was not built; one of no kind that can be drawn is refused."""
    if document["schema"] not in _DRAWN:
        known = ", ".join(_DRAWN[:-1])
        raise ValueError(
            f"cannot draw a document of schema {document['schema']!r}: this version draws {known} and {_DRAWN[-1]}"
        )
    return bool(document["schema"] == PREDICTION)


def is_residual(document: Document) -> bool:
    """Whether a document is about the alignment of residual blocks alone."""
    return bool(document["schema"] == RESIDUAL)


def is_watch(document: Document) -> bool:
    """Whether a document is about a network in training."""
    return bool(document["schema"] == WATCH)


def the_single(documents: Sequence[Document]) -> Document | None:
    """The document that stands alone, as a prediction or a fix; None for diagnoses: one file holds either."""
    single = [document for document in documents if is_prediction(document) or document["schema"] in _SINGLE]
    if not single:
        return None
    if len(documents) > 1:
        kind = _SINGLE[single[0]["schema"]]
        raise ValueError(
            f"a file holds one {kind} or several diagnoses, not {len(single)} of {len(documents)} documents "
            f"{kind}s: write them one by one"
        )
    return single[0]


def findings(document: Document, state: State) -> list[Mapping[str, Any]]:
    """The findings in one state, worst first, otherwise in the order of the rules."""
    chosen = [finding for finding in document["findings"] if finding["state"] == state]
    return sorted(chosen, key=lambda finding: -Verdict(finding["severity"]).rank)


def marks(document: Document) -> dict[int, list[str]]:
    """Layers that findings name: index in `layers` to the symptoms that begin there, worst finding first."""
    # A name can be called several times; the document does not say which call, so the first is marked.
    place: dict[str, int] = {}
    for index, layer in enumerate(document["layers"]):
        place.setdefault(layer["name"], index)
    begins: dict[int, list[str]] = {}
    for finding in findings(document, State.FOUND):
        index = place.get(finding["layer"], -1)
        if index >= 0 and finding["symptom"] not in begins.setdefault(index, []):
            begins[index].append(finding["symptom"])
    return begins


def first_sick(document: Document) -> int | None:
    """Where the worst finding that names a layer begins: an index in `layers`."""
    return next(iter(marks(document)), None)


def metric(layer: LayerRow, name: str) -> Number | None:
    """A metric of the samples at a layer, None where it is undefined."""
    view = layer["sample_view"]
    return None if view is None else view[name]


def expected(layer: LayerRow, name: str) -> Number | None:
    """The same metric as theory has it, None where it has none."""
    predicted = layer["predicted"]
    return None if predicted is None else predicted[name]


def possible_rank(layer: LayerRow) -> int:
    """Most directions that the samples of a layer can span."""
    return int(min(layer["samples"], layer["units"]))


def possible_centered_rank(layer: LayerRow) -> int:
    """Most directions around the mean: centering takes one sample."""
    return int(min(layer["samples"] - 1, layer["units"]))


def share(value: Number | None, possible: int) -> Number | None:
    """A rank relative to the possible one; undefined when nothing is possible."""
    return None if value is None or possible < 1 else value / possible


def quoted_layer(document: Document) -> LayerRow | None:
    """The layer whose gap and rank are quoted for the network."""
    index: int | None = document["quoted_layer"]
    return None if index is None else document["layers"][index]
