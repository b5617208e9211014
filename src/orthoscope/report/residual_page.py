"""Residual alignment on a page, alone or within a diagnosis: statements, 1/σ₁ and steps over depth, pairs, blocks."""

from collections.abc import Sequence

from orthoscope.report.charts import LEFT, RIGHT, Line, chart, upright
from orthoscope.report.lists import details_list, environment, facts
from orthoscope.report.reading import Document, Number
from orthoscope.report.residual_terminal import STATE_WORDS, block_cells
from orthoscope.report.scales import Scale
from orthoscope.report.shell import shell
from orthoscope.report.tables import safe, table
from orthoscope.report.wording import LONGEST_TITLE, fixed, shortened, significant

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
    return f"{banner}{_facts(document)}{_statements(document)}{_pictures(document)}{_blocks(document)}{_rest(document)}"


def _facts(document: Document) -> str:
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


def _rest(document: Document) -> str:
    parts = []
    if document["notes"]:
        parts.append(details_list("Notes", [safe(note) for note in document["notes"]], is_open=True))
    if document["left_out"]:
        items = [
            f"<code>{safe(row['name'] or '(model)')}</code>: {safe(row['reason'])}" for row in document["left_out"]
        ]
        parts.append(details_list("Additions that are no residual branch", items))
    return "".join(parts)
