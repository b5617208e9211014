"""A prediction as six small charts with depth along x, and a mark where it stops being healthy.

The page of a prediction: the answer, curves over depth, what ends it, the numbers, and who says so.
"""

import math
from collections.abc import Sequence

from orthoscope.findings import Verdict
from orthoscope.report.charts import LEFT, RIGHT, Band, Line, Marker, Scale, chart, upright, whole_decades
from orthoscope.report.html import environment, facts, look, safe, shell, sources_list, table, verdict_sign
from orthoscope.report.prediction_terminal import (
    DepthRow,
    beginnings,
    checks_that_found,
    deepest_of,
    deviating,
    growth,
    most_directions,
    shown_depths,
    turning_point,
)
from orthoscope.report.reading import Document, Number, share
from orthoscope.report.wording import LONGEST_TITLE, UNDEFINED, fixed, number, rank, shortened, significant

Values = Sequence[Number | None]
_ALONG = "depth (hidden layers)"
_FARTHEST = 1e300  # the difference of two larger numbers may be infinite


def prediction_charts(document: Document) -> list[str]:
    """Overlap, gap, effective rank, isometry gap, scale and gradient growth, each as one figure."""
    depths = [row["depth"] for row in document["depths"]]
    across = Scale(depths[0], max(depths[0] + 1, depths[-1]), LEFT, RIGHT)
    marker = _marker(document)
    band = _overlap_band(document, depths)
    ranks = [share(rank, most_directions(document)) for rank in _column(document, "effective_rank")]
    gaps, rms, growth = (_column(document, name) for name in ("isometry_gap", "rms", "gradient_growth"))
    overlaps = _column(document, "overlap")
    figures = (
        ("Mean overlap ± s.d. of one pair", upright(_lowest_overlap([*band.low, *overlaps]), 1), overlaps, band),
        ("Orthogonality gap", upright(0, 1), _column(document, "gap"), None),
        ("Effective rank, share of the possible", upright(0, 1), ranks, None),
        ("Isometry gap", upright(0, max(1, _most(gaps))), gaps, None),
        ("RMS of the output (log scale)", upright(*whole_decades(rms), logarithmic=True), rms, None),
        ("Gradient growth, e-folds from output to input", _growth_axis(growth), growth, None),
    )
    return [
        chart(title, across, up, [Line(depths, values, "line-strong")], marker, _ALONG, around)
        for title, up, values, around in figures
    ]


def _column(document: Document, name: str) -> Values:
    return [row[name] for row in document["depths"]]


def _overlap_band(document: Document, depths: Sequence[int]) -> Band:
    low: list[Number | None] = []
    high: list[Number | None] = []
    for row in document["depths"]:
        overlap, deviation = row["overlap"], row["overlap_deviation"]
        defined = overlap is not None and deviation is not None
        low.append(overlap - deviation if defined else None)
        high.append(overlap + deviation if defined else None)
    return Band(depths, low, high)


def _growth_axis(growth: Values) -> Scale:
    """Around zero, and one e-fold either way at least: a level gradient must not look steep."""
    low, high = min(0, _least(growth)), max(0, _most(growth))
    return upright(low, high) if high - low >= 1 else upright(-1, 1)


def _least(values: Values) -> Number:
    return max(-_FARTHEST, min((value for value in values if value is not None), default=0))


def _most(values: Values) -> Number:
    return min(_FARTHEST, max((value for value in values if value is not None), default=0))


def _marker(document: Document) -> Marker | None:
    turn = turning_point(document)
    return None if turn is None else Marker(turn[0], turn[1], f"depth {turn[0]}")


def _lowest_overlap(overlaps: Sequence[Number | None]) -> Number:
    """Where the axis of a cosine begins: zero, or the half below the most negative one."""
    lowest = min((value for value in overlaps if value is not None), default=0.0)
    return math.floor(2 * min(0.0, max(-1.0, lowest))) / 2


_HOW_TO_READ = """<div class="reading below"><h4>How to read</h4>
<p>Nothing was built or measured: every point is a network of that many hidden layers, and the number is
what theory expects after the last of them.</p>
<p>A network that trains keeps enough directions (rank) and holds the gradient level. The band is one standard
deviation of the cosine of a single pair. The dashed mark ▼ is where the rules of the diagnosis stop
being content.</p></div>"""


def prediction_page(document: Document) -> str:
    """One self-contained page."""
    title = safe(shortened(document["name"], LONGEST_TITLE)) or "a network without a name"
    content = (
        f"{_banner(document)}{_facts(document)}"
        f'<h3>By depth</h3><div class="profiles">{"".join(prediction_charts(document))}</div>{_HOW_TO_READ}'
        f"{_checks(document)}{_depths(document)}{_limit(document)}{_sources(document)}{environment(document)}"
    )
    return shell("Orthoscope prediction", title, f'<section class="network">{content}</section>\n')


def _banner(document: Document) -> str:
    """In the color of the deepest network asked for; its verdict is among the facts."""
    answer = f'<div class="verdict">{deepest_of(document)}<small>deepest that trains</small></div>'
    return f'<div class="banner {look(document["depths"][-1])}">{answer}<p>{safe(document["summary"])}</p></div>'


def _facts(document: Document) -> str:
    last = document["depths"][-1]
    entries = (
        (f"verdict at depth {last['depth']}", verdict_sign(last)),
        ("at risk from depth", _depth(document["at_risk_from"])),
        ("sick from depth", _depth(document["sick_from"])),
        ("samples × width", f"{document['samples']} × {document['width']}"),
        ("starting overlap", fixed(document["overlap"])),
        ("seconds", f"{document['seconds']:.1f}"),
    )
    return facts(entries)


def _depth(depth: int | None) -> str:
    return UNDEFINED if depth is None else str(depth)


def _checks(document: Document) -> str:
    """Every check that finds something at some depth: where it begins, and in what words."""
    rows = []
    for check in checks_that_found(document):
        found = beginnings(document, check)
        first = min(found.values(), key=lambda row: int(row["depth"]))
        begins = "".join(
            f'<td class="n">{_depth(found[verdict]["depth"] if verdict in found else None)}</td>'
            for verdict in (Verdict.AT_RISK, Verdict.SICK)
        )
        rows.append(
            f'<tr><td class="check">{safe(check)}<small>{safe(first["symptom"])}</small></td>'
            f"<td>{safe(first['reason'])}</td>{begins}</tr>"
        )
    unchecked = "".join(
        f'<p class="quiet">Not checked: {safe(row["check"])}, as {safe(row["reason"])}.</p>'
        for row in document["not_checked"]
    )
    found_rows = (
        table(("check", "result where it begins", "at risk from", "sick from"), rows)
        if rows
        else '<p class="quiet">No check finds anything at any depth asked for.</p>'
    )
    return f"<h3>What ends it</h3>{found_rows}{unchecked}"


def _depths(document: Document) -> str:
    """A screenful of depths in sight, all of them one click away."""
    rows, shown = document["depths"], shown_depths(document)
    brief = f"<details open><summary>Depths</summary>{_depths_table(document, shown)}</details>"
    if len(shown) == len(rows):
        return brief
    return f"{brief}<details><summary>All {len(rows)} depths</summary>{_depths_table(document, rows)}</details>"


def _depths_table(document: Document, rows: Sequence[DepthRow]) -> str:
    heads = ("depth", "rms", "overlap ± s.d.", "gap", "rank of possible", "isometry gap", "gradient growth")
    content = [_row(row, most_directions(document), row["depth"] == document["at_risk_from"]) for row in rows]
    return table((*heads, "verdict", "found by"), content, "depths")


def _row(row: DepthRow, possible: int, turning: bool) -> str:
    effective = row["effective_rank"]
    cells = (
        str(row["depth"]),
        number(row["rms"]),
        deviating(row["overlap"], row["overlap_deviation"]),
        fixed(row["gap"]),
        UNDEFINED if effective is None else f"{rank(effective)} / {possible}",
        number(row["isometry_gap"]),
        growth(row["gradient_growth"]),
        verdict_sign(row),
        safe(", ".join(dict.fromkeys(finding["check"] for finding in row["findings"]))),
    )
    # No class on the cells, as in the table of layers: the style sheet counts columns.
    opening = '<tr class="first">' if turning else "<tr>"
    return opening + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _limit(document: Document) -> str:
    rows = [
        f"<tr><td>{safe(limit['name'])}<small>{safe(limit['unit'])}</small></td>"
        f'<td class="n">{significant(limit["value"])}</td>'
        f"<td>{safe(limit['source'])}<small>assuming {safe(limit['assumes'])}</small></td></tr>"
        for limit in document["limit"]
    ]
    return f"<h3>As depth grows</h3>{table(('quantity', 'value', 'source'), rows)}" if rows else ""


def _sources(document: Document) -> str:
    listed = sources_list(document["sources"])
    return f"<h3>Who says so</h3>{listed}" if listed else ""
