"""A prediction as six small charts with depth along x, and a mark where it stops being healthy."""

import math
from collections.abc import Sequence

from orthoscope.report.charts import LEFT, RIGHT, Band, Line, Marker, chart, upright
from orthoscope.report.prediction_reading import most_directions, turning_point
from orthoscope.report.reading import Document, Number, share
from orthoscope.report.scales import Scale, whole_decades

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
