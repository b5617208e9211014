"""A table of numbers as coloured cells with a colour bar: phase diagrams."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orthoscope.papers.frames import BOTTOM, LEFT, LEGEND_TOP, RIGHT, TOP, axis_name, titles
from orthoscope.report.charts import words
from orthoscope.report.reading import Number
from orthoscope.report.scales import Scale, tick_label

# Viridis at five equal steps: even to the eye, to the colour-blind and in grey.
_STOPS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_UNDEFINED = "#d0d3d8"
_MOST_LABELS = 8
_BAR_CELLS, _BAR_HEIGHT = 40, 10


@dataclass(frozen=True)
class Heat:
    """`values[row][column]` as colours from `low` to `high`; None and what is not finite is grey.

    `columns` label the cells from left to right, `rows` from bottom to top, thinned where they would touch. Cells are
    of one size whatever their labels say. Beyond `low` and `high` a colour stays that of the end.
    """

    title: str
    measure: str
    along: str
    upward: str
    columns: Sequence[Number]
    rows: Sequence[Number]
    values: Sequence[Sequence[Number | None]]
    low: Number
    high: Number
    logarithmic: bool = False

    legend_lines = 2  # what the colour bar takes below the frame


def heat_map(heat: Heat) -> str:
    """The cells, their labels and the colour bar."""
    across = Scale(0, len(heat.columns), LEFT, RIGHT)
    up = Scale(0, len(heat.rows), BOTTOM, TOP)
    shade = Scale(heat.low, heat.high, 0.0, 1.0, heat.logarithmic)
    drawn = [titles(heat.title, f"{heat.measure}; upward: {heat.upward}"), axis_name(heat.along)]
    for row, line in enumerate(heat.values):
        for column, value in enumerate(line):
            drawn.append(_cell(across, up, row, column, colour(shade(value))))
    for column in _thinned(len(heat.columns)):
        place = (_pixel(across, column) + _pixel(across, column + 1)) / 2
        drawn.append(words(place, BOTTOM + 17, tick_label(heat.columns[column]), "quiet", "middle"))
    for row in _thinned(len(heat.rows)):
        place = (_pixel(up, row) + _pixel(up, row + 1)) / 2
        drawn.append(words(LEFT - 6, place + 4, tick_label(heat.rows[row]), "quiet", "end"))
    return "".join(drawn) + _colour_bar(heat)


def colour(share: Number | None) -> str:
    """Of a share from 0 to 1, between the two nearest stops."""
    if share is None or not math.isfinite(share):
        return _UNDEFINED
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    low, high = list(pairwise(_STOPS))[index]
    return "#" + "".join(f"{round(a + (b - a) * (place - index)):02x}" for a, b in zip(low, high, strict=True))


def _cell(across: Scale, up: Scale, row: int, column: int, fill: str) -> str:
    x, right = _pixel(across, column), _pixel(across, column + 1)
    bottom, top = _pixel(up, row), _pixel(up, row + 1)
    # A little over the border, or the page shines through between cells.
    size = f'width="{right - x + 0.3:.1f}" height="{bottom - top + 0.3:.1f}"'
    return f'<rect x="{x:.1f}" y="{top:.1f}" {size} fill="{fill}"/>'


def _colour_bar(heat: Heat) -> str:
    width, y = (RIGHT - LEFT) / _BAR_CELLS, LEGEND_TOP - 8
    drawn = [
        f'<rect x="{LEFT + index * width:.1f}" y="{y}" width="{width + 0.3:.1f}" height="{_BAR_HEIGHT}" '
        f'fill="{colour(index / (_BAR_CELLS - 1))}"/>'
        for index in range(_BAR_CELLS)
    ]
    scale = Scale(heat.low, heat.high, LEFT, RIGHT, heat.logarithmic)
    for tick in scale.ticks():
        drawn.append(words(_pixel(scale, tick), y + 2 * _BAR_HEIGHT + 3, tick_label(tick), "quiet", "middle"))
    return "".join(drawn)


def _thinned(count: int) -> range:
    return range(0, count, math.ceil(count / _MOST_LABELS))


def _pixel(scale: Scale, value: Number) -> Number:
    pixel = scale(value)
    assert pixel is not None
    return pixel
