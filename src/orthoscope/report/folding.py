"""A thousand layers on one screen: blocks that repeat are shown once."""

import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from orthoscope.report.reading import LayerRow

_LONGEST_BLOCK = 64  # modules; a transformer or residual block has 10 to 40


@dataclass(frozen=True)
class Fold:
    """Rows `start` to `stop` - 1 that are left out."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Row = int | Fold  # the index of a layer that is shown, or a run that is not


def folded(layers: Sequence[LayerRow], keep: Collection[int] = (), most: int = 30) -> list[Row]:
    """The rows to show: every run of equal blocks as its first block, a fold, and its last layer.

    Layers in `keep` are always shown and no run goes across them. When more than `most` rows are
    left, the middle is folded whatever it holds.
    """
    keys = _keys(layers, keep)
    rows: list[Row] = []
    start = 0
    while start < len(keys):
        block, stop = _repetition(keys, start)
        if stop - start >= block + 3:  # a fold of one row would save none
            rows += [*range(start, start + block), Fold(start + block, stop - 1), stop - 1]
        else:
            stop = start + block
            rows += range(start, stop)
        start = stop
    return rows if len(rows) <= most else _without_middle(rows, set(keep), most)


def _keys(layers: Sequence[LayerRow], keep: Collection[int]) -> list[Hashable]:
    """What makes layers alike: the pattern of their name, their state, the kept layers they lie between."""
    keys: list[Hashable] = []
    section = 0
    for index, layer in enumerate(layers):
        section += index in keep
        keys.append((section, index in keep, re.sub(r"\d+", "#", layer["name"]), layer["status"]))
    return keys


def _repetition(keys: Sequence[Hashable], start: int) -> tuple[int, int]:
    """Length of the block that repeats furthest from `start`, and where its last repetition ends."""
    best = (1, start + 1)
    for block in range(1, min(_LONGEST_BLOCK, (len(keys) - start) // 2) + 1):
        matching = start
        while matching + block < len(keys) and keys[matching] == keys[matching + block]:
            matching += 1
        repetitions = (matching - start) // block + 1
        stop = start + repetitions * block
        if repetitions > 1 and stop > best[1]:
            best = (block, stop)
    return best


def _without_middle(rows: list[Row], keep: set[int], most: int) -> list[Row]:
    room = max(2, most - 2 * len(keep) - 1)
    head, tail = (room + 1) // 2, room // 2
    shown: list[Row] = []
    for place, row in enumerate(rows):
        visible = place < head or place >= len(rows) - tail or (isinstance(row, int) and row in keep)
        if visible and isinstance(row, int):
            shown.append(row)
            continue
        start, stop = (row.start, row.stop) if isinstance(row, Fold) else (row, row + 1)
        if shown and isinstance(shown[-1], Fold):
            shown[-1] = Fold(shown[-1].start, stop)
        else:
            shown.append(Fold(start, stop))
    return shown
