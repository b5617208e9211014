"""Residual alignment in a terminal: the answer first, then the four statements, then every block.

Residual alignment on a page, alone or within a diagnosis: statements, 1/σ₁ and steps over depth, pairs, blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.charts import LEFT, RIGHT, Line, Scale, chart, upright
from orthoscope.report.html import details_list, environment, facts, safe, shell, table
from orthoscope.report.reading import Document, Number
from orthoscope.report.wording import (
    LONGEST_TITLE,
    UNDEFINED,
    fixed,
    labeled,
    number,
    printable,
    shortened,
    significant,
)

STATE_WORDS = {True: "holds", False: "fails", None: "not known"}
_COLORS = {"ALIGNED": "bold green", "PARTLY ALIGNED": "bold yellow", "NOT ALIGNED": "bold red", "UNKNOWN": "bold"}
_LONGEST_NAME = 40
_NAMES_SHOWN = 4
_WIDE = 100  # columns from which a table has room for shapes and energies
_MOST_BLOCKS = 40


def residual_terminal(document: Document) -> RenderableType:
    """Readable without color and at 80 columns."""
    verdict = Text(document["verdict"], _COLORS[document["verdict"]])
    return Group(
        labeled("VERDICT", Text.assemble(verdict, "  ", printable(document["summary"]))),
        _facts(document),
        *(labeled(row["key"], Text(statement_words(row))) for row in document["statements"]),
        Padding(_Blocks(document), (1, 0)),
        *_rest(document),
    )


def statement_words(row: Mapping[str, Any]) -> str:
    """`holds  one direction: cosine of adjacent steps 0.61 (at least 0.3)`."""
    bound = "at least" if row["above"] else "at most"
    value = fixed(row["value"], 3)
    return f"{STATE_WORDS[row['holds']]:9}  {row['statement']}: {row['quantity']} {value} ({bound} {row['limit']:g})"


def _facts(document: Document) -> RenderableType:
    whole = document["whole"]
    facts = [
        printable(document["name"]),
        f"{len(document['blocks'])} residual branches",
        f"{document['samples']} sample{'s' if document['samples'] > 1 else ''}",
        f"1/σ₁ = {significant(document['law']['intercept'])} + {significant(document['law']['slope'])} · depth"
        f" (R² {fixed(document['law']['r_squared'])})",
        f"line shape {fixed(document['line_shape'])}",
    ]
    if whole is not None:
        facts.append(f"whole network log σ {significant(whole['mean_log'])} ± {significant(whole['spread_log'])}")
    return labeled("network", Text(" · ".join([*facts, f"{document['seconds']:.1f} s"])))


@dataclass(frozen=True)
class _Blocks:
    document: Document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        wide = options.max_width >= _WIDE
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("block", overflow="fold", min_width=12)
        classes = self.document["classes"]
        headings = ["σ₁", "1/σ₁", f"σ{classes + 1}/σ₁", "misaligned", "step"]
        for heading in headings + (["energy", "size"] if wide else []):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("skip", no_wrap=True)
        blocks = self.document["blocks"]
        for block in blocks[:_MOST_BLOCKS]:
            table.add_row(*block_cells(block, wide))
        yield table
        if len(blocks) > _MOST_BLOCKS:
            yield Text(f"… and {len(blocks) - _MOST_BLOCKS} more; --json has them all", "dim")


def block_cells(block: Mapping[str, Any], wide: bool) -> list[str]:
    """The row of a block, as text."""
    leading = block["singular_values"][0]
    size = str(block["inputs"]) if block["inputs"] == block["outputs"] else f"{block['inputs']}→{block['outputs']}"
    skip = block["skip"] + (f", then {block['activation']}" if block["activation"] else "")
    return [
        shortened(printable(block["name"]), _LONGEST_NAME),
        number(leading, 3),
        UNDEFINED if not leading else number(1 / leading, 2),
        fixed(block["rank_ratio"], 3),
        fixed(block["misalignment"], 2),
        number(block["step"]),
        *([fixed(block["top_energy"]), size] if wide else []),
        "dead" if block["dead"] else skip,
    ]


def _rest(document: Document) -> list[RenderableType]:
    parts: list[RenderableType] = []
    left_out = document["left_out"]
    if left_out:
        names = ", ".join(printable(row["name"]) or "(model)" for row in left_out[:_NAMES_SHOWN])
        more = ", …" if len(left_out) > _NAMES_SHOWN else ""
        parts.append(labeled("left out", Text(f"additions that are no residual branch, in {names}{more}")))
        parts.append(labeled("", Text(printable(f"the first: {left_out[0]['reason']}"), "dim")))
    return parts + [labeled("note", Text(printable(note))) for note in document["notes"]]


_LOOKS = {"ALIGNED": "healthy", "PARTLY ALIGNED": "at-risk", "NOT ALIGNED": "sick", "UNKNOWN": "at-risk"}
_ALONG = "residual branch, from input to output"
_SIDE = 300  # pixels of the grid of pairs
_HOW_TO_READ = """<div class="reading"><h4>How to read</h4>
<p>A residual branch adds a step to the representation; its Jacobian says how the step depends on where it starts.
In networks that were trained long enough, steps of one input point the same way (RA1), Jacobians of different
blocks share their singular vectors (RA2), have no more of them than there are classes (RA3), and shrink as one over
depth (RA4): Li &amp; Papyan, 2023.</p>
<p>The grid compares block i (up) with the singular vectors of block j (across): dark is aligned,
pale is unrelated, crossed out cannot be compared.</p></div>"""


def residual_page(document: Document) -> str:
    """One self-contained page."""
    title = safe(shortened(document["name"], LONGEST_TITLE)) or "a network without a name"
    content = f'<section class="network">{residual_section(document)}{environment(document)}</section>\n'
    return shell("Orthoscope residual alignment", title, content)


def residual_section(document: Document) -> str:
    """Everything but the environment."""
    banner = (
        f'<div class="banner {_LOOKS[document["verdict"]]}"><span class="verdict">{safe(document["verdict"])}</span>'
        f"<div><p>{safe(document['summary'])}</p></div></div>"
    )
    sections = (_page_facts, _statements, _pictures, _blocks, _page_rest)
    return banner + "".join(section(document) for section in sections)


def _page_facts(document: Document) -> str:
    law, whole = document["law"], document["whole"]
    entries = [
        ("residual branches", str(len(document["blocks"]))),
        ("samples", str(document["samples"])),
        ("line shape", fixed(document["line_shape"])),
        ("spacing variation", fixed(document["spacing_variation"])),
        ("slope of 1/σ₁ (R²)", f"{significant(law['slope'])} ({fixed(law['r_squared'])})"),
    ]
    if whole is not None:
        entries.append(
            ("whole network, log σ", f"{significant(whole['mean_log'])} ± {significant(whole['spread_log'])}")
        )
    return facts([*entries, ("seconds", f"{document['seconds']:.1f}")])


def _statements(document: Document) -> str:
    rows = [
        f'<tr><td class="state">{row["key"]} {STATE_WORDS[row["holds"]]}</td><td>{safe(row["statement"])}'
        f'<small>{safe(row["quantity"])}</small></td><td class="n">{significant(row["value"])}</td>'
        f'<td class="n">{"≥" if row["above"] else "≤"} {row["limit"]:g}</td></tr>'
        for row in document["statements"]
    ]
    return f"<h3>Statements</h3>{table(('state', 'statement', 'measured', 'limit'), rows)}"


def _pictures(document: Document) -> str:
    blocks = document["blocks"]
    depths = list(range(1, len(blocks) + 1))
    across = Scale(1, max(2, len(blocks)), LEFT, RIGHT)
    leading = [block["singular_values"][0] for block in blocks]
    inverse = [1 / value if value and not block["dead"] else None for value, block in zip(leading, blocks, strict=True)]
    figures = [
        ("1/σ₁, one over the largest singular value", inverse),
        (f"σ{document['classes'] + 1}/σ₁, what is beyond the classes", [block["rank_ratio"] for block in blocks]),
        ("Length of the step", [block["step"] for block in blocks]),
    ]
    drawn = [
        chart(
            title, across, upright(0, max(_most(values), 1e-300)), [Line(depths, values, "line-strong")], None, _ALONG
        )
        for title, values in figures
    ]
    return f'<h3>Along depth</h3><div class="profiles">{"".join(drawn)}{_pairs(document["pairs"])}{_HOW_TO_READ}</div>'


def _most(values: Sequence[Number | None]) -> Number:
    return max((value for value in values if value), default=1)


def _pairs(pairs: Sequence[Sequence[Number | None]]) -> str:
    """Misalignment of block i (from the bottom) with the vectors of block j: 0 is dark, 1 and beyond is empty."""
    side = _SIDE / len(pairs)
    cells = []
    for i, row in enumerate(pairs):
        for j, value in enumerate(row):
            x, y = j * side, (len(pairs) - 1 - i) * side
            if value is None:
                cells.append(f'<path d="M{x:.1f},{y:.1f} l{side:.1f},{side:.1f}" class="grid"/>')
            else:
                shade = max(0.0, 1 - value)
                size = f'width="{side:.1f}" height="{side:.1f}"'
                cells.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="currentColor" fill-opacity="{shade:.2f}"/>')
    frame = f'<rect width="{_SIDE}" height="{_SIDE}" fill="none" class="axis"/>'
    return (
        '<figure class="chart"><figcaption>Misalignment of pairs of blocks</figcaption>'
        f'<svg viewBox="-2 -2 {_SIDE + 4} {_SIDE + 4}" role="img" aria-label="Misalignment of pairs of blocks">'
        f"{''.join(cells)}{frame}</svg></figure>"
    )


def _blocks(document: Document) -> str:
    rows = [
        "<tr>" + "".join(f"<td>{safe(cell)}</td>" for cell in block_cells(block, wide=True)) + "</tr>"
        for block in document["blocks"]
    ]
    heads = ("block", "σ₁", "1/σ₁", f"σ{document['classes'] + 1}/σ₁", "misaligned", "step", "energy", "size", "skip")
    return f"<details open><summary>Blocks</summary>{table(heads, rows)}</details>"


def _page_rest(document: Document) -> str:
    parts = []
    if document["notes"]:
        parts.append(details_list("Notes", [safe(note) for note in document["notes"]], is_open=True))
    if document["left_out"]:
        items = [
            f"<code>{safe(row['name'] or '(model)')}</code>: {safe(row['reason'])}" for row in document["left_out"]
        ]
        parts.append(details_list("Additions that are no residual branch", items))
    return "".join(parts)
