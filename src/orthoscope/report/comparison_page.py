"""The page of a comparison: both verdicts, numbers, findings that came and went, profiles overlaid, the plane."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from orthoscope.report.charts import (
    LEFT,
    RIGHT,
    Line,
    Scale,
    chart,
    round_steps,
    rule,
    tick_label,
    upright,
    whole_decades,
    words,
)
from orthoscope.report.html import environment, look, safe, shell, symbol, table, verdict_sign
from orthoscope.report.reading import Document, LayerRow, Number, metric, possible_rank, share
from orthoscope.report.viewer import reference_cloud
from orthoscope.report.wording import LONGEST_TITLE, UNDEFINED, fixed, layer_name, number, shortened, signed

_SHOWN = 12


def spaced_weights(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """About twelve weight layers evenly spaced along the depth, the first and the last among them."""
    weights = [row for row in rows if row["depth"] is not None]
    spaced = weights[:: max(1, -(-len(weights) // _SHOWN))]
    return spaced if not weights or spaced[-1] is weights[-1] else [*spaced, weights[-1]]


_LOOKS = {"before": "line-second", "after": "line-strong"}
_FEWEST_WEIGHTS = 2  # a line through one point is none: then every module call is drawn

Row = tuple[int, LayerRow]


def comparison_charts(document: Document) -> list[str]:
    """Gap, effective rank, overlap, rms and gradient norm of both networks, each as one figure; none without layers."""
    both = {when: document[when]["layers"] for when in _LOOKS}
    by_weight = all(len(_weights(layers)) >= _FEWEST_WEIGHTS for layers in both.values())
    rows = {when: _weights(layers) if by_weight else list(enumerate(layers, 1)) for when, layers in both.items()}
    last = max((x for placed in rows.values() for x, _ in placed), default=0)
    if last == 0:
        return []
    along = "weight layer, from input to output" if by_weight else "module call, from input to output"
    across = Scale(1, max(2, last), LEFT, RIGHT)
    return [
        chart(title, across, axis([read(layer) for placed in rows.values() for _, layer in placed]), lines, None, along)
        for title, read, axis in _FIGURES
        for lines in [[_line(rows[when], read, when) for when in _LOOKS]]
    ]


def _weights(layers: Sequence[LayerRow]) -> list[Row]:
    """The weight layers and how deep they are."""
    return [(layer["depth"], layer) for layer in layers if layer["depth"] is not None]


def _line(rows: Sequence[Row], read: Callable[[LayerRow], Number | None], when: str) -> Line:
    return Line([x for x, _ in rows], [read(layer) for _, layer in rows], _LOOKS[when], when)


def _share_axis(values: Sequence[Number | None]) -> Scale:
    """From 0 to 1, or from the half below what is negative, as a cosine may be."""
    least = min((value for value in values if value is not None), default=0)
    # A cosine that is negative by chance needs no axis of its own.
    return upright(math.floor(2 * min(0.0, max(-1.0, least)) + 0.1) / 2, 1)


def _decades_axis(values: Sequence[Number | None]) -> Scale:
    return upright(*whole_decades(values), logarithmic=True)


_FIGURES: tuple[tuple[str, Callable[[LayerRow], Number | None], Callable[[Sequence[Number | None]], Scale]], ...] = (
    ("Orthogonality gap", lambda layer: metric(layer, "gap"), _share_axis),
    (
        "Effective rank, share of the possible",
        lambda layer: share(metric(layer, "effective_rank"), possible_rank(layer)),
        _share_axis,
    ),
    ("Mean overlap (cosine of pairs)", lambda layer: metric(layer, "overlap"), _share_axis),
    ("RMS of the output (log scale)", lambda layer: layer["rms"], _decades_axis),
    ("Gradient norm (log scale)", lambda layer: layer["gradient_norm"], _decades_axis),
)

PLANE_WIDTH, PLANE_HEIGHT = 680, 430
PLANE_LEFT, PLANE_RIGHT, PLANE_TOP, PLANE_BOTTOM = 58, 664, 18, 372
_FLATTEST = 0.1  # half height of the axis when every network is flatter: noise must not look steep
_MOST = 0.9  # the share of known networks that the axis has room for
_NEAR, _HEAD = 11.0, 9.0  # pixels: from a mark to the end of the arrow, and the length of its head

Place = tuple[float, float]


def comparison_plane(document: Document, cloud: Sequence[Mapping[str, Any]]) -> str:
    """Where both networks are: gap across, slope up; one that has no gap or no slope is not placed."""
    extent = _extent([document["before"], document["after"]], cloud)
    across = Scale(0, 1, PLANE_LEFT, PLANE_RIGHT)
    up = Scale(-extent, extent, PLANE_BOTTOM, PLANE_TOP)
    places = {when: _place(document[when], across, up) for when in ("before", "after")}
    marks = [_known(one, across, up) for one in cloud]
    if places["before"] is not None and places["after"] is not None:
        marks.append(_arrow(places["before"], places["after"]))
    marks += [_own(document[when], when, at) for when, at in places.items() if at is not None]
    body = "".join([*_frame(across, up), *marks])
    label = "trainability plane before and after"
    svg = f'<svg viewBox="0 0 {PLANE_WIDTH} {PLANE_HEIGHT}" class="plane" role="img" aria-label="{label}">{body}</svg>'
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
        drawn += [
            rule(x, PLANE_TOP, x, PLANE_BOTTOM, "grid"),
            words(x, PLANE_BOTTOM + 17, tick_label(tick), "tick", "middle"),
        ]
    for tick in up.ticks():
        y = up(tick) or 0
        drawn += [
            rule(PLANE_LEFT, y, PLANE_RIGHT, y, "grid" if tick else "axis"),
            words(PLANE_LEFT - 8, y + 4, tick_label(tick), "tick", "end"),
        ]
    middle = (PLANE_TOP + PLANE_BOTTOM) / 2
    return [
        *drawn,
        words((PLANE_LEFT + PLANE_RIGHT) / 2, PLANE_HEIGHT - 16, "orthogonality gap", "axis-name", "middle"),
        words(PLANE_LEFT, PLANE_HEIGHT - 16, "← samples apart", "unit"),
        words(PLANE_RIGHT, PLANE_HEIGHT - 16, "one direction →", "unit", "end"),
        words(PLANE_LEFT + 6, PLANE_TOP + 14, "↑ gradients grow toward the input", "unit"),
        words(PLANE_LEFT + 6, PLANE_BOTTOM - 8, "↓ gradients shrink toward the input", "unit"),
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
    right = at[0] < (PLANE_LEFT + PLANE_RIGHT) / 2
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


_BOTH = ("before", "after")
_COLUMNS = (("gap", fixed), ("effective_rank", number), ("gradient_norm", number))


def comparison_page(document: Document) -> str:
    """One self-contained page."""
    names = dict.fromkeys(
        shortened(document[when]["name"], LONGEST_TITLE) or "a network without a name" for when in _BOTH
    )
    content = f"{change_banner(document)}{comparison_parts(document)}{environment(document)}"
    return shell("Orthoscope comparison", safe(" → ".join(names)), f'<section class="network">{content}</section>\n')


def change_banner(document: Document) -> str:
    """Both verdicts and the sentence, in the color of what it is now."""
    before, after = ({"verdict": document["verdict"][when]} for when in _BOTH)
    signs = f"{verdict_sign(before)}<span>→</span>{verdict_sign(after)}"
    return f'<div class="banner {look(after)}">{signs}<p>{safe(document["summary"])}</p></div>'


def comparison_parts(document: Document) -> str:
    """All below the banner."""
    charts = "".join(comparison_charts(document))
    profiles = f'<h3>Depth profiles, before and after</h3><div class="profiles">{charts}</div>' if charts else ""
    return (
        f"<h3>Numbers</h3>{_numbers(document['numbers'])}"
        f"{_findings('No longer found', document['vanished'])}{_findings('Newly found', document['appeared'])}"
        f"{profiles}<h3>Trainability plane</h3>{comparison_plane(document, reference_cloud())}"
        f"{_layers(document['layers'])}"
    )


def _numbers(numbers: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td>{safe(row['name'])}<small>{safe(row['unit'])}</small></td>"
        + "".join(f'<td class="n">{number(row[when], 3)}</td>' for when in _BOTH)
        + "</tr>"
        for row in numbers
    ]
    return table(("", *_BOTH), rows, "compared")


def _findings(title: str, found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return ""
    rows = [
        f"<tr><td>{verdict_sign({'verdict': one['severity']})}</td>"
        f'<td class="check">{safe(one["check"])}<small>{safe(one["symptom"])}</small></td>'
        f'<td>{safe(one["reason"])}</td><td class="name"><code>{safe(one["layer"] or "")}</code></td></tr>'
        for one in found
    ]
    return f"<h3>{title}</h3>{table(('severity', 'check', 'result', 'begins at'), rows)}"


def _layers(pairs: Sequence[Mapping[str, Any]]) -> str:
    shown = spaced_weights(pairs)
    if not shown:
        return ""
    rows = []
    for pair in shown:
        cells = "".join(
            f'<td class="n">{_of(pair[when], name, write)}</td>' for name, write in _COLUMNS for when in _BOTH
        )
        rows.append(f'<tr><td class="name">{safe(shortened(layer_name(pair), LONGEST_TITLE))}</td>{cells}</tr>')
    heads = ("layer", "gap before", "after", "rank before", "after", "gradient before", "after")
    left_out = sum(pair["depth"] is not None for pair in pairs) - len(shown)
    title = f"Weight layers ({left_out} between them left out)" if left_out else "Weight layers"
    return f"<h3>{title}</h3>{table(heads, rows)}"


def _of(profile: Mapping[str, Any] | None, name: str, write: Any) -> str:
    return UNDEFINED if profile is None else str(write(profile[name]))
