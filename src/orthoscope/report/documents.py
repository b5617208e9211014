"""Documents in and out of files: pages, strict JSON, its schema, and a write that happens whole or not at all."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from orthoscope.files import replace
from orthoscope.findings import Verdict
from orthoscope.report.document import (
    ComparisonDocument,
    ConfirmationDocument,
    DiagnosisDocument,
    Document,
    FixDocument,
    Part,
    PredictionDocument,
    ReportDocument,
    ResidualDocument,
    WatchDocument,
    as_document,
    to_data,
)
from orthoscope.report.terminal import gallery_text, text
from orthoscope.report.viewer import viewer_page
from orthoscope.report.watch import watch_table
from orthoscope.report.wording import LONGEST_TITLE, printable, shortened

_NOTEBOOK_HEIGHT = 700
_STATIC_WIDTH = 110  # columns of the text that is read without scripts
# What a file holds one of, in words; of diagnoses it may hold several.
_SINGLE: dict[type[Part], str] = {
    PredictionDocument: "prediction",
    ResidualDocument: "residual alignment",
    WatchDocument: "watch",
    ComparisonDocument: "comparison",
    FixDocument: "fix",
    ConfirmationDocument: "confirmation",
}


def _alone(documents: Sequence[Document]) -> Document | None:
    """Return the document that stands alone, as a prediction or a fix; None for diagnoses: one file holds either."""
    single = [document for document in documents if not isinstance(document, DiagnosisDocument)]
    if len(documents) > 1 and single:
        kind = _SINGLE[type(single[0])]
        raise ValueError(
            f"a file holds one {kind} or several diagnoses, not {len(single)} of {len(documents)} documents "
            f"{kind}s: write them one by one"
        )
    return single[0] if single else None


def html(contents: Sequence[Any]) -> str:
    """One document, or several diagnoses, as one self-contained page that the viewer draws.

    Args:
        contents: Diagnoses, or one document of another kind, as their dataclasses or as JSON data.

    Returns:
        The page. It needs no network; without scripts it shows what the terminal prints.

    Raises:
        ValueError: If a document of another kind is not alone, or none of a kind that this version draws.
    """
    documents = [as_document(content) for content in contents]
    single = _alone(documents)
    eyebrow = "Orthoscope report" if single is None else f"Orthoscope {_SINGLE[type(single)]}"
    together = [gallery_text(documents, _STATIC_WIDTH)] if len(documents) > 1 else []
    static = "\n".join([*together, *map(_static, documents)])
    return viewer_page(to_data(documents), _title(documents), static, eyebrow)


def _static(document: Document) -> str:
    """Return what is read without scripts: what a terminal shows; of a watch, updates and the last snapshot too."""
    parts = [text(document, _STATIC_WIDTH)]
    if isinstance(document, WatchDocument):
        parts += [watch_table(document, width=_STATIC_WIDTH)] if document.rows else []
        parts += [text(document.latest, _STATIC_WIDTH)] if document.latest is not None else []
    return "\n".join(parts)


def notebook(content: Any) -> str:
    """Return the page in a frame of its own: its style cannot leak into the notebook, nor the notebook's into it.

    Its scripts run, but of an origin that is nobody's: they reach neither the notebook nor its cookies.
    """
    return (
        f'<iframe srcdoc="{escape(html([content]), quote=True)}" sandbox="allow-scripts allow-downloads" '
        f'title="Orthoscope report" width="100%" height="{_NOTEBOOK_HEIGHT}" style="border:0"></iframe>'
    )


def _title(documents: Sequence[Document]) -> str:
    if len(documents) == 1:
        (document,) = documents
        both = (document.before.name, document.after.name) if isinstance(document, ComparisonDocument) else ()
        names = dict.fromkeys(shortened(printable(name), LONGEST_TITLE) for name in both or (document.name,))
        return " → ".join(name or "a network without a name" for name in names)
    counts = Counter(document.verdict for document in documents if isinstance(document, DiagnosisDocument))
    parts = [f"{counts[verdict]} {verdict.lower()}" for verdict in reversed(Verdict) if counts[verdict]]
    return f"{len(documents)} networks" + (f": {', '.join(parts)}" if parts else "")


def report_json(contents: Sequence[Any]) -> str:
    """Return several diagnoses as one strict JSON text, any other document as it is: no nan, no infinity."""
    documents = [as_document(content) for content in contents]
    single = _alone(documents)
    diagnoses = tuple(document for document in documents if isinstance(document, DiagnosisDocument))
    content = ReportDocument(diagnoses=diagnoses) if single is None else single
    return json.dumps(to_data(content), allow_nan=False, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of every document that is written, told apart by their `schema` field."""
    content = resources.files(__package__).joinpath("schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(content)
    return loaded


def write(path: str | os.PathLike[str], documents: Sequence[Any]) -> None:
    """Write documents, as their dataclasses or as JSON data, to `.html` or `.json`.

    A file that was there before stays until the new one is complete.
    """
    target = Path(path)
    renderers = {".html": html, ".json": report_json}
    render = renderers.get(target.suffix.lower())
    if render is None:
        raise ValueError(f"cannot write a report to {str(path)!r}: the name must end in .html or .json")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
    replace(target, render(documents))
