"""Line charts as inline SVG: a frame with ticks, lines with gaps, a marker. Strings in, strings out."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from orthoscope.report.reading import Number
from orthoscope.report.scales import Scale, tick_label
from orthoscope.report.wording import shortened

WIDTH, HEIGHT = 340, 220
LEFT, RIGHT, TOP, BOTTOM = 44, 328, 40, 186
_LETTER = 6.6  # pixels a letter takes at the size of labels, about


@dataclass(frozen=True)
class Line:
    """Values along x, None where undefined; `look` is a class of the style sheet."""

    x: Sequence[Number]
    y: Sequence[Number | None]
    look: str
    name: str = ""


@dataclass(frozen=True)
class Marker:
    """A vertical line with what begins there and the name of the place."""

    x: Number
    words: str
    name: str


def chart(title: str, across: Scale, up: Scale, lines: Sequence[Line], marker: Marker | None) -> str:
    """One small multiple: x counts layers, the title says what y is."""
    body = [_horizontal_ticks(across), _vertical_ticks(up)]
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


def segments(points: Sequence[tuple[Number | None, Number | None]]) -> list[list[tuple[Number, Number]]]:
    """Runs of defined points: an undefined one leaves a gap."""
    runs: list[list[tuple[Number, Number]]] = [[]]
    for x, y in points:
        if x is not None and y is not None:
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(line: Line, across: Scale, up: Scale) -> str:
    drawn = []
    for run in segments([(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)]):
        if len(run) == 1:  # a line through one point is invisible
            drawn.append(f'<circle cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2.5" class="{line.look} dot"/>')
        else:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            drawn.append(f'<polyline points="{points}" class="{line.look}"/>')
    return "".join(drawn)


def _horizontal_ticks(across: Scale) -> str:
    drawn = [rule(LEFT, BOTTOM, RIGHT, BOTTOM, "axis")]
    for tick in across.ticks():
        x = across(tick)
        if x is not None and tick == round(tick):
            drawn.append(
                rule(x, BOTTOM, x, BOTTOM + 4, "axis") + words(x, BOTTOM + 16, tick_label(tick), "tick", "middle")
            )
    return "".join(drawn) + words((LEFT + RIGHT) / 2, HEIGHT - 4, "module call, from input to output", "unit", "middle")


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
    drawn, x = [], float(LEFT)
    for line in lines:
        drawn.append(rule(x, 9, x + 16, 9, line.look) + words(x + 21, 12.5, line.name, "tick"))
        x += 34 + _LETTER * len(line.name)
    return "".join(drawn)
