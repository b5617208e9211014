"""Depth profiles of two diagnoses in the same frames: before dashed, after solid."""

import math
from collections.abc import Callable, Sequence

from orthoscope.report.charts import LEFT, RIGHT, Line, chart, upright
from orthoscope.report.reading import Document, LayerRow, Number, metric, possible_rank, share
from orthoscope.report.scales import Scale, whole_decades

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
