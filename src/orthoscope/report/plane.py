"""The trainability plane: orthogonality gap across, log-gradient slope up; a network trains near (0, 0).

A hollow mark is where theory puts a network, with a thin line to where it was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orthoscope.findings import Verdict
from orthoscope.report.charts import rule, words
from orthoscope.report.clipping import clipped
from orthoscope.report.labels import Box, place
from orthoscope.report.reading import Document, Number, expected, last_telling_layer
from orthoscope.report.scales import Scale, tick_label
from orthoscope.report.wording import printable, shortened

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 620, 24, 340
_MOST_NAMES = 12  # beyond this, numbers only; the overview table says which is which
_LONGEST_NAME = 30
_SMALLEST_SLOPE = 0.1  # half height of the axis when every network is flatter: noise must not look steep
_FARTHEST = 3  # how many times as high a prediction may make the axis; one beyond is a line that leaves the frame
_LOOKS = {Verdict.HEALTHY: "healthy", Verdict.AT_RISK: "at-risk", Verdict.SICK: "sick"}


@dataclass(frozen=True)
class _Point:
    index: int
    label: str
    x: Number
    y: Number
    error: Number  # pixels
    look: str
    theory: tuple[Number, Number] | None  # where theory puts it, if that is drawn; perhaps outside the frame

    @property
    def link(self) -> list[tuple[Number, Number]]:
        """From the measured point toward the predicted one, as far as the frame goes."""
        ends = [] if self.theory is None else [[(self.x, self.y), self.theory]]
        return next(iter(clipped(ends, _TOP, _BOTTOM)), [])


def look(document: Mapping[str, Any]) -> str:
    """The class that gives a verdict its colour; shape and word go with it everywhere."""
    return _LOOKS[Verdict(document["verdict"])]


def symbol(look: str, x: Number, y: Number, size: Number = 6) -> str:
    """Circle, triangle or square: a verdict must be told without colour."""
    if look == "healthy":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{look}"/>'
    if look == "at-risk":
        corners = f"M{x:.1f},{y - 1.2 * size:.1f} l{1.15 * size:.1f},{2 * size:.1f} h{-2.3 * size:.1f} z"
        return f'<path d="{corners}" class="{look}"/>'
    side = f'width="{2 * size:.1f}" height="{2 * size:.1f}"'
    return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" {side} class="{look}"/>'


def plane(documents: Sequence[Document], chosen: int | None = None) -> str:
    """All networks of a report that have both numbers; `chosen` is the index of the one to stand out."""
    across = Scale(0, 1, _LEFT, _RIGHT)
    up = Scale(-_extent(documents), _extent(documents), _BOTTOM, _TOP)
    points = _points(documents, across, up, chosen)
    body = [_frame(across, up)]
    body += [_theory(point) for point in points]
    body += [_point(point, faded=chosen is not None and point.index != chosen) for point in points]
    body.append(_labels(points))
    return (
        f'<svg class="plane" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="trainability plane with {len(points)} networks">{"".join(body)}</svg>'
    )


def plane_legend(documents: Sequence[Document]) -> str:
    """Which shape is which verdict, and that a hollow one is a prediction if there is any."""
    marks = [(symbol(look, 8, 8, 5.5), verdict.lower()) for verdict, look in _LOOKS.items()]
    if any(_predicted(document) is not None for document in documents):
        marks.append((_hollow(8, 8, 5.5), "where theory puts it"))
    entries = [
        f'<span><svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{mark}</svg>{name}</span>'
        for mark, name in marks
    ]
    return f'<p class="legend">{"".join(entries)}</p>'


def unplaced(documents: Sequence[Document]) -> list[str]:
    """Names of networks that lack a gap or a slope."""
    return [printable(document["name"]) for document in documents if _measured(document) is None]


def _measured(document: Document) -> tuple[Number, Number] | None:
    """Gap and slope, None where one of them is missing."""
    gap, slope = document["gap"], document["slope"]["value"]
    return None if gap is None or slope is None else (gap, slope)


def _predicted(document: Document) -> tuple[Number, Number] | None:
    """Gap and slope that theory expects of a network that is placed, None where it lacks one of them."""
    layer, slope = last_telling_layer(document), document["prediction"]["slope"]
    gap = None if layer is None else expected(layer, "gap")
    return None if gap is None or slope is None or _measured(document) is None else (gap, slope)


def _extent(documents: Sequence[Document]) -> Number:
    """Half the height of the axis: a little beyond the steepest network and its error, and symmetric."""
    slopes = [document["slope"] for document in documents if _measured(document)]
    steepest = max((abs(slope["value"]) + (slope["standard_error"] or 0) for slope in slopes), default=0)
    measured = max(_SMALLEST_SLOPE, 1.25 * steepest)
    predicted = max((1.25 * abs(place[1]) for document in documents if (place := _predicted(document))), default=0)
    return max(measured, min(predicted, _FARTHEST * measured))


def _points(documents: Sequence[Document], across: Scale, up: Scale, chosen: int | None) -> list[_Point]:
    points = []
    for index, document in enumerate(documents):
        measured = _pixels(_measured(document), across, up)
        if measured is None:
            continue
        error = (document["slope"]["standard_error"] or 0) * (_BOTTOM - _TOP) / (up.high - up.low)
        theory = _pixels(_predicted(document), across, up) if chosen in (None, index) else None
        points.append(_Point(index, _name(documents, index, chosen), *measured, error, look(document), theory))
    return points


def _pixels(place: tuple[Number, Number] | None, across: Scale, up: Scale) -> tuple[Number, Number] | None:
    if place is None:
        return None
    # A gap may exceed 1 by rounding only; outside the frame it would be lost.
    x, y = across(min(1.0, place[0])), up(place[1])
    return None if x is None or y is None else (x, y)


def _name(documents: Sequence[Document], index: int, chosen: int | None) -> str:
    """Number and name; of many networks the number alone, and around a chosen one nothing."""
    name = shortened(printable(documents[index]["name"]), _LONGEST_NAME)
    if len(documents) == 1:
        return name
    if len(documents) <= _MOST_NAMES or index == chosen:
        return f"{index + 1} {name}"
    return str(index + 1) if chosen is None else ""


def _theory(point: _Point) -> str:
    """The line to where theory puts a network, and a hollow mark if that is within the frame."""
    if not point.link:
        return ""
    (x1, y1), (x2, y2) = point.link
    mark = _hollow(x2, y2) if point.link[-1] == point.theory else ""
    return f"<g>{rule(x1, y1, x2, y2, 'theory-link')}{mark}</g>"


def _hollow(x: Number, y: Number, size: Number = 8) -> str:
    """Wider than a verdict: where theory is right, it is a ring around it."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="hollow"/>'


def _point(point: _Point, faded: bool) -> str:
    whisker = rule(point.x, point.y - point.error, point.x, point.y + point.error, f"whisker {point.look}")
    drawn = whisker + symbol(point.look, point.x, point.y)
    return f'<g class="faded">{drawn}</g>' if faded else f"<g>{drawn}</g>"


def _labels(points: Sequence[_Point]) -> str:
    """Names beside the points, with a line to those that had to move away."""
    shown = [point for point in points if point.label]
    frame = Box(_LEFT, _TOP, _RIGHT + 16, _BOTTOM)
    hollow = [point.link[-1] for point in points if point.link]
    spots = place([(point.x, point.y) for point in shown], [point.label for point in shown], frame, hollow)
    drawn = []
    for point, spot in zip(shown, spots, strict=True):
        if spot.moved:
            drawn.append(rule(point.x, point.y, spot.x, spot.y - 4, "leader"))
        drawn.append(words(spot.x, spot.y, point.label, "label", spot.anchor))
    return "".join(drawn)


def _frame(across: Scale, up: Scale) -> str:
    drawn = []
    for tick in across.ticks():
        x = across(tick) or 0
        drawn.append(rule(x, _TOP, x, _BOTTOM, "grid") + words(x, _BOTTOM + 18, tick_label(tick), "tick", "middle"))
    for tick in up.ticks():
        y = up(tick) or 0
        kind = "axis" if tick == 0 else "grid"
        drawn.append(rule(_LEFT, y, _RIGHT, y, kind) + words(_LEFT - 8, y + 4, tick_label(tick), "tick", "end"))
    drawn.append(words((_LEFT + _RIGHT) / 2, _HEIGHT - 20, "orthogonality gap", "axis-name", "middle"))
    drawn.append(words(_LEFT, _HEIGHT - 20, "← samples apart", "unit"))
    drawn.append(words(_RIGHT, _HEIGHT - 20, "one direction →", "unit", "end"))
    drawn.append(words(_LEFT + 6, _TOP + 12, "↑ gradients grow toward the input", "unit"))
    drawn.append(words(_LEFT + 6, _BOTTOM - 7, "↓ gradients shrink toward the input", "unit"))
    turned = f"translate(14 {(_TOP + _BOTTOM) / 2:.0f}) rotate(-90)"
    name = "log-gradient slope per weight layer"
    drawn.append(f'<text class="axis-name" text-anchor="middle" transform="{turned}">{name}</text>')
    return "".join(drawn)
