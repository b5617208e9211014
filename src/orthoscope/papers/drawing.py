"""Figures of experiments as SVG documents that stand alone.

    figure([Panel(...), Heat(...)], columns=2)     panels in rows of two; without `columns`, all in one row

A panel holds series, horizontal `references` and vertical `places`. Of a series:

    Series(name, x, y, low, high)                  a line, with a bar from low to high at every point
    Series(name, x, y)                             a line
    Series(name, x, y, low, high, band=True)       a line in a band, for curves of many points
    Series(name, x, y, marks=True)                 a line with a dot at every point
    Series(name, x, y, marks=True, line=False)     points alone: a scatter plot
    Series(name, x, y, theory=True)                black and dotted: a prediction beside measurements

Twelve series have looks of their own, predictions not counted. `nan`, infinities and, on a logarithmic axis, what is
not positive leave a gap. `Heat` (papers/heat_map.py) is a table of numbers as coloured cells, with a colour bar.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from itertools import product

from orthoscope.papers.frames import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LEGEND_STEP,
    LEGEND_TOP,
    RIGHT,
    STYLE,
    TOP,
    WIDTH,
    axis_name,
    ticks,
    titles,
)
from orthoscope.papers.heat_map import Heat, heat_map
from orthoscope.report.charts import rule, words
from orthoscope.report.clipping import clipped, segments
from orthoscope.report.reading import Number
from orthoscope.report.scales import Scale

__all__ = ["Heat", "Panel", "Series", "figure"]

Look = tuple[str, str]  # colour and dashes
# Okabe & Ito's colours, told apart by everybody, with dashes for those who print in grey.
_LOOKS: tuple[Look, ...] = (
    *(("#0072b2", ""), ("#d55e00", "7 3"), ("#009e73", "2 3"), ("#cc79a7", "9 3 2 3"), ("#56b4e9", "4 2")),
    ("#e69f00", ""),
    *product(("#0072b2", "#d55e00", "#009e73"), ("1 4", "12 3")),
)
_THEORY: Look = ("#1c1f24", "1 3")
_DOT = 2.6  # pixels


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


def figure(panels: Sequence[Panel | Heat], columns: int | None = None) -> str:
    """The panels in rows of so many, or in one row, as one SVG document."""
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
        f'role="img" aria-label="{label}"><style>{STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{body}</svg>\n'
    )


def _drawn(panel: Panel | Heat) -> str:
    return heat_map(panel) if isinstance(panel, Heat) else _panel(panel)


def _panel(panel: Panel) -> str:
    across = Scale(*panel.across, LEFT, RIGHT, panel.logarithmic_across)
    up = Scale(*panel.up, BOTTOM, TOP, panel.logarithmic_up)
    drawn = [titles(panel.title, panel.measure), ticks(across, up)]
    for name, level in panel.references:
        y = up(level)
        if y is not None:
            drawn.append(rule(LEFT, y, RIGHT, y, "reference") + words(RIGHT, y - 4, name, "quiet", "end"))
    for name, place in panel.places:
        x = across(place)
        if x is not None:
            drawn.append(rule(x, TOP, x, BOTTOM, "reference") + words(x + 4, TOP + 10, name, "quiet"))
    drawn += [_series(series, across, up, look) for series, look in _with_looks(panel.series)]
    return "".join(drawn) + axis_name(panel.along) + _legend(panel.series)


def _with_looks(series: Sequence[Series]) -> Iterator[tuple[Series, Look]]:
    looks = iter(_LOOKS)
    assert sum(not one.theory for one in series) <= len(_LOOKS), "two lines of one look could not be told apart"
    return ((one, _THEORY if one.theory else next(looks)) for one in series)


def _series(series: Series, across: Scale, up: Scale, look: Look) -> str:
    colour, dashes = look
    points = [(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True)]
    drawn = (_band if series.band else _bars)(series, across, up, colour)
    if series.line:
        for run in clipped(segments(points), TOP, BOTTOM):
            drawn += (
                f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in run)}" fill="none" stroke="{colour}" '
                f'stroke-width="1.8" stroke-dasharray="{dashes}"/>'
            )
    if series.marks:
        for x, y in points:
            if x is not None and y is not None and LEFT - 1 <= x <= RIGHT + 1 and TOP - 1 <= y <= BOTTOM + 1:
                drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT}" fill="{colour}" fill-opacity=".7"/>'
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


def _bars(series: Series, across: Scale, up: Scale, colour: str) -> str:
    return "".join(
        f'<path d="M{place:.1f},{bottom:.1f}V{top:.1f}" stroke="{colour}" stroke-opacity=".45"/>'
        for place, bottom, top in _ends(series, across, up)
    )


def _band(series: Series, across: Scale, up: Scale, colour: str) -> str:
    ends = _ends(series, across, up)
    there, back = [(x, low) for x, low, _ in ends], [(x, high) for x, _, high in reversed(ends)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*there, *back])
    return f'<polygon points="{points}" fill="{colour}" fill-opacity=".18"/>' if ends else ""


def _legend(series: Sequence[Series]) -> str:
    drawn = []
    for index, (line, (colour, dashes)) in enumerate(_with_looks(series)):
        y = LEGEND_TOP + LEGEND_STEP * index
        if line.line:
            drawn.append(f'<path d="M{LEFT},{y}h26" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dashes}"/>')
        if line.marks:
            drawn.append(f'<circle cx="{LEFT + 13}" cy="{y}" r="{_DOT}" fill="{colour}" fill-opacity=".7"/>')
        drawn.append(words(LEFT + 34, y + 4, line.name))
    return "".join(drawn)
