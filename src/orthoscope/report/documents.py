"""One page for a report: no network, readable from a file, on paper, in the dark, and without its script.

Documents in and out of files: strict JSON, its schema, and a write that happens whole or not at all.
"""

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
from orthoscope.report.comparison_page import comparison_page
from orthoscope.report.fix_page import fix_page
from orthoscope.report.html import overview, safe
from orthoscope.report.network_page import network
from orthoscope.report.prediction_page import prediction_page
from orthoscope.report.reading import COMPARISON, FIX, PREDICTION, RESIDUAL, WATCH, Document, the_single
from orthoscope.report.residual import residual_page
from orthoscope.report.viewer import viewer_page
from orthoscope.report.watch import watch_page
from orthoscope.report.wording import LONGEST_TITLE, shortened

_NOTEBOOK_HEIGHT = 700
_PAGES = {
    PREDICTION: prediction_page,
    RESIDUAL: residual_page,
    WATCH: watch_page,
    COMPARISON: comparison_page,
    FIX: fix_page,
}


def html(documents: list[Document]) -> str:
    """A report, or any single document that has a page, as one self-contained HTML page."""
    single = the_single(documents)
    if single is not None:
        if single["schema"] not in _PAGES:
            raise ValueError(f"there is no page of a document of schema {single['schema']!r}: write .json instead")
        return _PAGES[single["schema"]](single)
    sections = "".join(network(documents, index) for index in range(len(documents)))
    together = overview(documents) if len(documents) > 1 else ""
    return viewer_page(documents, _title(documents), together + sections)


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
        return safe(shortened(documents[0]["name"], LONGEST_TITLE)) or "a network without a name"
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
