"""Panels drawn by matplotlib, on a white page of fixed layout, so that one table gives one file to the last byte.

matplotlib comes with `pip install 'orthoscope[papers]'`: it is imported when something is drawn, and `can_draw` says
whether it is here.
"""

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

from orthoscope_papers.panels import MAX_BARS, HeatMap, Math, Number, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMNS = 2  # panels side by side: as many as a page of text shows at the size of its own letters
# Everything in pixels of 1/96 inch: a panel, the frame in it, and its legend.
WIDTH, HEIGHT = 460, 286
LEFT, RIGHT, TOP, BOTTOM = 62, 444, 52, 228
LEGEND_TOP, LEGEND_STEP, BAR = 276, 16, 10
LETTER = 6  # the width of one, about
INK, QUIET, GRID, UNDEFINED = "#1c1f24", "#5b636f", "#e4e6ea", "#d0d3d8"
TITLE_SIZE, TEXT_SIZE = 9.0, 8.25  # points
_INCH, _POINT = 96, 0.75  # pixels an inch, points a pixel

Style = tuple[str, tuple[int, ...]]  # color, and lengths of dashes and gaps in pixels
# Okabe and Ito's color-blind safe palette, with dashes for print without color.
STYLES: tuple[Style, ...] = (
    *(("#0072b2", ()), ("#d55e00", (7, 3)), ("#009e73", (2, 3)), ("#cc79a7", (9, 3, 2, 3)), ("#56b4e9", (4, 2))),
    ("#e69f00", ()),
    *product(("#0072b2", "#d55e00", "#009e73"), ((1, 4), (12, 3))),
)
THEORY: Style = (INK, (1, 3))
ANGLE = 50  # degrees, of names below an axis that are too long for a line
_MAX_LABELS = 8
_SCALES = {False: "linear", True: "log"}
_SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text: smaller, and found by a search
    "svg.hashsalt": "orthoscope",  # names of parts do not change from run to run
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "font.size": TEXT_SIZE,
    "lines.scale_dashes": False,
}
NOT_DRAWN = "no figures are drawn, because matplotlib is not installed: pip install 'orthoscope[papers]' adds it"


def can_draw() -> bool:
    """Return True if matplotlib is installed."""
    try:
        import_module("matplotlib")
    except ImportError:
        return False
    return True


def svg(panels: Sequence[Panel | HeatMap]) -> str:
    """Return the panels as one SVG document."""
    with _settings():
        buffer = io.StringIO()
        title = "; ".join(f"{panel.title}: {panel.y_label}" for panel in panels)
        draw(panels).savefig(buffer, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return _portable(buffer.getvalue())


def draw(panels: Sequence[Panel | HeatMap]) -> "Figure":
    """Return the panels as a figure of matplotlib, in rows of two; it belongs to no window and no pyplot state."""
    from matplotlib.figure import Figure

    lines = [panels[start : start + COLUMNS] for start in range(0, len(panels), COLUMNS)]
    heights = [max(_height(panel) for panel in line) for line in lines]
    width, height = WIDTH * min(COLUMNS, len(panels)), sum(heights)
    with _settings():
        figure = Figure(figsize=(width / _INCH, height / _INCH), facecolor="white")
        for row, line in enumerate(lines):
            for column, panel in enumerate(line):
                left, top = column * WIDTH, sum(heights[:row])
                axes = _frame(figure, left + LEFT, top + TOP, RIGHT - LEFT, BOTTOM - TOP)
                _titles(axes, panel)
                if isinstance(panel, HeatMap):
                    bar = _frame(figure, left + LEFT, top + LEGEND_TOP, RIGHT - LEFT, BAR)
                    _draw_heat_map(axes, bar, panel)
                else:
                    _draw_panel(axes, panel)
    return figure


def _height(panel: Panel | HeatMap) -> Number:
    """Pixels of a panel with its names, legend or color bar."""
    if isinstance(panel, HeatMap):
        return HEIGHT + LEGEND_STEP
    return HEIGHT + LEGEND_STEP * len({one.name for one in panel.series}) + _slope(panel)


def _slope(panel: Panel) -> Number:
    """How far names below the axis reach down because they are written at an angle; 0 where they fit in a line."""
    letters = [len(name) for name in panel.x_names]
    fits = LETTER * (sum(letters) + 2 * len(letters)) <= RIGHT - LEFT
    return 0.0 if fits else LETTER * (max(letters) - 2) * math.sin(math.radians(ANGLE))


@contextmanager
def _settings() -> Iterator[None]:
    """The settings of the figures, whatever the user's own are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def _frame(figure: "Figure", left: Number, top: Number, width: Number, height: Number) -> "Axes":
    """Axes at a place of the page, given in pixels from its upper left corner."""
    across, down = figure.get_size_inches() * _INCH
    axes = figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))
    axes.tick_params(which="both", length=3, width=0.6, color=QUIET, labelcolor=QUIET, labelsize=TEXT_SIZE)
    axes.spines[:].set(color=QUIET, linewidth=0.6)
    return axes


def _titles(axes: "Axes", panel: Panel | HeatMap) -> None:
    """What is shown, and how it was measured, above the frame; what x is below."""
    looks: tuple[tuple[int, str, dict[str, Any]], ...] = (
        (32, panel.title, {"weight": "bold", "size": TITLE_SIZE, "color": INK}),
        (14, panel.y_label if isinstance(panel, Panel) else panel.label, {"color": QUIET}),
    )
    for pixels, label, look in looks:
        axes.annotate(
            label, (0, 1), (0, pixels * _POINT), "axes fraction", "offset points", parse_math=_has_math(label), **look
        )
    axes.set_xlabel(panel.x_label, color=QUIET, labelpad=3, parse_math=_has_math(panel.x_label))


def _has_math(label: str) -> bool:
    return isinstance(label, Math)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    from matplotlib.lines import Line2D

    x_limits, y_limits = panel.x_limits(), panel.y_limits()
    axes.set(xlim=x_limits, ylim=y_limits, xscale=_SCALES[panel.log_x], yscale=_SCALES[panel.log_y])
    whole = all(isinstance(x, int) for series in panel.series for x in series.x)
    _set_ticks(axes.xaxis, x_limits, panel.log_x, whole)
    _set_ticks(axes.yaxis, y_limits, panel.log_y)
    if panel.x_names:
        look: dict[str, Any] = {"rotation": ANGLE, "ha": "right", "rotation_mode": "anchor"} if _slope(panel) else {}
        axes.set_xticks(range(1, len(panel.x_names) + 1), panel.x_names, parse_math=False, **look)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "left", "right"]].set_visible(False)
    for name, level in panel.references:
        axes.axhline(level, color=INK, linewidth=0.75, dashes=(3, 3))
        axes.annotate(
            name, (1, level), (0, 2.5), ("axes fraction", "data"), "offset points", ha="right", color=QUIET,
            parse_math=_has_math(name), annotation_clip=True, zorder=3,
            bbox={"facecolor": "white", "alpha": 0.6, "linewidth": 0, "pad": 0},
        )  # fmt: skip
    listed: dict[str, Line2D] = {}  # a name once, whatever has it: predictions look alike
    for series, style in _with_styles(panel.series):
        _draw_series(axes, series, style, y_limits)
        listed.setdefault(series.name, Line2D([], [], **_look(series, style)))
    legend = axes.legend(
        list(listed.values()),
        [""] * len(listed),
        loc="upper left",
        bbox_to_anchor=(0, -(LEGEND_TOP - 6 + _slope(panel) - BOTTOM) / (BOTTOM - TOP)),
        borderpad=0,
        borderaxespad=0,
        frameon=False,
        handlelength=2.4,
        labelspacing=0.28,
    )
    # Afterwards, because a legend leaves out names that start with an underscore.
    for text, name in zip(legend.get_texts(), listed, strict=True):
        text.set(text=name, parse_math=_has_math(name), color=INK)


def _with_styles(series: Sequence[Series]) -> list[tuple[Series, Style]]:
    styles = iter(STYLES)
    assert sum(not one.theory for one in series) <= len(STYLES), "two lines of one style could not be told apart"
    return [(one, THEORY if one.theory else next(styles)) for one in series]


def _draw_series(axes: "Axes", series: Series, style: Style, y_limits: tuple[Number, Number]) -> None:
    import numpy

    x, y = numpy.asarray(series.x, float), numpy.asarray(series.y, float)
    look = _look(series, style)
    if series.low:
        # What leaves the frame ends on its border, an infinite end too.
        low, high = (numpy.clip(numpy.asarray(ends, float), *y_limits) for ends in (series.low, series.high))
        if len(x) > MAX_BARS:
            axes.fill_between(x, low, high, color=style[0], alpha=0.18, linewidth=0)
        else:
            axes.vlines(x, low, high, color=style[0], alpha=0.5, linewidth=0.9)
    if series.line:
        axes.plot(x, y, **look | {"marker": ""})
    if series.marks:
        # A dot on the border is drawn whole, also one that rounding put beyond it.
        shares = (axes.transData - axes.transAxes).transform(numpy.column_stack((x, y)))
        inside = ((shares > -1e-9) & (shares < 1 + 1e-9)).all(axis=1)
        axes.plot(x[inside], y[inside], **look | {"linestyle": ""}, clip_on=False)


def _look(series: Series, style: Style) -> dict[str, Any]:
    """How matplotlib draws a series, in the frame and in the legend."""
    color, dashes = style
    pattern = (0, tuple(length * _POINT for length in dashes)) if dashes else "-"
    return {
        "color": color,
        "linewidth": 1.4,
        "linestyle": pattern if series.line else "",
        "marker": "o" if series.marks else "",
        "markersize": 3.6,
        "markeredgewidth": 0,
        "alpha": None if series.line else 0.7,
    }


def _set_ticks(axis: "Axis", limits: tuple[Number, Number], logarithmic: bool = False, whole: bool = False) -> None:
    """Round ticks: multiples of 1, 2 or 5 times a power of ten, or powers of ten alone where the axis has many."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    decades = math.log10(limits[1] / limits[0]) if logarithmic else 0
    if decades > 0.9:
        found = LogLocator(subs=(1.0,) if decades > 2.5 else (1.0, 2.0, 5.0), numticks=_MAX_LABELS).tick_values(*limits)
    else:
        found = MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=whole).tick_values(*limits)
    low, high = limits[0] - 1e-9 * abs(limits[0]), limits[1] + 1e-9 * abs(limits[1])
    ticks = [tick for tick in found if low <= tick <= high]
    axis.set_ticks(ticks, [tick_label(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def tick_label(value: Number) -> str:
    """Return `0.5`, `200`, or beyond 0.001 to 10,000 a number times a power of ten."""
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{value + 0.0:.4g}".replace("-", "−")
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    factor = f"{value / 10**exponent:.4g}"
    return ("" if factor == "1" else rf"${factor}\cdot$") + f"$10^{{{exponent}}}$"


def _draw_heat_map(axes: "Axes", bar: "Axes", heat: HeatMap) -> None:
    """The cells with labels, thinned where they would touch, and the color bar."""
    import matplotlib
    import numpy

    colors = matplotlib.colormaps["viridis"].with_extremes(bad=UNDEFINED)
    values = numpy.ma.masked_invalid(numpy.asarray(heat.values, float))
    look: dict[str, Any] = {"cmap": colors, "aspect": "auto", "interpolation": "none", "origin": "lower"}
    axes.imshow(values, vmin=heat.low, vmax=heat.high, **look)
    for axis, labels in ((axes.xaxis, heat.columns), (axes.yaxis, heat.rows)):
        places = range(0, len(labels), math.ceil(len(labels) / _MAX_LABELS))
        axis.set_ticks(places, [tick_label(labels[place]) for place in places])
    axes.set_ylabel(heat.y_label, color=QUIET, parse_math=_has_math(heat.y_label))
    bar.imshow(numpy.linspace(0, 1, 128)[None], extent=(heat.low, heat.high, 0, 1), **look)
    bar.yaxis.set_visible(False)
    _set_ticks(bar.xaxis, (heat.low, heat.high))


def _portable(document: str) -> str:
    """Round coordinates to a thousandth of a point, and name a second font for mathematics, as other text has one.

    No eye sees more digits, and processors differ in the last ones.
    """

    def shorter(tag: re.Match[str]) -> str:
        return re.sub(r"-?\d+\.\d{4,}", lambda number: f"{round(float(number[0]), 3) + 0.0:g}", tag[0])

    rounded = re.sub(r"<(?!svg\b)[^>]+>", shorter, document)
    return rounded.replace("font-family: 'DejaVu Sans';", "font-family: 'DejaVu Sans', 'Arial', sans-serif;")
