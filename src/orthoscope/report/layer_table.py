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

from orthoscope.findings import Status
from orthoscope.report.document import DiagnosisDocument, Layer, Quantity, quantities
from orthoscope.report.names import layer_name, span_of, wrapped
from orthoscope.report.wording import begins, printable, shape, shortened, written

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


_WIDE = 104  # columns from which the kind and shape of a layer fit too
_NAME, _LONGEST_NAME, _LONGEST_KIND, _LONGEST_STATUS = 32, 44, 26, 15


@dataclass(frozen=True)
class LayerTable:
    """Renders itself at the width it is given: numbers are left out before names are broken, and names are never cut.

    The numbers are the quantities of a layer that have a heading, in the order of the table of quantities.
    """

    document: DiagnosisDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        layers, begin, first = self.document.layers, self.document.marks, self.document.first_sick
        rows = folded(layers, begin)
        shown = [row for row in rows if isinstance(row, int)]
        names = {row: layer_name(layers[row]) for row in shown}
        statuses = {row: _status(layers[row], begin.get(row, [])) for row in shown}
        folds = [_fold_words(layers, row) for row in rows if isinstance(row, Fold)]
        wanted = max(*(len(name) + 2 for name in names.values()), *map(len, folds), 0, 0)
        columns, width = _fitting(layers, shown, options.max_width, wanted, [*statuses.values()])
        table = _empty_table(columns, width, options.max_width >= _WIDE)
        for row in rows:
            if isinstance(row, Fold):
                table.add_row(Text(wrapped(_fold_words(layers, row), width), "dim"))
                continue
            arrow = "→ " if row == first else "  "
            cells = [column.cell(layers[row]) for column in columns]
            name = wrapped(arrow + names[row], width)
            table.add_row(Text(name), *map(Text, cells), Text(statuses[row]), style="bold" if row in begin else None)
        yield table


@dataclass(frozen=True)
class _Column:
    """A number of every layer, or, without a quantity, its kind and shape."""

    quantity: Quantity | None

    @property
    def heading(self) -> str:
        return "kind, shape" if self.quantity is None else self.quantity.short

    def cell(self, layer: Layer) -> str:
        if self.quantity is None:
            return shortened(f"{printable(layer.kind)} {shape(layer.shape)}", _LONGEST_KIND)
        return layer_number(self.quantity, layer)


def layer_number(quantity: Quantity, layer: Layer) -> str:
    """Return how a quantity of a layer reads in a narrow column: a rank as `12/64`."""
    if quantity.key == "isometry_gap" and layer.rank_deficient:
        return "∞"
    return written(quantity, layer.measured(quantity.key), layer.possible_rank)


def _fitting(
    layers: Sequence[Layer], shown: Sequence[int], room: int, wanted: int, statuses: Sequence[str]
) -> tuple[list[_Column], int]:
    """Return as many columns as leave room for the names, and that room; the main quantities always stay."""
    known = [_Column(quantity) for quantity in quantities("layer") if quantity.short]
    columns = [_Column(None), *known] if room >= _WIDE else known
    status = max(len("status"), *(min(len(text), _LONGEST_STATUS) for text in statuses), 0)
    gap = 2 if room >= _WIDE else 1  # between two columns
    widths = {column: max(len(column.heading), *(len(column.cell(layers[row])) for row in shown)) for column in columns}
    while True:
        left = room - status - sum(widths[column] for column in columns) - gap * (len(columns) + 1)
        spare = [column for column in columns if column.quantity is not None and not column.quantity.is_main]
        if left >= min(wanted, _NAME) or not spare:
            return columns, min(max(left, 1), max(wanted, len("  layer")), _LONGEST_NAME if room < _WIDE else room)
        columns.remove(spare[-1])


def _empty_table(columns: Sequence[_Column], name_width: int, wide: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if wide else 0, 0, 0))
    table.add_column("  layer", width=name_width, overflow="fold")
    for column in columns:
        table.add_column(column.heading, justify="left" if column.quantity is None else "right", no_wrap=True)
    table.add_column("status", min_width=len("status"))
    return table


def _fold_words(layers: Sequence[Layer], fold: Fold) -> str:
    span = span_of([printable(layers[index].name) for index in range(fold.start, fold.stop)])
    return f"… {span}: {len(fold)} layers folded" if span else f"… {len(fold)} layers folded"


def _status(layer: Layer, symptoms: Sequence[str]) -> str:
    """Return what is worth saying of a layer: nothing of one that was measured."""
    if symptoms:
        return begins(symptoms)
    if layer.rank_deficient and layer.units >= layer.samples:  # fewer units than samples are no news
        return "rank-deficient"
    return "" if layer.status is Status.MEASURED else printable(layer.status)
