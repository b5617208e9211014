"""A thousand layers on one screen: blocks that repeat are shown once, runs of alike names in one word; none is cut."""

import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from orthoscope.report.document import Layer
from orthoscope.report.wording import printable

_LONGEST_BLOCK = 64  # modules; a transformer or residual block has 10 to 40


@dataclass(frozen=True)
class Fold:
    """Rows `start` to `stop` - 1 that are left out."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


Row = int | Fold  # the index of a layer that is shown, or a run that is not


def folded(layers: Sequence[Layer], keep: Collection[int] = (), most: int = 30) -> list[Row]:
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


def _keys(layers: Sequence[Layer], keep: Collection[int]) -> list[Hashable]:
    """What makes layers alike: the pattern of their name, their state, the kept layers they lie between."""
    keys: list[Hashable] = []
    section = 0
    for index, layer in enumerate(layers):
        section += index in keep
        keys.append((section, index in keep, re.sub(r"\d+", "#", layer.name), layer.status))
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


def layer_name(layer: Layer) -> str:
    """Return the name, with the number of the call when the module had been called before."""
    name = printable(layer.name) or "(model)"
    return f"{name} (call {layer.call + 1})" if layer.call else name


def folded_names(names: Iterable[str]) -> list[str]:
    """Return runs of names that differ in numbers as one: `layers.[0–31].attn.q_proj`; the others as they are.

    Names are in the order in which they first come. A range is written only if every name in it is there.
    """
    runs: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for name in names:
        runs.setdefault(tuple(re.split("[0-9]+", name)), []).append(tuple(re.findall("[0-9]+", name)))
    return [text for parts, numbers in runs.items() for text in _run(parts, numbers)]


def _run(parts: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    columns = [sorted({int(number) for number in column}) for column in zip(*rows, strict=True)]
    together = [_span(column) for column in columns]
    is_whole = prod(map(len, columns)) == len(rows) and all(b == a + 1 for one in columns for a, b in pairwise(one))
    chosen = [together] if is_whole and len(rows) > 1 else rows
    return ["".join(part + number for part, number in zip(parts, [*row, ""], strict=True)) for row in chosen]


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"[{values[0]}–{values[-1]}]"


def span_of(names: Sequence[str]) -> str:
    """Return the part that all names share, with the range of the first number in which they differ; or nothing."""
    split = [name.split(".") for name in names]
    shared: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) == 1:
            shared.append(parts[0])
            continue
        numbers = sorted({int(part) for part in parts if part.isdecimal()})
        if numbers and all(part.isdecimal() for part in parts):
            shared.append(_span(numbers))
        break
    return ".".join(shared)


def wrapped(name: str, width: int) -> str:
    """Return the name over as many lines as it takes, broken after a dot, slash or underscore where there is one."""
    lines: list[str] = []
    rest = name
    while len(rest) > width:
        room = rest[:width]
        place = max(room.rfind(sign) for sign in "./_ ,") + 1
        place = place if place > width // 3 else width
        lines.append(rest[:place])
        rest = "  " + rest[place:]
    return "\n".join([*lines, rest])


def without_shared_start(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what all names begin with, up to a dot, and their rests; nothing is shared by a single name."""
    split = [name.split(".") for name in names]
    count = 0
    while len(names) > 1 and all(len(parts) > count + 1 for parts in split):
        if len({parts[count] for parts in split}) > 1:
            break
        count += 1
    start = ".".join(split[0][:count]) + "." if count else ""
    return start, [name[len(start) :] for name in names]
