"""Line charts as inline SVG: axes with round ticks, a band, lines with gaps, a marker. Strings in, strings out."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from orthoscope.report.reading import Number
from orthoscope.report.wording import shortened

_MOST_TICKS = 5
_MARGIN = 0.1  # decades: a constant 1 belongs in the middle, not on the border


@dataclass(frozen=True)
class Scale:
    """Maps `low`..`high` to pixels `start`..`end`; a logarithmic one undefined (None) at zero and below."""

    low: Number
    high: Number
    start: Number
    end: Number
    logarithmic: bool = False

    def __call__(self, value: Number | None) -> Number | None:
        """The pixel of a value; None for what has no place on the axis."""
        if value is None or not math.isfinite(value) or (self.logarithmic and value <= 0):
            return None
        low, high, at = (self._place(self.low), self._place(self.high), self._place(value))
        pixel = self.start + (at - low) / (high - low) * (self.end - self.start)
        return pixel if math.isfinite(pixel) else None

    def ticks(self) -> list[Number]:
        """Round values for the ticks of the axis."""
        return decades(self.low, self.high) if self.logarithmic else round_steps(self.low, self.high)

    def _place(self, value: Number) -> Number:
        return math.log10(value) if self.logarithmic else value


def round_steps(low: Number, high: Number) -> list[Number]:
    """At most six multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def decades(low: Number, high: Number) -> list[Number]:
    """Powers of ten, thinned to at most six."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first) / _MOST_TICKS))
    return [10.0**exponent for exponent in range(first, last + 1, step)]


def whole_decades(values: Iterable[Number | None]) -> tuple[Number, Number]:
    """The powers of ten around the positive values with a margin; 1 to 10 if there are none."""
    exponents = [math.log10(value) for value in values if value is not None and 0 < value < math.inf]
    # 10⁻³²³ and 10³⁰⁸ are the outermost decades that a float can hold.
    low = min(307, max(-323, math.floor(min(exponents, default=_MARGIN) - _MARGIN)))
    high = min(308, math.ceil(max(exponents, default=1 - _MARGIN) + _MARGIN))
    return 10.0**low, 10.0 ** max(high, low + 1)


def tick_label(value: Number) -> str:
    """`0.5`, `20`, `10⁻⁶`."""
    if value == 0:
        return "0"
    exponent = math.log10(abs(value))
    if abs(exponent - round(exponent)) < 1e-9 and not -3 < exponent < 4:
        return "10" + str(round(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:.4g}".replace("-", "−")


Point = tuple[Number, Number]
_SLACK = 1.0  # pixels: a value on the border may be rounded beyond it


def segments(points: Sequence[tuple[Number | None, Number | None]]) -> list[list[Point]]:
    """Runs of defined points: an undefined one leaves a gap."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if x is not None and y is not None:
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def clipped(runs: Sequence[Sequence[Point]], top: Number, bottom: Number) -> list[list[Point]]:
    """The parts of lines between two heights; where a line leaves, it ends on the border."""
    pieces: list[list[Point]] = []
    for run in runs:
        if all(top - _SLACK <= y <= bottom + _SLACK for _, y in run):
            pieces.append(list(run))
            continue
        parts = [part for pair in pairwise(run) if (part := _inside(*pair, top, bottom)) is not None]
        for start, end in parts:
            if pieces and pieces[-1][-1] is start:
                pieces[-1].append(end)
            else:
                pieces.append([start, end])
    return pieces


def _inside(start: Point, end: Point, top: Number, bottom: Number) -> tuple[Point, Point] | None:
    """The stretch of one segment between two heights, its ends kept as they are where they lie inside."""
    (x, y), (rise, run) = start, (end[1] - start[1], end[0] - start[0])
    if rise == 0:
        return (start, end) if top <= y <= bottom else None
    crossings = sorted(((top - y) / rise, (bottom - y) / rise))
    enter, leave = max(0.0, crossings[0]), min(1.0, crossings[1])
    if enter >= leave:
        return None
    first = start if enter == 0 else (x + enter * run, y + enter * rise)
    last = end if leave == 1 else (x + leave * run, y + leave * rise)
    return first, last


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
    """A straight line."""
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
