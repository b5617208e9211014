"""Mean and interval over seeds along an axis: how raw rows become a line of a figure."""

from collections import defaultdict
from collections.abc import Iterable

from orthoscope.papers.drawing import Series
from orthoscope.papers.evidence import interval
from orthoscope.report.reading import Number


def grouped(points: Iterable[tuple[Number, float]]) -> dict[Number, list[float]]:
    """The values at each place, places in ascending order."""
    values: dict[Number, list[float]] = defaultdict(list)
    for place, value in points:
        values[place].append(value)
    return dict(sorted(values.items()))


def averaged(name: str, points: Iterable[tuple[Number, float]], band: bool = False) -> Series:
    """A line through the mean at each place, plus and minus two standard errors."""
    values = grouped(points)
    middle, low, high = zip(*(interval(each) for each in values.values()), strict=True)
    return Series(name, list(values), middle, low, high, band=band, marks=not band)
