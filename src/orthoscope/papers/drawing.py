"""Figures of experiments as SVG documents that stand alone: panels with lines, intervals and reference lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from orthoscope.report.charts import rule, words
from orthoscope.report.clipping import clipped, segments
from orthoscope.report.reading import Number
from orthoscope.report.scales import Scale, tick_label

_WIDTH, _HEIGHT = 460, 278
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 444, 52, 226
_LEGEND_TOP, _LEGEND_STEP = 280, 15
# Okabe & Ito's colours, told apart by everybody, with dashes for those who print in grey.
_LOOKS = (("#0072b2", ""), ("#d55e00", "7 3"), ("#009e73", "2 3"), ("#cc79a7", "9 3 2 3"), ("#56b4e9", "4 2"))
_STYLE = (
    "text{font:11px system-ui,Arial,sans-serif;fill:#1c1f24}.title{font-weight:600;font-size:12px}"
    ".quiet{fill:#626a76}.axis{stroke:#626a76}.grid{stroke:#e4e6ea}.reference{stroke:#1c1f24;stroke-dasharray:3 3}"
)


@dataclass(frozen=True)
class Series:
    """A line through `y`, with an interval from `low` to `high` at every point."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number]
    high: Sequence[Number]


@dataclass(frozen=True)
class Panel:
    """One frame: `measure` says what y is and of how many runs, `along` what x is; `references` are levels."""

    title: str
    measure: str
    along: str
    across: tuple[Number, Number]
    up: tuple[Number, Number]
    series: Sequence[Series]
    references: Sequence[tuple[str, Number]] = ()
    logarithmic_across: bool = False
    logarithmic_up: bool = False


def figure(panels: Sequence[Panel]) -> str:
    """The panels beside one another, as one SVG document."""
    height = _HEIGHT + _LEGEND_STEP * max(len(panel.series) for panel in panels)
    width = _WIDTH * len(panels)
    body = "".join(f'<g transform="translate({index * _WIDTH} 0)">{_panel(p)}</g>' for index, p in enumerate(panels))
    label = escape("; ".join(f"{panel.title}: {panel.measure}" for panel in panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}"><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{body}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    assert len(panel.series) <= len(_LOOKS), "two lines of one look could not be told apart"
    across = Scale(*panel.across, _LEFT, _RIGHT, panel.logarithmic_across)
    up = Scale(*panel.up, _BOTTOM, _TOP, panel.logarithmic_up)
    drawn = [words(_LEFT, 20, panel.title, "title"), words(_LEFT, 36, panel.measure, "quiet"), _ticks(across, up)]
    for name, level in panel.references:
        y = up(level)
        if y is not None:
            drawn.append(rule(_LEFT, y, _RIGHT, y, "reference") + words(_RIGHT, y - 4, name, "quiet", "end"))
    drawn += [_series(series, across, up, look) for series, look in zip(panel.series, _LOOKS, strict=False)]
    drawn.append(words((_LEFT + _RIGHT) / 2, _BOTTOM + 34, panel.along, "quiet", "middle"))
    return "".join(drawn) + _legend(panel.series)


def _ticks(across: Scale, up: Scale) -> str:
    drawn = []
    for tick in up.ticks():
        y = up(tick)
        if y is not None:
            drawn.append(rule(_LEFT, y, _RIGHT, y, "grid") + words(_LEFT - 6, y + 4, tick_label(tick), "quiet", "end"))
    for tick in across.ticks():
        x = across(tick)
        if x is not None:
            drawn.append(rule(x, _BOTTOM, x, _BOTTOM + 4, "axis"))
            drawn.append(words(x, _BOTTOM + 17, tick_label(tick), "quiet", "middle"))
    return "".join(drawn) + rule(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")


def _series(series: Series, across: Scale, up: Scale, look: tuple[str, str]) -> str:
    colour, dashes = look
    bars = []
    for x, low, high in zip(series.x, series.low, series.high, strict=True):
        place, bottom, top = across(x), up(min(max(low, up.low), up.high)), up(min(max(high, up.low), up.high))
        if place is not None and bottom is not None and top is not None:
            bars.append(f'<path d="M{place:.1f},{bottom:.1f}V{top:.1f}" stroke="{colour}" stroke-opacity=".45"/>')
    runs = segments([(across(x), up(y)) for x, y in zip(series.x, series.y, strict=True)])
    lines = [
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in run)}" fill="none" stroke="{colour}" '
        f'stroke-width="1.8" stroke-dasharray="{dashes}"/>'
        for run in clipped(runs, _TOP, _BOTTOM)
    ]
    return "".join(bars + lines)


def _legend(series: Sequence[Series]) -> str:
    drawn = []
    for index, (line, (colour, dashes)) in enumerate(zip(series, _LOOKS, strict=False)):
        y = _LEGEND_TOP + _LEGEND_STEP * index
        drawn.append(
            f'<path d="M{_LEFT},{y}h26" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dashes}"/>'
            + words(_LEFT + 34, y + 4, line.name)
        )
    return "".join(drawn)
