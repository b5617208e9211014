"""A document as a matplotlib figure: profiles along the network, measured as lines, theory dashed."""

from collections.abc import Sequence
from typing import Any

from orthoscope.report.dataframes import Row, frame_rows
from orthoscope.report.document import (
    Depth,
    Document,
    PredictionDocument,
    Quantity,
    ResidualDocument,
    WatchDocument,
    as_document,
    quantities,
)
from orthoscope.report.wording import LONGEST_TITLE, printable, shortened

_MEASURED, _THEORY = "#0072b2", "#d55e00"  # told apart by color-blind readers: Okabe & Ito


_Panel = tuple[Quantity, str, str]  # with the column that was measured, and the one that theory predicts


def figure(content: Any) -> Any:
    """Return a `matplotlib.figure.Figure` of the main quantities of a document, its dataclass or JSON data.

    It is made without pyplot: no window, no global state, the same in threads.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "plot needs matplotlib, which is not installed: pip install matplotlib, or .save('report.html')"
        ) from None
    document = as_document(content)
    rows = frame_rows(document)
    panels, along = _panels(document)
    drawn = Figure(figsize=(3.1 * len(panels), 2.9), layout="constrained")
    title = shortened(printable(document.name), LONGEST_TITLE)
    verdict = getattr(document, "verdict", "")
    # A name may hold dollars: it is not mathematics.
    drawn.suptitle(f"{title}: {verdict}" if verdict else title, parse_math=False)
    for axes, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(axes, panel, rows, along)
    return drawn


def _panels(document: Document) -> tuple[list[_Panel], str]:
    """Return a panel for every main quantity, and what runs along the horizontal axis."""
    layer = [one for one in quantities("layer") if one.is_main]
    if isinstance(document, PredictionDocument):
        shown = [one for one in (*layer, *quantities("depth")) if one.is_main and one.axis != "log"]
        return [(one, "", one.key) for one in shown if one.key in Depth.__dataclass_fields__], "depth"
    if isinstance(document, WatchDocument):
        return [(one, one.key, "") for one in quantities("snapshot") if one.is_main], "step"
    if isinstance(document, ResidualDocument):
        return [(one, one.key, "") for one in quantities("block") if one.is_main], "block"
    return [(one, one.key, f"predicted_{one.key}" if one.is_predicted else "") for one in layer], "module call"


def _draw(axes: Any, panel: _Panel, rows: Sequence[Row], along: str) -> None:
    quantity, measured, predicted = panel
    places = [row.get(along, index) for index, row in enumerate(rows, start=1)]
    if measured:
        axes.plot(places, [row[measured] for row in rows], color=_MEASURED, marker=".", label="measured")
    known = [(place, row[predicted]) for place, row in zip(places, rows, strict=True) if predicted]
    known = [(place, value) for place, value in known if value == value]  # gaps are modules that theory passes by
    if known:
        axes.plot(*zip(*known, strict=True), color=_THEORY, linestyle="--", label="theory")
    if quantity.axis == "log" and any(row[measured or predicted] > 0 for row in rows):
        axes.set_yscale("log")
    axes.set_title(f"{quantity.label} ({quantity.unit})" if quantity.unit else quantity.label, fontsize="medium")
    axes.set_xlabel(along)
    if measured and known:
        axes.legend(fontsize="small")
