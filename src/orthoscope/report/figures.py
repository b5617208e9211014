"""A document as a matplotlib figure: profiles along the network, measured as lines, theory dashed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orthoscope.report.dataframes import Row, frame_rows
from orthoscope.report.reading import Document, is_prediction, is_residual, is_watch
from orthoscope.report.wording import LONGEST_TITLE, printable, shortened

_MEASURED, _THEORY = "#0072b2", "#d55e00"  # told apart by color-blind readers: Okabe & Ito


@dataclass(frozen=True)
class _Panel:
    """One small plot: a column, the column that theory has beside it, and the axis."""

    title: str
    column: str
    expected: str = ""
    logarithmic: bool = False


_LAYERS = (
    _Panel("orthogonality gap", "gap", "predicted_gap"),
    _Panel("effective rank", "effective_rank", "predicted_effective_rank"),
    _Panel("mean overlap", "overlap", "predicted_overlap"),
    _Panel("rms of the output", "rms", "predicted_rms", logarithmic=True),
    _Panel("gradient norm", "gradient_norm", "predicted_gradient_norm", logarithmic=True),
)
_DEPTHS = (
    _Panel("orthogonality gap", "", "gap"),
    _Panel("effective rank", "", "effective_rank"),
    _Panel("mean overlap", "", "overlap"),
    _Panel("e-folds of the gradient", "", "gradient_growth"),
)
_BLOCKS = (
    _Panel("largest singular value", "sigma1"),
    _Panel("misalignment", "misalignment"),
    _Panel("energy of the top directions", "top_energy"),
    _Panel("length of the step", "step"),
)
_LOOKS = (
    _Panel("worst gap", "worst_gap"),
    _Panel("least effective rank", "min_effective_rank"),
    _Panel("mean overlap", "mean_overlap"),
    _Panel("log-gradient per layer", "gradient_slope"),
)


def figure(document: Document) -> Any:
    """A `matplotlib.figure.Figure`, made without pyplot: no window, no global state, the same in threads."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "plot needs matplotlib, which is not installed: pip install matplotlib, or .save('report.html')"
        ) from None
    panels, along, rows = _panels(document)
    drawn = Figure(figsize=(3.1 * len(panels), 2.9), layout="constrained")
    title = shortened(printable(document["name"]), LONGEST_TITLE)
    verdict = document.get("verdict", "")
    # A name may hold dollars: it is not mathematics.
    drawn.suptitle(f"{title}: {verdict}" if verdict else title, parse_math=False)
    for axes, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(axes, panel, rows, along)
    return drawn


def _panels(document: Document) -> tuple[Sequence[_Panel], str, list[Row]]:
    rows = frame_rows(document)
    if is_prediction(document):
        return _DEPTHS, "depth", rows
    if is_watch(document):
        return _LOOKS, "step", rows
    return (_BLOCKS, "block", rows) if is_residual(document) else (_LAYERS, "module call", rows)


def _draw(axes: Any, panel: _Panel, rows: Sequence[Row], along: str) -> None:
    places = [row.get(along, index) for index, row in enumerate(rows, start=1)]
    if panel.column:
        axes.plot(places, [row[panel.column] for row in rows], color=_MEASURED, marker=".", label="measured")
    if panel.expected:
        known = [(place, row[panel.expected]) for place, row in zip(places, rows, strict=True)]
        known = [(place, value) for place, value in known if value == value]  # gaps are modules that theory passes by
        if known:
            axes.plot(*zip(*known, strict=True), color=_THEORY, linestyle="--", label="theory")
    if panel.logarithmic and any(row[panel.column] > 0 for row in rows):
        axes.set_yscale("log")
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(along)
    if panel.column and panel.expected and axes.lines[1:]:
        axes.legend(fontsize="small")
