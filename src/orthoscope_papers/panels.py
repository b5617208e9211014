"""What a figure shows, as plain data: `plot` of an experiment returns a list of these, `drawing` draws it.

    Panel(title, y_label, x_label, series, references)      lines, points and horizontal reference levels
    HeatMap(title, label, x_label, y_label, columns, rows, values, low, high)

Of a series:

    Series(name, x, y, low, high)                  a line, with an interval from low to high at every point
    Series(name, x, y)                             a line
    Series(name, x, y, marks=True)                 a line with a dot at every point
    Series(name, x, y, marks=True, line=False)     points alone: a scatter plot
    Series(name, x, y, theory=True)                black and dotted: a prediction beside measurements
    averaged(name, points)                         the mean over seeds at every x, with two standard errors

Text is literal, whatever signs it holds; that of a `Math` label between two `$` is mathematics. `nan`, infinities and,
on a logarithmic axis, values that are not positive leave a gap.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace

from orthoscope_papers.evidence import interval

Number = int | float
Interval = Callable[[Sequence[float]], tuple[float, float, float]]
Points = Mapping[Number, Sequence[Number]] | Mapping[int, Sequence[Number]] | Iterable[tuple[Number, Number]]
MAX_BARS = 30  # a line of more points has a band instead of bars, and no dots
_MARGIN = 0.05  # of an axis, beyond the values on both sides


class Math(str):
    """A label whose parts between two `$` are mathematics, in the notation of TeX."""

    __slots__ = ()


@dataclass(frozen=True)
class Series:
    """Values `y` along `x`, with an interval from `low` to `high` at every point where these are given."""

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    _: KW_ONLY
    marks: bool = False  # a dot at every point
    line: bool = True
    theory: bool = False


@dataclass(frozen=True)
class Panel:
    """One frame with a legend below it: `y_label`, above the frame, says what is shown and of how many runs.

    `references` are horizontal lines: a name, and where on y. Without `x_range` and `y_range` an axis holds all values.
    With `x_names` the values of x are 1, 2, ... and are labeled by these names; see `side_by_side`.
    """

    title: str
    y_label: str
    x_label: str
    series: Sequence[Series]
    references: Sequence[tuple[str, Number]] = ()
    _: KW_ONLY
    x_range: tuple[Number, Number] | None = None
    y_range: tuple[Number, Number] | None = None
    log_x: bool = False
    log_y: bool = False
    x_names: Sequence[str] = ()

    def x_limits(self) -> tuple[Number, Number]:
        """Return the ends of the x axis; lines reach its ends, dots and intervals keep a distance."""
        if self.x_names:
            return 0.5, len(self.x_names) + 0.5
        pointed = any(series.marks or (series.low and len(series.x) <= MAX_BARS) for series in self.series)
        found = [x for series in self.series for x in series.x]
        return self.x_range or around(found, _MARGIN / 2 if pointed else 0.0, self.log_x)

    def y_limits(self) -> tuple[Number, Number]:
        """Return the ends of the y axis."""
        found = [y for one in self.series for y in (*one.y, *one.high)] + [level for _, level in self.references]
        for one in self.series:
            # An interval that ends near zero has no place on a logarithmic axis.
            found += [low for low, y in zip(one.low, one.y, strict=False) if not self.log_y or low > y / 10]
        return self.y_range or around(found, _MARGIN, self.log_y)


@dataclass(frozen=True)
class HeatMap:
    """`values[row][column]` as colors from `low` to `high`; None and what is not finite is gray.

    `columns` label the cells from left to right, `rows` from bottom to top; cells are of one size whatever their
    labels say. Beyond `low` and `high` a color stays that of the end.
    """

    title: str
    label: str
    x_label: str
    y_label: str
    columns: Sequence[Number]
    rows: Sequence[Number]
    values: Sequence[Sequence[Number | None]]
    low: Number
    high: Number


def averaged(name: str, points: Points, of: Interval = interval) -> Series:
    """Return the mean of the values at each x, with the interval that `of` takes of them.

    Args:
        name: of the series, in the legend.
        points: values by x, or pairs of x and one value.
        of: the mean of values, and the low and high end of its interval.
    """
    values = dict(sorted(points.items())) if isinstance(points, Mapping) else grouped(points)
    middle, low, high = zip(*(of(each) for each in values.values()), strict=True)
    return Series(name, list(values), middle, low, high, marks=len(values) <= MAX_BARS)


def side_by_side(series: Sequence[Series]) -> list[Series]:
    """Return the series as points, moved apart a little where they share their x: for an axis of names."""
    shifts = [0.15 * (index - (len(series) - 1) / 2) for index in range(len(series))]
    return [
        replace(one, x=[x + shift for x in one.x], marks=True, line=False)
        for one, shift in zip(series, shifts, strict=True)
    ]


def grouped(points: Iterable[tuple[Number, Number]]) -> dict[Number, list[Number]]:
    """Return the values at each x, in ascending order of x."""
    values: dict[Number, list[Number]] = defaultdict(list)
    for place, value in points:
        values[place].append(value)
    return dict(sorted(values.items()))


def around(values: Iterable[Number], margin: Number = _MARGIN, logarithmic: bool = False) -> tuple[Number, Number]:
    """Return the least and the greatest value that an axis can show, with a margin (a share of the axis) beyond."""
    shown = [value for value in values if math.isfinite(value) and (value > 0 or not logarithmic)]
    if not shown:
        return (1.0, 10.0) if logarithmic else (0.0, 1.0)
    ends = [math.log10(end) if logarithmic else float(end) for end in (min(shown), max(shown))]
    room = margin * (ends[1] - ends[0]) or (0.0 if ends[0] < ends[1] else 0.5)
    low, high = ends[0] - room, ends[1] + room
    return (10**low, 10**high) if logarithmic else (low, high)
