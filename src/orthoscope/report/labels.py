"""Where the labels of a scatter plot go: beside their points, over nothing else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orthoscope.report.reading import Number

_LETTER = 6.8  # pixels a letter takes at the size of labels, about
_LINE = 14
_REACH = 14  # pixels from the middle of a point to its label


@dataclass(frozen=True)
class Box:
    left: Number
    top: Number
    right: Number
    bottom: Number

    def overlaps(self, other: "Box") -> bool:
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)

    def within(self, other: "Box") -> bool:
        inside = other.left <= self.left and self.right <= other.right
        return inside and other.top <= self.top and self.bottom <= other.bottom


@dataclass(frozen=True)
class Label:
    """`x`, `y`: the end of the baseline nearest the point."""

    x: Number
    y: Number
    anchor: str
    moved: bool  # too far from its point to be read without a leader


def place(
    points: Sequence[tuple[Number, Number]],
    texts: Sequence[str],
    frame: Box,
    obstacles: Sequence[tuple[Number, Number]] = (),
) -> list[Label]:
    """A label for every point, in the order given: the nearest free spot, or beside the point.

    `obstacles` are points without a label, to be left in sight too.
    """
    taken = [Box(x - 7, y - 7, x + 7, y + 7) for x, y in [*points, *obstacles]]
    labels = []
    for (x, y), text in zip(points, texts, strict=True):
        spots = [(label, _box(label, text)) for label in _spots(x, y, frame)]
        free = ((label, box) for label, box in spots if box.within(frame) and not any(map(box.overlaps, taken)))
        label, box = next(free, spots[0])
        taken.append(box)
        labels.append(label)
    return labels


def _spots(x: Number, y: Number, frame: Box) -> Iterator[Label]:
    """Both sides of a point, the roomier first, then further and further below and above."""
    sides = [(_REACH, "start"), (-_REACH, "end")]
    if x > (frame.left + frame.right) / 2:
        sides.reverse()
    lines = round((frame.bottom - frame.top) / _LINE)
    for step in range(lines):
        for shift, anchor in sides:
            yield Label(x + shift, y + 4 + step * _LINE, anchor, step > 0)
            yield Label(x + shift, y + 4 - step * _LINE, anchor, step > 0)


def _box(label: Label, text: str) -> Box:
    width = _LETTER * len(text)
    left = label.x if label.anchor == "start" else label.x - width
    return Box(left, label.y - 11, left + width, label.y + 3)
