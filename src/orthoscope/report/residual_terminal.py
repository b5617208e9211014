"""Residual alignment in a terminal: the answer first, then the four statements, then every block."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from orthoscope.report.document import AlignmentStatement, Block, ResidualDocument
from orthoscope.report.folding import wrapped
from orthoscope.report.layout import labeled, some_names, table
from orthoscope.report.wording import UNDEFINED, fixed, number, printable, significant

STATE_WORDS = {True: "holds", False: "fails", None: "undefined"}
_COLORS = {"ALIGNED": "bold green", "PARTLY ALIGNED": "bold yellow", "NOT ALIGNED": "bold red", "UNKNOWN": "bold"}
_NAME_WIDTH = 32
_WIDE = 100  # columns from which a table has room for shapes and energies
_MOST_BLOCKS = 40


def residual_terminal(document: ResidualDocument) -> RenderableType:
    """Readable without color and at 80 columns."""
    verdict = Text(document.verdict, _COLORS[document.verdict])
    return Group(
        labeled("VERDICT", Text.assemble(verdict, "  ", printable(document.summary))),
        _facts(document),
        *(labeled(row.key, statement_words(row)) for row in document.statements),
        Padding(_Blocks(document), (1, 0)),
        *_rest(document),
    )


def statement_words(row: AlignmentStatement) -> str:
    """`holds  one direction: cosine of adjacent steps 0.61 (at least 0.3)`."""
    bound = "at least" if row.above else "at most"
    value = "not measured" if row.value is None else fixed(row.value, 3)
    return f"{STATE_WORDS[row.holds]:9}  {row.statement}: {row.quantity} {value} ({bound} {row.limit:g})"


def _facts(document: ResidualDocument) -> RenderableType:
    whole = document.whole
    facts = [
        document.name,
        f"{len(document.blocks)} residual branches",
        f"{document.samples} sample{'s' if document.samples > 1 else ''}",
    ]
    if document.law.slope is not None:
        line = f"{significant(document.law.intercept)} + {significant(document.law.slope)} · depth"
        facts.append(f"fitted line 1/σ₁ = {line} (R² {fixed(document.law.r_squared)})")
    if document.line_shape is not None:
        facts.append(f"length of the path over its end-to-end distance {fixed(document.line_shape)}")
    if whole is not None:
        facts.append(f"log σ of the whole network {significant(whole.mean_log)} ± {significant(whole.spread_log)}")
    return labeled("network", " · ".join([*facts, f"{document.seconds:.1f} s"]))


@dataclass(frozen=True)
class _Blocks:
    document: ResidualDocument

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.max_width >= _WIDE
        ratio = f"σ{self.document.classes + 1}/σ₁"
        headings = ("block", "σ₁", "1/σ₁", ratio, "misaligned", "step", *(("energy", "size") if wide else ()), "skip")
        made = table(*headings, words=("block", "skip"))
        made.columns[0].min_width, made.columns[-1].no_wrap = 12, True
        blocks = self.document.blocks
        for block in blocks[:_MOST_BLOCKS]:
            made.add_row(*map(Text, block_cells(block, wide)))
        yield made
        if len(blocks) > _MOST_BLOCKS:
            yield Text(f"… and {len(blocks) - _MOST_BLOCKS} more; --json has them all", "dim")


def block_cells(block: Block, wide: bool) -> list[str]:
    """The row of a block, as text."""
    leading = block.singular_values[0]
    size = str(block.inputs) if block.inputs == block.outputs else f"{block.inputs}→{block.outputs}"
    skip = block.skip + (f", then {block.activation}" if block.activation else "")
    return [
        wrapped(printable(block.name), _NAME_WIDTH),
        number(leading, 3),
        UNDEFINED if not leading else number(1 / leading, 2),
        fixed(block.rank_ratio, 3),
        fixed(block.misalignment, 2),
        number(block.step),
        *([fixed(block.top_energy), size] if wide else []),
        "zero branch" if block.dead else skip,
    ]


def _rest(document: ResidualDocument) -> Iterator[RenderableType]:
    left_out = document.left_out
    if left_out:
        names = some_names(row.name for row in left_out)
        yield labeled("left out", f"additions that are no residual branch, in {names}")
        yield labeled("", f"the first: {left_out[0].reason}", "dim")
    for note in document.notes:
        yield labeled("note", note)
