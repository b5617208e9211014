"""The trainability plane: orthogonality gap across, log-gradient slope up; a network trains near (0, 0)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orthoscope.findings import Verdict
from orthoscope.report.charts import rule, words
from orthoscope.report.reading import Document
from orthoscope.report.scales import Scale, tick_label
from orthoscope.report.wording import printable, shortened

_WIDTH, _HEIGHT = 640, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 620, 24, 340
_LINE = 14  # pixels between two labels
_MOST_NAMES = 16  # beyond this, numbers only; the overview table says which is which
_SMALLEST_SLOPE = 0.1  # half height of the axis when every network is flatter: noise must not look steep
_LOOKS = {Verdict.HEALTHY: "healthy", Verdict.AT_RISK: "at-risk", Verdict.SICK: "sick"}


@dataclass(frozen=True)
class _Point:
    number: int
    label: str
    x: float
    y: float
    error: float  # pixels
    look: str


def look(document: Document) -> str:
    """The class that gives a verdict its colour; shape and word go with it everywhere."""
    return _LOOKS[Verdict(document["verdict"])]


def symbol(look: str, x: float, y: float, size: float = 6) -> str:
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
    body += [_point(point, faded=chosen is not None and point.number != chosen + 1) for point in points]
    body += [_label(point, y, alone=len(documents) == 1) for point, y in _spread(points)]
    return (
        f'<svg class="plane" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="trainability plane with {len(points)} networks">{"".join(body)}</svg>'
    )


def plane_legend() -> str:
    """Which shape is which verdict."""
    entries = []
    for verdict, look in _LOOKS.items():
        icon = f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{symbol(look, 8, 8, 5.5)}</svg>'
        entries.append(f"<span>{icon}{verdict.lower()}</span>")
    return f'<p class="legend">{"".join(entries)}</p>'


def unplaced(documents: Sequence[Document]) -> list[str]:
    """Names of networks that lack a gap or a slope."""
    return [printable(document["name"]) for document in documents if not _placeable(document)]


def _placeable(document: Document) -> bool:
    return document["gap"] is not None and document["slope"]["value"] is not None


def _extent(documents: Sequence[Document]) -> float:
    """Half the height of the axis: a little beyond the steepest network and its error, and symmetric."""
    slopes = [document["slope"] for document in documents if _placeable(document)]
    steepest = max((abs(slope["value"]) + (slope["standard_error"] or 0) for slope in slopes), default=0)
    return max(_SMALLEST_SLOPE, 1.25 * steepest)


def _points(documents: Sequence[Document], across: Scale, up: Scale, chosen: int | None) -> list[_Point]:
    points = []
    for index, document in enumerate(documents):
        # A gap may exceed 1 by rounding only; outside the frame it would be lost.
        x = across(None if document["gap"] is None else min(1.0, document["gap"]))
        y = up(document["slope"]["value"])
        if x is None or y is None:
            continue
        named = len(documents) <= _MOST_NAMES or index == chosen
        label = shortened(printable(document["name"]), 34) if named else ""
        error = (document["slope"]["standard_error"] or 0) * (_BOTTOM - _TOP) / (up.high - up.low)
        points.append(_Point(index + 1, label, x, y, error, look(document)))
    return points


def _point(point: _Point, faded: bool) -> str:
    whisker = rule(point.x, point.y - point.error, point.x, point.y + point.error, f"whisker {point.look}")
    drawn = whisker + symbol(point.look, point.x, point.y)
    return f'<g class="faded">{drawn}</g>' if faded else f"<g>{drawn}</g>"


def _spread(points: Sequence[_Point]) -> list[tuple[_Point, float]]:
    """Labels from top to bottom, pushed down so far that none covers another on its side."""
    lowest = {True: -math.inf, False: -math.inf}
    placed = []
    for point in sorted(points, key=lambda point: point.y):
        side = _label_goes_left(point)
        lowest[side] = max(point.y, lowest[side] + _LINE)
        placed.append((point, lowest[side]))
    return placed


def _label_goes_left(point: _Point) -> bool:
    return point.x > (_LEFT + _RIGHT) / 2


def _label(point: _Point, y: float, alone: bool) -> str:
    shift, anchor = (-14, "end") if _label_goes_left(point) else (14, "start")
    leader = (
        rule(point.x, point.y, point.x + shift + 3 * math.copysign(1, -shift), y, "leader")
        if y > point.y
        else ""
    )
    label = point.label if alone else f"{point.number} {point.label}"
    return leader + words(point.x + shift, y + 4, label, "label", anchor)


def _frame(across: Scale, up: Scale) -> str:
    drawn = []
    for tick in across.ticks():
        x = across(tick) or 0
        drawn.append(
            rule(x, _TOP, x, _BOTTOM, "grid") + words(x, _BOTTOM + 18, tick_label(tick), "tick", "middle")
        )
    for tick in up.ticks():
        y = up(tick) or 0
        kind = "axis" if tick == 0 else "grid"
        drawn.append(
            rule(_LEFT, y, _RIGHT, y, kind) + words(_LEFT - 8, y + 4, tick_label(tick), "tick", "end")
        )
    drawn.append(words((_LEFT + _RIGHT) / 2, _HEIGHT - 20, "orthogonality gap", "axis-name", "middle"))
    drawn.append(words(_LEFT, _HEIGHT - 20, "← samples apart", "unit"))
    drawn.append(words(_RIGHT, _HEIGHT - 20, "one direction →", "unit", "end"))
    drawn.append(words(_LEFT + 6, _TOP + 12, "↑ gradients grow toward the input", "unit"))
    drawn.append(words(_LEFT + 6, _BOTTOM - 7, "↓ gradients shrink toward the input", "unit"))
    turned = f"translate(14 {(_TOP + _BOTTOM) / 2:.0f}) rotate(-90)"
    name = "log-gradient slope per weight layer"
    drawn.append(f'<text class="axis-name" text-anchor="middle" transform="{turned}">{name}</text>')
    return "".join(drawn)
