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
from orthoscope.report.reading import (
    COMPARISON,
    CONFIRMATION,
    FIX,
    PREDICTION,
    RESIDUAL,
    WATCH,
    Document,
    the_single,
)
from orthoscope.report.terminal import gallery_text, text
from orthoscope.report.viewer import viewer_page
from orthoscope.report.watch import watch_table
from orthoscope.report.wording import LONGEST_TITLE, printable, shortened

_NOTEBOOK_HEIGHT = 700
_STATIC_WIDTH = 110  # columns of the text that is read without scripts
_EYEBROWS = {
    PREDICTION: "Orthoscope prediction",
    RESIDUAL: "Orthoscope residual alignment",
    WATCH: "Orthoscope watch",
    COMPARISON: "Orthoscope comparison",
    FIX: "Orthoscope fix",
    CONFIRMATION: "Orthoscope confirmation",
}


def html(documents: list[Document]) -> str:
    """One document, or several diagnoses, as one self-contained page that the viewer draws.

    Args:
        documents: Diagnoses, or one document of another kind.

    Returns:
        The page. It needs no network; without scripts it shows what the terminal prints.

    Raises:
        ValueError: If a document of another kind is not alone, or none of a kind that this version draws.
    """
    single = the_single(documents)
    eyebrow = "Orthoscope report" if single is None else _EYEBROWS[single["schema"]]
    together = [gallery_text(documents, _STATIC_WIDTH)] if len(documents) > 1 else []
    static = "\n".join([*together, *map(_static, documents)])
    return viewer_page(documents, _title(documents), static, eyebrow)


def _static(document: Document) -> str:
    """What is read without scripts: what a terminal shows; of a watch, the updates and the last snapshot too."""
    parts = [text(document, _STATIC_WIDTH)]
    if document["schema"] == WATCH:
        parts += [watch_table(document, width=_STATIC_WIDTH)] if document["rows"] else []
        parts += [text(document["latest"], _STATIC_WIDTH)] if document["latest"] else []
    return "\n".join(parts)


def notebook(document: Document) -> str:
    """The page in a frame of its own: its style cannot leak into the notebook, nor the notebook's into it.

    Its scripts run, but of an origin that is nobody's: they reach neither the notebook nor its cookies.
    """
    return (
        f'<iframe srcdoc="{escape(html([document]), quote=True)}" sandbox="allow-scripts allow-downloads" '
        f'title="Orthoscope report" width="100%" height="{_NOTEBOOK_HEIGHT}" style="border:0"></iframe>'
    )


def _title(documents: Sequence[Document]) -> str:
    if len(documents) == 1:
        (document,) = documents
        both = [document[when]["name"] for when in ("before", "after")] if document["schema"] == COMPARISON else []
        names = dict.fromkeys(shortened(printable(name), LONGEST_TITLE) for name in both or [document["name"]])
        return " → ".join(name or "a network without a name" for name in names)
    counts = Counter(document["verdict"] for document in documents)
    parts = [f"{counts[verdict]} {verdict.lower()}" for verdict in reversed(Verdict) if counts[verdict]]
    return f"{len(documents)} networks" + (f": {', '.join(parts)}" if parts else "")


SCHEMA = "orthoscope.report/2"


def report_json(documents: list[Document]) -> str:
    """Several diagnoses as one strict JSON text, any other document as it is: no nan, no infinity."""
    content = the_single(documents) or {"schema": SCHEMA, "diagnoses": documents}
    return json.dumps(content, allow_nan=False, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of every document that is written, told apart by their `schema` field."""
    content = resources.files(__package__).joinpath("schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(content)
    return loaded


def write(path: str | os.PathLike[str], documents: list[Document]) -> None:
    """Write `.html` or `.json`; a file that was there before stays until the new one is complete."""
    target = Path(path)
    renderers = {".html": html, ".json": report_json}
    render = renderers.get(target.suffix.lower())
    if render is None:
        raise ValueError(f"cannot write a report to {str(path)!r}: the name must end in .html or .json")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
    replace(target, render(documents))
