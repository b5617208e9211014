"""The trainability plane of a comparison: both networks joined by an arrow, among networks whose training is known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.report.charts import rule, words
from orthoscope.report.reading import Document, Number
from orthoscope.report.scales import Scale, round_steps, tick_label
from orthoscope.report.signs import look, symbol
from orthoscope.report.tables import safe
from orthoscope.report.wording import fixed, signed

WIDTH, HEIGHT = 680, 430
LEFT, RIGHT, TOP, BOTTOM = 58, 664, 18, 372
_FLATTEST = 0.1  # half height of the axis when every network is flatter: noise must not look steep
_MOST = 0.9  # the share of known networks that the axis has room for
_NEAR, _HEAD = 11.0, 9.0  # pixels: from a mark to the end of the arrow, and the length of its head

Place = tuple[float, float]


def comparison_plane(document: Document, cloud: Sequence[Mapping[str, Any]]) -> str:
    """Where both networks are: gap across, slope up; one that has no gap or no slope is not placed."""
    extent = _extent([document["before"], document["after"]], cloud)
    across = Scale(0, 1, LEFT, RIGHT)
    up = Scale(-extent, extent, BOTTOM, TOP)
    places = {when: _place(document[when], across, up) for when in ("before", "after")}
    marks = [_known(one, across, up) for one in cloud]
    if places["before"] is not None and places["after"] is not None:
        marks.append(_arrow(places["before"], places["after"]))
    marks += [_own(document[when], when, at) for when, at in places.items() if at is not None]
    body = "".join([*_frame(across, up), *marks])
    label = "trainability plane before and after"
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="plane" role="img" aria-label="{label}">{body}</svg>'
    return f'<div class="plane-row"><div>{svg}{_legend(cloud)}</div>{_reading(document, len(cloud))}</div>'


def _extent(documents: Sequence[Document], cloud: Sequence[Mapping[str, Any]]) -> float:
    """Half the height of the axis: room for both networks with their errors, and for most of those that are known."""
    slopes = [document["slope"] for document in documents]
    own = max(1.25 * (abs(slope["value"] or 0) + (slope["standard_error"] or 0)) for slope in slopes)
    known = sorted(abs(one["slope"]) for one in cloud)
    return float(max(_FLATTEST, own, known[int(_MOST * (len(known) - 1))] if known else 0))


def _place(document: Document, across: Scale, up: Scale) -> Place | None:
    return _pixels(document["gap"], document["slope"]["value"], across, up)


def _pixels(gap: Number | None, slope: Number | None, across: Scale, up: Scale) -> Place | None:
    """What lies beyond the frame is drawn on its border."""
    if gap is None or slope is None:
        return None
    x, y = across(min(max(gap, across.low), across.high)), up(min(max(slope, up.low), up.high))
    return None if x is None or y is None else (float(x), float(y))


def _frame(across: Scale, up: Scale) -> list[str]:
    drawn = []
    for tick in round_steps(across.low, across.high):
        x = across(tick) or 0
        drawn += [rule(x, TOP, x, BOTTOM, "grid"), words(x, BOTTOM + 17, tick_label(tick), "tick", "middle")]
    for tick in up.ticks():
        y = up(tick) or 0
        drawn += [
            rule(LEFT, y, RIGHT, y, "grid" if tick else "axis"),
            words(LEFT - 8, y + 4, tick_label(tick), "tick", "end"),
        ]
    middle = (TOP + BOTTOM) / 2
    return [
        *drawn,
        words((LEFT + RIGHT) / 2, HEIGHT - 16, "orthogonality gap", "axis-name", "middle"),
        words(LEFT, HEIGHT - 16, "← samples apart", "unit"),
        words(RIGHT, HEIGHT - 16, "one direction →", "unit", "end"),
        words(LEFT + 6, TOP + 14, "↑ gradients grow toward the input", "unit"),
        words(LEFT + 6, BOTTOM - 8, "↓ gradients shrink toward the input", "unit"),
        f'<g transform="translate(13 {middle:.0f}) rotate(-90)">'
        f"{words(0, 0, 'log-gradient slope per weight layer', 'axis-name', 'middle')}</g>",
    ]


def _known(one: Mapping[str, Any], across: Scale, up: Scale) -> str:
    """A filled dot for a network that trained, a cross for one that did not."""
    place = _pixels(one["gap"], one["slope"], across, up)
    if place is None:
        return ""
    x, y = place
    if one["trained"]:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="cloud-trained"/>'
    return f'<path d="M{x - 3:.1f},{y - 3:.1f}l6,6m0,-6l-6,6" class="cloud-failed"/>'


def _arrow(start: Place, end: Place) -> str:
    """From mark to mark, without touching either; nothing where they are too close for it."""
    length = math.dist(start, end)
    if length <= 2 * _NEAR + _HEAD:
        return ""
    right, down = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    tip = (end[0] - _NEAR * right, end[1] - _NEAR * down)
    neck = (tip[0] - _HEAD * right, tip[1] - _HEAD * down)
    wing = (_HEAD / 2 * down, -_HEAD / 2 * right)
    head = " ".join(
        f"{x:.1f},{y:.1f}"
        for x, y in (tip, (neck[0] + wing[0], neck[1] + wing[1]), (neck[0] - wing[0], neck[1] - wing[1]))
    )
    return (
        rule(start[0] + _NEAR * right, start[1] + _NEAR * down, *neck, "change")
        + f'<polygon points="{head}" class="change-head"/>'
    )


def _own(document: Document, when: str, at: Place) -> str:
    gap, slope = document["gap"], document["slope"]["value"]
    right = at[0] < (LEFT + RIGHT) / 2
    label = words(at[0] + (14 if right else -14), at[1] + 4, when, "label", "start" if right else "end")
    mark = symbol(look(document), *at, 7)
    return f'<g data-when="{when}" data-gap="{gap:.6g}" data-slope="{slope:.6g}">{mark}{label}</g>'


def _legend(cloud: Sequence[Mapping[str, Any]]) -> str:
    icon = '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{}</svg>{}'
    trained = icon.format('<circle cx="8" cy="8" r="3.5" class="cloud-trained"/>', "known to train")
    failed = icon.format('<path d="M4,4l8,8m0,-8l-8,8" class="cloud-failed"/>', "known not to")
    return f'<p class="legend"><span>{trained}</span><span>{failed}</span></p>' if cloud else ""


def _reading(document: Document, known: int) -> str:
    places = [
        f"<p>{when.capitalize()}: gap <b>{fixed(one['gap'])}</b>, slope <b>{signed(one['slope']['value'])}</b>, "
        f"{safe(one['verdict'])}.</p>"
        for when, one in (("before", document["before"]), ("after", document["after"]))
    ]
    around = (
        f"<p>Around them: {known} networks that were trained. Marks on the border lie beyond it.</p>" if known else ""
    )
    return (
        f'<div class="reading">{"".join(places)}<p>Across: how far the samples are from orthogonal where the network '
        "ends. Up: by how much the log of the gradient grows at every weight layer on the way back to the input. "
        f"Both near zero is best.</p>{around}</div>"
    )
