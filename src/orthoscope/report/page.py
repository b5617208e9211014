"""One page for a report: no script, no network, readable from a file, on paper and in the dark."""

from collections import Counter
from collections.abc import Sequence
from html import escape

from orthoscope.findings import Verdict
from orthoscope.report.network import network
from orthoscope.report.plane import plane, plane_legend, unplaced
from orthoscope.report.prediction_page import prediction_page
from orthoscope.report.reading import Document, is_prediction, is_residual, is_watch, the_single
from orthoscope.report.residual_page import residual_page
from orthoscope.report.shell import shell
from orthoscope.report.tables import overview, safe
from orthoscope.report.watch_page import watch_page
from orthoscope.report.wording import LONGEST_TITLE, shortened

_NOTEBOOK_HEIGHT = 700


def html(documents: list[Document]) -> str:
    """A report, a prediction or an alignment of blocks as one self-contained HTML page."""
    single = the_single(documents)
    if single is not None and is_watch(single):
        return watch_page(single)
    if single is not None and not is_prediction(single) and not is_residual(single):
        raise ValueError(f"there is no page of a document of schema {single['schema']!r}: write .json instead")
    if single is not None:
        return prediction_page(single) if is_prediction(single) else residual_page(single)
    sections = "".join(network(documents, index) for index in range(len(documents)))
    return shell("Orthoscope report", _title(documents), _together(documents) + sections)


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


def _together(documents: Sequence[Document]) -> str:
    """What several networks share; a single one needs none of it."""
    if len(documents) < 2:
        return ""
    missing = unplaced(documents)
    note = (
        f'<p class="quiet">Not placed, for lack of a gap or a slope: {safe(", ".join(missing))}.</p>' if missing else ""
    )
    return (
        '<section class="together"><h2>Trainability plane</h2>'
        f"{plane(documents)}{plane_legend(documents)}{note}<h2>Overview</h2>{overview(documents)}</section>\n"
    )
