"""Mean and interval over seeds along an axis: how raw rows become a line of a figure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from orthoscope.papers.drawing import Series
from orthoscope.papers.evidence import interval
from orthoscope.report.reading import Number

Interval = Callable[[Sequence[float]], tuple[float, float, float]]


def grouped(points: Iterable[tuple[Number, float]]) -> dict[Number, list[float]]:
    """The values at each place, places in ascending order."""
    values: dict[Number, list[float]] = defaultdict(list)
    for place, value in points:
        values[place].append(value)
    return dict(sorted(values.items()))


def averaged(name: str, points: Iterable[tuple[Number, float]], band: bool = False, of: Interval = interval) -> Series:
    """A line through the mean at each place and its interval, two standard errors either way unless told."""
    values = grouped(points)
    middle, low, high = zip(*(of(each) for each in values.values()), strict=True)
    return Series(name, list(values), middle, low, high, band=band, marks=not band)
