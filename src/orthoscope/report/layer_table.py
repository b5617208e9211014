"""A thousand layers on one screen: blocks that repeat are shown once.

The table of layers in a terminal, folded to a screen, as wide as the console allows.
"""

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from orthoscope.report.reading import Document, LayerRow, first_sick, marks, metric, possible_rank
from orthoscope.report.wording import (
    UNDEFINED,
    begins,
    fixed,
    isometry_gap,
    layer_name,
    number,
    printable,
    rank,
    shape,
    shortened,
)

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


_WIDE = 104  # columns from which the kind and shape of a layer fit too
_NUMBERS = ("rms", "cos", "rank", "gap", "isometry", "|grad|")
_SHORTEST_NAME, _LONGEST_NAME, _LONGEST_KIND, _LONGEST_STATUS = 15, 44, 26, 15


@dataclass(frozen=True)
class LayerTable:
    """Renders itself at the width it is given; below 104 columns without kind and shape."""

    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        wide = options.max_width >= _WIDE
        layers, begin = self.document["layers"], marks(self.document)
        rows = folded(layers, begin)
        headings = [*(["kind, shape"] if wide else []), *_NUMBERS, "status"]
        cells = {row: _cells(layers[row], begin.get(row, []), wide) for row in rows if isinstance(row, int)}
        name_width = _name_width(options.max_width, [headings, *cells.values()], gap=1 + wide)
        table = _empty_table(headings, name_width, wide)
        for row in rows:
            if isinstance(row, Fold):
                table.add_row(Text(f"… ({len(row)} folded)", "dim"))
                continue
            arrow = "→ " if row == first_sick(self.document) else "  "
            name = arrow + shortened(layer_name(layers[row]), name_width - 2)
            table.add_row(Text(name), *map(Text, cells[row]), style="bold" if row in begin else None)
        yield table


def _name_width(width: int, rows: Sequence[Sequence[str]], gap: int) -> int:
    """The name gets what the other columns leave."""
    widest = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    taken = sum(widest[:-1]) + min(widest[-1], _LONGEST_STATUS) + gap * len(widest)
    return min(_LONGEST_NAME, max(_SHORTEST_NAME, width - taken))


def _empty_table(headings: Sequence[str], name_width: int, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if wide else 0, 0, 0))
    table.add_column("  layer", width=name_width, no_wrap=True)
    for heading in headings[:-1]:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left", no_wrap=True)
    table.add_column(headings[-1], min_width=8)
    return table


def _cells(layer: LayerRow, symptoms: Sequence[str], wide: bool) -> list[str]:
    status = begins(symptoms) if symptoms else printable(layer["status"])
    return [*([_kind(layer)] if wide else []), *_numbers(layer), status]


def _kind(layer: LayerRow) -> str:
    return shortened(f"{printable(layer['kind'])} {shape(layer['shape'])}", _LONGEST_KIND)


def _numbers(layer: LayerRow) -> list[str]:
    effective = metric(layer, "effective_rank")
    return [
        number(layer["rms"]),
        fixed(metric(layer, "overlap")),
        UNDEFINED if effective is None else f"{rank(effective)}/{possible_rank(layer)}",
        fixed(metric(layer, "gap")),
        isometry_gap(layer),
        number(layer["gradient_norm"]),
    ]
