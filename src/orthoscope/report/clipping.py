"""Lines with gaps, and lines that leave their frame."""

from collections.abc import Sequence
from itertools import pairwise

from orthoscope.report.reading import Number

Point = tuple[Number, Number]
_SLACK = 1.0  # pixels: a value on the border may be rounded beyond it


def segments(points: Sequence[tuple[Number | None, Number | None]]) -> list[list[Point]]:
    """Runs of defined points: an undefined one leaves a gap."""
    runs: list[list[Point]] = [[]]
    for x, y in points:
        if x is not None and y is not None:
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def clipped(runs: Sequence[Sequence[Point]], top: Number, bottom: Number) -> list[list[Point]]:
    """The parts of lines between two heights; where a line leaves, it ends on the border."""
    pieces: list[list[Point]] = []
    for run in runs:
        if all(top - _SLACK <= y <= bottom + _SLACK for _, y in run):
            pieces.append(list(run))
            continue
        parts = [part for pair in pairwise(run) if (part := _inside(*pair, top, bottom)) is not None]
        for start, end in parts:
            if pieces and pieces[-1][-1] is start:
                pieces[-1].append(end)
            else:
                pieces.append([start, end])
    return pieces


def _inside(start: Point, end: Point, top: Number, bottom: Number) -> tuple[Point, Point] | None:
    """The stretch of one segment between two heights, its ends kept as they are where they lie inside."""
    (x, y), (rise, run) = start, (end[1] - start[1], end[0] - start[0])
    if rise == 0:
        return (start, end) if top <= y <= bottom else None
    crossings = sorted(((top - y) / rise, (bottom - y) / rise))
    enter, leave = max(0.0, crossings[0]), min(1.0, crossings[1])
    if enter >= leave:
        return None
    first = start if enter == 0 else (x + enter * run, y + enter * rise)
    last = end if leave == 1 else (x + leave * run, y + leave * rise)
    return first, last
