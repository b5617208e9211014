"""Depth profiles: five small charts with the layers along x, the first sick one marked, and what theory expects."""

import math
from collections.abc import Sequence

from orthoscope.report.charts import BOTTOM, LEFT, RIGHT, TOP, Line, Marker, chart
from orthoscope.report.reading import (
    Document,
    LayerRow,
    Number,
    expected,
    first_sick,
    marks,
    metric,
    possible_centred_rank,
    possible_rank,
    share,
)
from orthoscope.report.scales import Scale, whole_decades
from orthoscope.report.wording import layer_name

Values = Sequence[Number | None]
_REACH = 1e3  # how far a prediction may widen a logarithmic axis on either side


def profiles(document: Document) -> list[str]:
    """Gap, effective rank, overlap, scale and gradient along the network, each as one figure."""
    layers, marker = document["layers"], _marker(document)
    across = Scale(1, max(2, len(layers)), LEFT, RIGHT)  # a network of one layer still has an axis
    gaps, overlaps = [metric(layer, "gap") for layer in layers], [metric(layer, "overlap") for layer in layers]
    rms, gradients = [layer["rms"] for layer in layers], [layer["gradient_norm"] for layer in layers]
    fit = _fitted_gradient(document)
    lowest = lowest_overlap([*overlaps, *_expected(layers, "overlap")])
    rms_ends = _log_ends(rms, _expected(layers, "rms"))
    gradient_ends = _log_ends([*gradients, *fit.y], _expected(layers, "gradient_norm"))
    figures = (
        ("Orthogonality gap", upright(0, 1), [*_lines(layers, gaps), *_theory(layers, "gap")]),
        ("Effective rank, share of the possible", upright(0, 1), _rank_lines(layers)),
        (
            "Mean overlap (cosine of pairs)",
            upright(lowest, 1),
            [*_lines(layers, overlaps), *_theory(layers, "overlap")],
        ),
        (
            "RMS of the output (log scale)",
            upright(*rms_ends, logarithmic=True),
            [*_lines(layers, rms), *_theory(layers, "rms")],
        ),
        (
            "Gradient norm (log scale)",
            upright(*gradient_ends, logarithmic=True),
            [*_lines(layers, gradients), *([fit] if fit.x else []), *_theory(layers, "gradient_norm")],
        ),
    )
    return [chart(title, across, up, lines, marker) for title, up, lines in figures]


def upright(low: Number, high: Number, logarithmic: bool = False) -> Scale:
    """The vertical axis of a chart."""
    return Scale(low, high, BOTTOM, TOP, logarithmic)


def lowest_overlap(overlaps: Values) -> Number:
    """Where the axis of a cosine begins: zero, or the half below the most negative one."""
    lowest = min((value for value in overlaps if value is not None), default=0.0)
    return math.floor(2 * min(0.0, max(-1.0, lowest))) / 2


def _expected(layers: Sequence[LayerRow], name: str) -> Values:
    """What theory has, rank as the share that is drawn."""
    if name == "effective_rank":
        return [share(expected(layer, name), possible_rank(layer)) for layer in layers]
    return [expected(layer, name) for layer in layers]


def _log_ends(measured: Values, predicted: Values) -> tuple[Number, Number]:
    """Decades around what was measured; a prediction widens them by a few at most, lest it flatten the rest."""
    if not any(measured):
        return whole_decades(predicted)
    low, high = whole_decades(measured)
    near = [min(max(value, low / _REACH), high * _REACH) for value in predicted if value and value > 0]
    return whole_decades([*measured, *near])


def _theory(layers: Sequence[LayerRow], name: str) -> list[Line]:
    """What theory expects: at the weight layers where it speaks of several, else wherever it speaks."""
    values = _expected(layers, name)
    spoken = [index for index, value in enumerate(values) if value is not None]
    weights = _weight_layers(layers)
    at = weights if len(set(weights) & set(spoken)) > 1 else spoken
    line = Line([index + 1 for index in at], [values[index] for index in at], "line-theory", "theory")
    return [line] if spoken else []


def _lines(layers: Sequence[LayerRow], values: Values) -> list[Line]:
    """Every call as a faint line, weight layers as a strong one: Linear and ReLU in turn draw a zigzag."""
    every = Line(range(1, len(layers) + 1), values, "line-faint", "every module")
    weights = _weight_layers(layers)
    if len(weights) < 2:
        return [Line(every.x, every.y, "line-strong", "every module")]
    strong = Line(
        [index + 1 for index in weights], [values[index] for index in weights], "line-strong", "weight layers"
    )
    return [every, strong]


def _weight_layers(layers: Sequence[LayerRow]) -> list[int]:
    return [index for index, layer in enumerate(layers) if layer["depth"] is not None]


def _rank_lines(layers: Sequence[LayerRow]) -> list[Line]:
    raw = [share(metric(layer, "effective_rank"), possible_rank(layer)) for layer in layers]
    centred = [share(metric(layer, "centred_effective_rank"), possible_centred_rank(layer)) for layer in layers]
    strong = _lines(layers, raw)[-1]
    around = _lines(layers, centred)[-1]
    return [
        Line(strong.x, strong.y, "line-strong", "raw"),
        Line(around.x, around.y, "line-second", "around the mean"),
        *_theory(layers, "effective_rank"),
    ]


def _fitted_gradient(document: Document) -> Line:
    """The line behind the slope: least squares passes through the mean, so slope and mean are enough."""
    slope = document["slope"]["value"]
    points = [
        (index + 1, math.log(document["layers"][index]["gradient_norm"]))
        for index in _weight_layers(document["layers"])
        if document["layers"][index]["gradient_norm"]
    ]
    if slope is None or len(points) != document["slope"]["layers"] or len(points) < 2:
        return Line([], [], "line-fit")
    middle = (len(points) - 1) / 2
    mean = sum(norm for _, norm in points) / len(points)
    # The slope counts toward the input, the points toward the output.
    fitted = [math.exp(min(690.0, mean - slope * (order - middle))) for order in range(len(points))]
    return Line([x for x, _ in points], fitted, "line-fit", "fit")


def _marker(document: Document) -> Marker | None:
    first = first_sick(document)
    if first is None:
        return None
    return Marker(first + 1, f"{marks(document)[first][0]} at", layer_name(document["layers"][first]))
