"""Lines of figures: means over seeds with their intervals, predictions without, and the range that shows them all."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from orthoscope.papers.drawing import Series
from orthoscope.papers.evidence import interval
from orthoscope.report.reading import Number

Place = TypeVar("Place", int, float)


def seed_series(name: str, points: Mapping[Place, Sequence[float]]) -> Series:
    """The mean over seeds at every abscissa, with 2 standard errors."""
    places = sorted(points)
    ends = [interval(points[place]) for place in places]
    return Series(name, places, *([end[k] for end in ends] for k in range(3)))


def predicted_series(name: str, places: Sequence[Number], values: Sequence[Number]) -> Series:
    """A prediction, which has no interval."""
    return Series(name, places, values, values, values)


def span(series: Sequence[Series], margin: float = 0.05) -> tuple[float, float]:
    """From the lowest to the highest end of an interval, and a little more on both sides."""
    low = min(float(value) for line in series for value in line.low)
    high = max(float(value) for line in series for value in line.high)
    room = margin * (high - low) or 1.0
    return low - room, high + room
