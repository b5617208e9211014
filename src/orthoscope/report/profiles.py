"""Depth profiles: five small charts with the layers along x and the first sick layer marked."""

import math
from collections.abc import Sequence

from orthoscope.report.charts import BOTTOM, LEFT, RIGHT, TOP, Line, Marker, chart
from orthoscope.report.reading import (
    Document,
    LayerRow,
    Number,
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


def profiles(document: Document) -> list[str]:
    """Gap, effective rank, overlap, scale and gradient along the network, each as one figure."""
    layers, marker = document["layers"], _marker(document)
    across = _across(len(layers))
    overlaps = [metric(layer, "overlap") for layer in layers]
    rms = [layer["rms"] for layer in layers]
    gradients = [layer["gradient_norm"] for layer in layers]
    fit = _fitted_gradient(document)
    return [
        chart(
            "Orthogonality gap",
            across,
            _up(0, 1),
            _lines(layers, [metric(layer, "gap") for layer in layers]),
            marker,
        ),
        chart("Effective rank, share of the possible", across, _up(0, 1), _rank_lines(layers), marker),
        chart(
            "Mean overlap (cosine of pairs)",
            across,
            _up(_lowest(overlaps), 1),
            _lines(layers, overlaps),
            marker,
        ),
        chart(
            "RMS of the output (log scale)",
            across,
            _up(*whole_decades(rms), True),
            _lines(layers, rms),
            marker,
        ),
        chart(
            "Gradient norm (log scale)",
            across,
            _up(*whole_decades([*gradients, *fit.y]), True),
            [*_lines(layers, gradients), *([fit] if fit.x else [])],
            marker,
        ),
    ]


def _across(count: int) -> Scale:
    """Layers are counted from 1; a network of one layer still has an axis."""
    return Scale(1, max(2, count), LEFT, RIGHT)


def _up(low: Number, high: Number, logarithmic: bool = False) -> Scale:
    return Scale(low, high, BOTTOM, TOP, logarithmic)


def _lowest(overlaps: Values) -> Number:
    """Zero, or the half below the most negative cosine."""
    lowest = min((value for value in overlaps if value is not None), default=0.0)
    return min(0.0, math.floor(2 * lowest) / 2)


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
