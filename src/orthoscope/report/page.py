"""One page for a report: no network, readable from a file, on paper, in the dark, and without its script."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from orthoscope.findings import Verdict
from orthoscope.report.comparison_page import comparison_page
from orthoscope.report.fix_page import fix_page
from orthoscope.report.network import network
from orthoscope.report.prediction_page import prediction_page
from orthoscope.report.reading import COMPARISON, FIX, PREDICTION, RESIDUAL, WATCH, Document, the_single
from orthoscope.report.residual_page import residual_page
from orthoscope.report.tables import overview, safe
from orthoscope.report.viewer import viewer_page
from orthoscope.report.watch_page import watch_page
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
