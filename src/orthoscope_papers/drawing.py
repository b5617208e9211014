"""Figures of experiments as SVG documents that stand alone: panels of lines with intervals, and heat maps.

    figure([Panel(...), Heat(...)], columns=2)     panels in rows of two; without `columns`, all in one row

A panel holds series, horizontal `references` and vertical `places`. Of a series:

    Series(name, x, y, low, high)                  a line, with a bar from low to high at every point
    Series(name, x, y)                             a line
    Series(name, x, y, low, high, band=True)       a line in a band, for curves of many points
    Series(name, x, y, marks=True)                 a line with a dot at every point
    Series(name, x, y, marks=True, line=False)     points alone: a scatter plot
    Series(name, x, y, theory=True)                black and dotted: a prediction beside measurements
    seed_series(name, {x: values})                 the mean over seeds, with two standard errors
    averaged(name, [(x, value), ...])              the same with dots, or in a band

Twelve series have styles of their own, predictions not counted. `nan`, infinities and, on a logarithmic axis, values
that are not positive leave a gap.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from itertools import pairwise, product
from typing import TypeVar

from orthoscope.report.charts import Scale, clipped, rule, segments, tick_label, words

from orthoscope.report.document import Number
from orthoscope_papers.evidence import interval

WIDTH, HEIGHT = 460, 278
LEFT, RIGHT, TOP, BOTTOM = 62, 444, 52, 226
LEGEND_TOP, LEGEND_STEP = 280, 15
CSS = (
    "text{font:11px system-ui,Arial,sans-serif;fill:#1c1f24}.title{font-weight:600;font-size:12px}"
    ".quiet{fill:#626a76}.axis{stroke:#626a76}.grid{stroke:#e4e6ea}.reference{stroke:#1c1f24;stroke-dasharray:3 3}"
)
Place = TypeVar("Place", int, float)
Interval = Callable[[Sequence[float]], tuple[float, float, float]]

Style = tuple[str, str]  # color and dashes
# Okabe and Ito's color-blind safe palette, with dashes for print without color.
_STYLES: tuple[Style, ...] = (
    *(("#0072b2", ""), ("#d55e00", "7 3"), ("#009e73", "2 3"), ("#cc79a7", "9 3 2 3"), ("#56b4e9", "4 2")),
    ("#e69f00", ""),
    *product(("#0072b2", "#d55e00", "#009e73"), ("1 4", "12 3")),
)
_THEORY: Style = ("#1c1f24", "1 3")
_DOT = 2.6  # pixels
# Viridis at five equal steps: perceptually uniform, also to the color-blind and in gray.
_STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_UNDEFINED = "#d0d3d8"
_MOST_LABELS = 8
_BAR_CELLS, _BAR_HEIGHT = 40, 10


@dataclass(frozen=True)
class Series:
    """Values `y` along `x`, with an interval from `low` to `high` at every point where these are given."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    _: KW_ONLY
    marks: bool = False  # a dot at every point
    line: bool = True
    band: bool = False  # the interval as a band instead of bars
    theory: bool = False


@dataclass(frozen=True)
class Panel:
    """One frame: `measure` says what y is and of how many runs, `along` what x is; `references` are levels.

    `places` are vertical lines: a name, and where on x.
    """

    title: str
    measure: str
    along: str
    across: tuple[Number, Number]
    up: tuple[Number, Number]
    series: Sequence[Series]
    references: Sequence[tuple[str, Number]] = ()
    logarithmic_across: bool = False
    logarithmic_up: bool = False
    places: Sequence[tuple[str, Number]] = ()

    @property
    def legend_lines(self) -> int:
        return len(self.series)


@dataclass(frozen=True)
class Heat:
    """`values[row][column]` as colors from `low` to `high`; None and what is not finite is gray.

    `columns` label the cells from left to right, `rows` from bottom to top, thinned where they would touch. Cells are
    of one size whatever their labels say. Beyond `low` and `high` a color stays that of the end.
    """

    title: str
    measure: str
    along: str
    upward: str
    columns: Sequence[Number]
    rows: Sequence[Number]
    values: Sequence[Sequence[Number | None]]
    low: Number
    high: Number
    logarithmic: bool = False

    legend_lines = 2  # what the color bar takes below the frame


def figure(panels: Sequence[Panel | Heat], columns: int | None = None) -> str:
    """Return one SVG document of the panels, in rows of `columns`, or in one row."""
    columns = columns or len(panels)
    lines = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [HEIGHT + LEGEND_STEP * max(panel.legend_lines for panel in line) for line in lines]
    width, height = WIDTH * min(columns, len(panels)), sum(heights)
    body = "".join(
        f'<g transform="translate({column * WIDTH} {sum(heights[:row])})">{_drawn(panel)}</g>'
        for row, line in enumerate(lines)
        for column, panel in enumerate(line)
    )
    label = escape("; ".join(f"{panel.title}: {panel.measure}" for panel in panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}"><style>{CSS}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{body}</svg>\n'
    )


def seed_series(name: str, points: Mapping[Place, Sequence[float]]) -> Series:
    """Return the mean over seeds at every x, with two standard errors."""
    places = sorted(points)
    ends = [interval(points[place]) for place in places]
    return Series(name, places, *([end[k] for end in ends] for k in range(3)))


def averaged(name: str, points: Iterable[tuple[Number, float]], band: bool = False, of: Interval = interval) -> Series:
    """Return a line through the mean of the values at each x, with the interval that `of` takes of them."""
    values = grouped(points)
    middle, low, high = zip(*(of(each) for each in values.values()), strict=True)
    return Series(name, list(values), middle, low, high, band=band, marks=not band)


def grouped(points: Iterable[tuple[Number, float]]) -> dict[Number, list[float]]:
    """Return the values at each x, in ascending order of x."""
    values: dict[Number, list[float]] = defaultdict(list)
    for place, value in points:
        values[place].append(value)
    return dict(sorted(values.items()))


def predicted_series(name: str, places: Sequence[Number], values: Sequence[Number]) -> Series:
    """Return a prediction: a series without interval, in the style of a measured one."""
    return Series(name, places, values, values, values)


def span(series: Sequence[Series], margin: float = 0.05) -> tuple[float, float]:
    """Return the range from the lowest to the highest end of an interval, with a margin on both sides."""
    low = min(float(value) for line in series for value in line.low)
    high = max(float(value) for line in series for value in line.high)
    room = margin * (high - low) or 1.0
    return low - room, high + room


def _drawn(panel: Panel | Heat) -> str:
    return _heat_map(panel) if isinstance(panel, Heat) else _panel(panel)


def _panel(panel: Panel) -> str:
    across = Scale(*panel.across, LEFT, RIGHT, panel.logarithmic_across)
    up = Scale(*panel.up, BOTTOM, TOP, panel.logarithmic_up)
    drawn = [_titles(panel.title, panel.measure), _ticks(across, up)]
    for name, level in panel.references:
        y = up(level)
        if y is not None:
            drawn.append(rule(LEFT, y, RIGHT, y, "reference") + words(RIGHT, y - 4, name, "quiet", "end"))
    for name, place in panel.places:
        x = across(place)
        if x is not None:
            drawn.append(rule(x, TOP, x, BOTTOM, "reference") + words(x + 4, TOP + 10, name, "quiet"))
    drawn += [_series(series, across, up, style) for series, style in _with_styles(panel.series)]
    return "".join(drawn) + _axis_name(panel.along) + _legend(panel.series)


def _with_styles(series: Sequence[Series]) -> Iterator[tuple[Series, Style]]:
    styles = iter(_STYLES)
    assert sum(not one.theory for one in series) <= len(_STYLES), "two lines of one style could not be told apart"
    return ((one, _THEORY if one.theory else next(styles)) for one in series)


def _series(series: Series, across: Scale, up: Scale, style: Style) -> str:
    color, dashes = style
    points = [(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True)]
    drawn = (_band if series.band else _bars)(series, across, up, color)
    if series.line:
        for run in clipped(segments(points), TOP, BOTTOM):
            drawn += (
                f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in run)}" fill="none" stroke="{color}" '
                f'stroke-width="1.8" stroke-dasharray="{dashes}"/>'
            )
    if series.marks:
        for x, y in points:
            if x is not None and y is not None and LEFT - 1 <= x <= RIGHT + 1 and TOP - 1 <= y <= BOTTOM + 1:
                drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT}" fill="{color}" fill-opacity=".7"/>'
    return drawn


def _ends(series: Series, across: Scale, up: Scale) -> list[tuple[Number, Number, Number]]:
    """Pixels of every interval that can be drawn: place, bottom, top; what leaves the frame ends on its border."""
    if not series.low and not series.high:
        return []
    ends = []
    for x, low, high in zip(series.x, series.low, series.high, strict=True):
        place, bottom, top = across(x), up(min(max(low, up.low), up.high)), up(min(max(high, up.low), up.high))
        if place is not None and bottom is not None and top is not None:
            ends.append((place, bottom, top))
    return ends


def _bars(series: Series, across: Scale, up: Scale, color: str) -> str:
    return "".join(
        f'<path d="M{place:.1f},{bottom:.1f}V{top:.1f}" stroke="{color}" stroke-opacity=".45"/>'
        for place, bottom, top in _ends(series, across, up)
    )


def _band(series: Series, across: Scale, up: Scale, color: str) -> str:
    ends = _ends(series, across, up)
    there, back = [(x, low) for x, low, _ in ends], [(x, high) for x, _, high in reversed(ends)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*there, *back])
    return f'<polygon points="{points}" fill="{color}" fill-opacity=".18"/>' if ends else ""


def _legend(series: Sequence[Series]) -> str:
    drawn = []
    for index, (line, (color, dashes)) in enumerate(_with_styles(series)):
        y = LEGEND_TOP + LEGEND_STEP * index
        if line.line:
            drawn.append(f'<path d="M{LEFT},{y}h26" stroke="{color}" stroke-width="1.8" stroke-dasharray="{dashes}"/>')
        if line.marks:
            drawn.append(f'<circle cx="{LEFT + 13}" cy="{y}" r="{_DOT}" fill="{color}" fill-opacity=".7"/>')
        drawn.append(words(LEFT + 34, y + 4, line.name))
    return "".join(drawn)


def _titles(title: str, measure: str) -> str:
    """What is shown, and how it was measured, above the frame."""
    return words(LEFT, 20, title, "title") + words(LEFT, 36, measure, "quiet")


def _axis_name(along: str) -> str:
    """What x is, below the frame."""
    return words((LEFT + RIGHT) / 2, BOTTOM + 34, along, "quiet", "middle")


def _ticks(across: Scale, up: Scale) -> str:
    drawn = []
    for tick in up.ticks():
        y = up(tick)
        if y is not None:
            drawn.append(rule(LEFT, y, RIGHT, y, "grid") + words(LEFT - 6, y + 4, tick_label(tick), "quiet", "end"))
    for tick in across.ticks():
        x = across(tick)
        if x is not None:
            drawn.append(rule(x, BOTTOM, x, BOTTOM + 4, "axis"))
            drawn.append(words(x, BOTTOM + 17, tick_label(tick), "quiet", "middle"))
    return "".join(drawn) + rule(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")


def _heat_map(heat: Heat) -> str:
    """The cells, their labels and the color bar."""
    across = Scale(0, len(heat.columns), LEFT, RIGHT)
    up = Scale(0, len(heat.rows), BOTTOM, TOP)
    shade = Scale(heat.low, heat.high, 0.0, 1.0, heat.logarithmic)
    drawn = [_titles(heat.title, f"{heat.measure}; upward: {heat.upward}"), _axis_name(heat.along)]
    for row, line in enumerate(heat.values):
        for column, value in enumerate(line):
            drawn.append(_cell(across, up, row, column, heat_color(shade(value))))
    for column in _thinned(len(heat.columns)):
        place = (_pixel(across, column) + _pixel(across, column + 1)) / 2
        drawn.append(words(place, BOTTOM + 17, tick_label(heat.columns[column]), "quiet", "middle"))
    for row in _thinned(len(heat.rows)):
        place = (_pixel(up, row) + _pixel(up, row + 1)) / 2
        drawn.append(words(LEFT - 6, place + 4, tick_label(heat.rows[row]), "quiet", "end"))
    return "".join(drawn) + _color_bar(heat)


def heat_color(share: Number | None) -> str:
    """Return the color of a share from 0 to 1, interpolated between the two nearest stops."""
    if share is None or not math.isfinite(share):
        return _UNDEFINED
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    low, high = list(pairwise(_STOPS))[index]
    return "#" + "".join(f"{round(a + (b - a) * (place - index)):02x}" for a, b in zip(low, high, strict=True))


def _cell(across: Scale, up: Scale, row: int, column: int, fill: str) -> str:
    x, right = _pixel(across, column), _pixel(across, column + 1)
    bottom, top = _pixel(up, row), _pixel(up, row + 1)
    # Cells overlap a little: otherwise the page shows through between them.
    size = f'width="{right - x + 0.3:.1f}" height="{bottom - top + 0.3:.1f}"'
    return f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{fill}"/>'


def _color_bar(heat: Heat) -> str:
    width, y = (RIGHT - LEFT) / _BAR_CELLS, LEGEND_TOP - 8
    drawn = [
        f'<rect x="{LEFT + index * width:.1f}" y="{y}" width="{width + 0.3:.1f}" height="{_BAR_HEIGHT}" '
        f'fill="{heat_color(index / (_BAR_CELLS - 1))}"/>'
        for index in range(_BAR_CELLS)
    ]
    scale = Scale(heat.low, heat.high, LEFT, RIGHT, heat.logarithmic)
    for tick in scale.ticks():
        drawn.append(words(_pixel(scale, tick), y + 2 * _BAR_HEIGHT + 3, tick_label(tick), "quiet", "middle"))
    return "".join(drawn)


def _thinned(count: int) -> range:
    return range(0, count, math.ceil(count / _MOST_LABELS))


def _pixel(scale: Scale, value: Number) -> Number:
    pixel = scale(value)
    assert pixel is not None
    return pixel
