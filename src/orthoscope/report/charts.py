"""Line charts as inline SVG: a frame with ticks, a band, lines with gaps, a marker. Strings in, strings out."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from orthoscope.report.clipping import clipped, segments
from orthoscope.report.reading import Number
from orthoscope.report.scales import Scale, tick_label
from orthoscope.report.wording import shortened

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 328, 40, 186
_LETTER = 6.6  # pixels a letter takes at the size of labels, about
_LEGEND_LETTER, _LEGEND_GAP = 6.3, 34  # the same in a legend, and what a name has around it


@dataclass(frozen=True)
class Line:
    """Values along x, None where undefined; `look` is a class of the style sheet."""

    x: Sequence[Number]
    y: Sequence[Number | None]
    look: str
    name: str = ""


@dataclass(frozen=True)
class Band:
    """What lies between two lines, where both are defined."""

    x: Sequence[Number]
    low: Sequence[Number | None]
    high: Sequence[Number | None]


@dataclass(frozen=True)
class Marker:
    """A vertical line with what begins there and the name of the place."""

    x: Number
    words: str
    name: str


def chart(
    title: str,
    across: Scale,
    up: Scale,
    lines: Sequence[Line],
    marker: Marker | None,
    along: str = "module call, from input to output",
    band: Band | None = None,
) -> str:
    """One small multiple: `along` says what x counts, the title what y is."""
    body = [_horizontal_ticks(across, along), _vertical_ticks(up)]
    if band is not None:
        body.append(_band(band, across, up))
    body += [_line(line, across, up) for line in lines]
    if marker is not None:
        body.append(_marker(marker, across))
    body.append(_legend([line for line in lines if line.name]))
    label = escape(title)
    return (
        f'<figure class="chart"><figcaption>{label}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(body)}</svg></figure>'
    )


def words(x: Number, y: Number, content: str, look: str = "", anchor: str = "start") -> str:
    """A piece of text; whatever it holds is escaped."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{look}" text-anchor="{anchor}">{escape(content)}</text>'


def rule(x1: Number, y1: Number, x2: Number, y2: Number, look: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{look}"/>'


def _line(line: Line, across: Scale, up: Scale) -> str:
    drawn = []
    runs = segments([(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)])
    for run in clipped(runs, TOP, BOTTOM):
        if len(run) == 1:  # a line through one point is invisible
            drawn.append(f'<circle cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2.5" class="{line.look} dot"/>')
        else:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            drawn.append(f'<polyline points="{points}" class="{line.look}"/>')
    return "".join(drawn)


def _band(band: Band, across: Scale, up: Scale) -> str:
    ends = [
        (across(x), up(_clamped(low, up)), up(_clamped(high, up)))
        for x, low, high in zip(band.x, band.low, band.high, strict=True)
    ]
    drawn = []
    for defined, group in groupby(ends, key=lambda end: None not in end):
        run = list(group)
        if defined:
            there, back = [(x, low) for x, low, _ in run], [(x, high) for x, _, high in reversed(run)]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*there, *back])
            drawn.append(f'<polygon points="{points}" class="band"/>')
    return "".join(drawn)


def _clamped(value: Number | None, up: Scale) -> Number | None:
    return None if value is None else min(max(value, up.low), up.high)


def _horizontal_ticks(across: Scale, along: str) -> str:
    drawn = [rule(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")]
    for tick in across.ticks():
        x = across(tick)
        if x is not None and tick == round(tick):
            drawn.append(
                rule(x, BOTTOM, x, BOTTOM + 4, "axis") + words(x, BOTTOM + 16, tick_label(tick), "tick", "middle")
            )
    return "".join(drawn) + words((LEFT + RIGHT) / 2, HEIGHT - 4, along, "unit", "middle")


def _vertical_ticks(up: Scale) -> str:
    drawn = []
    for tick in up.ticks():
        y = up(tick)
        if y is not None:
            drawn.append(rule(LEFT, y, RIGHT, y, "grid") + words(LEFT - 6, y + 3.5, tick_label(tick), "tick", "end"))
    return "".join(drawn)


def _marker(marker: Marker, across: Scale) -> str:
    x = across(marker.x)
    if x is None:
        return ""
    letters = int((max(RIGHT - x, x - LEFT) - 6) / _LETTER)
    label = f"{marker.words} {shortened(marker.name, letters - len(marker.words) - 1)}"
    # On the side with more room, so that the label stays within the frame.
    anchor, shift = ("start", 6) if x < (LEFT + RIGHT) / 2 else ("end", -6)
    triangle = f'<path d="M{x - 4:.1f},{TOP - 16} h8 l-4,7 z" class="marker-head"/>'
    return rule(x, TOP - 10, x, BOTTOM, "marker") + triangle + words(x + shift, TOP - 9, label, "marker-words", anchor)


def _legend(lines: Sequence[Line]) -> str:
    widths = [_LEGEND_GAP + _LEGEND_LETTER * len(line.name) for line in lines]
    # Above the lines, or as far left of them as the names need.
    drawn, x = [], max(0.0, min(float(LEFT), WIDTH - sum(widths)))
    for line, width in zip(lines, widths, strict=True):
        drawn.append(rule(x, 9, x + 16, 9, line.look) + words(x + 21, 12.5, line.name, "tick"))
        x += width
    return "".join(drawn)


def upright(low: Number, high: Number, logarithmic: bool = False) -> Scale:
    """The vertical axis of a chart."""
    return Scale(low, high, BOTTOM, TOP, logarithmic)
