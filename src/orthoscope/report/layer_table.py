"""The table of layers in a terminal, folded to a screen, as wide as the console allows."""

from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from orthoscope.report.folding import Fold, folded
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
)

_WIDE = 104  # columns from which the kind and shape of a layer fit too
_NUMBERS = 65  # columns that the numbers and the status take with a gap of one; a wide table has gaps of two
_KIND = 26


@dataclass(frozen=True)
class LayerTable:
    """Renders itself at the width it is given; below 104 columns without kind and shape."""

    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= _WIDE
        # The name gets what is left: at least 12, or nothing can be recognised.
        name_width = min(44, max(12, options.max_width - _NUMBERS - _KIND * wide))
        layers, begin = self.document["layers"], marks(self.document)
        table = _empty_table(wide, name_width)
        for row in folded(layers, begin):
            if isinstance(row, Fold):
                table.add_row(Text(f"… ({len(row)} folded)", "dim"))
                continue
            arrow = "→ " if row == first_sick(self.document) else "  "
            name = arrow + _end_of(layer_name(layers[row]), name_width - 2)
            cells = [name, *([_kind(layers[row])] if wide else []), *_numbers(layers[row])]
            status = begins(begin[row]) if row in begin else printable(layers[row]["status"])
            table.add_row(
                *(Text(cell) for cell in cells), Text(status), style="bold" if row in begin else None
            )
        yield table


def _empty_table(wide: bool, name_width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if wide else 0, 0, 0))
    table.add_column("  layer", width=name_width, no_wrap=True)
    if wide:
        table.add_column("kind, shape", max_width=_KIND, no_wrap=True, overflow="ellipsis")
    for heading in ("rms", "cos", "rank", "c.rank", "gap", "isometry", "|grad|"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("status", min_width=8)
    return table


def _kind(layer: LayerRow) -> str:
    return f"{printable(layer['kind'])} {shape(layer['shape'])}"


def _numbers(layer: LayerRow) -> list[str]:
    effective = metric(layer, "effective_rank")
    return [
        number(layer["rms"]),
        fixed(metric(layer, "overlap")),
        UNDEFINED if effective is None else f"{rank(effective)}/{possible_rank(layer)}",
        rank(metric(layer, "centred_effective_rank")),
        fixed(metric(layer, "gap")),
        isometry_gap(layer),
        number(layer["gradient_norm"]),
    ]


def _end_of(name: str, cells: int) -> str:
    """The end of a name in so many cells; the end says more than the beginning."""
    if cell_len(name) <= cells:
        return name
    while name and cell_len(name) > cells - 1:
        name = name[1:]
    return "…" + name
