"""The page of a training that was watched: how it fares now, its scalars over steps, and the last look in full."""

from collections.abc import Sequence

from orthoscope.report.charts import LEFT, RIGHT, Line, chart, upright
from orthoscope.report.lists import environment, facts
from orthoscope.report.network import network
from orthoscope.report.reading import Document, Number
from orthoscope.report.scales import Scale
from orthoscope.report.shell import shell
from orthoscope.report.signs import look
from orthoscope.report.tables import safe, table, verdict_sign
from orthoscope.report.watch_text import scalar
from orthoscope.report.wording import LONGEST_TITLE, number, shortened, signed

_CHARTS = (
    ("Worst orthogonality gap", "worst_gap"),
    ("Least effective rank", "min_effective_rank"),
    ("Mean overlap (cosine of pairs)", "mean_overlap"),
    ("Log-gradient per layer, toward the input", "gradient_slope"),
)
_UPDATES_SHOWN = 60


def watch_page(document: Document) -> str:
    """One self-contained page."""
    title = safe(shortened(document["name"], LONGEST_TITLE)) or "a network without a name"
    content = f"{_banner(document)}{_facts(document)}{_charts(document)}{_updates(document)}{environment(document)}"
    sections = f'<section class="network">{content}</section>\n'
    latest = document["latest"]
    return shell("Orthoscope watch", title, sections + ("" if latest is None else network([latest], 0)))


def _banner(document: Document) -> str:
    history = document["history"]
    if not history:
        return "<p>Not looked at yet: no forward pass with gradients was made.</p>"
    last = history[-1]
    words = document["stopped"] or f"after {last['step']} steps: {last['summary']}"
    return f'<div class="banner {look(last)}"><div class="verdict">{verdict_sign(last)}</div><p>{safe(words)}</p></div>'


def _facts(document: Document) -> str:
    entries = [
        ("steps taken", str(document["steps"])),
        ("looked at every", f"{document['every']} steps"),
        ("looks", str(len(document["history"]))),
        ("looks that failed", str(len(document["problems"]))),
    ]
    return facts(entries)


def _charts(document: Document) -> str:
    history = document["history"]
    steps = [record["step"] for record in history]
    if len(steps) < 2:
        return ""
    across = Scale(steps[0], max(steps[-1], steps[0] + 1), LEFT, RIGHT)
    figures = []
    for title, name in _CHARTS:
        values = [scalar(record, name) for record in history]
        low, high = _ends(values, name)
        figures.append(chart(title, across, upright(low, high), [Line(steps, values, "measured")], None, "step"))
    return f'<h3>Over training</h3><div class="profiles">{"".join(figures)}</div>'


def _ends(values: Sequence[Number | None], name: str) -> tuple[Number, Number]:
    """From 0 to 1 for what lives there; else around the values, 0 included."""
    known = [value for value in values if value is not None]
    low, high = min([0, *known]), max([0, *known])
    if name in ("worst_gap", "mean_overlap"):
        return low, 1
    return (low, high * 1.1) if high - low > 1e-9 and low == 0 else (low - 1e-3, high + 1e-3)


def _updates(document: Document) -> str:
    latest = list({(row["optimizer"], row["weight"]): row for row in document["rows"]}.values())
    if not latest:
        return ""
    rows = [
        f'<tr><td class="num">{row["step"]}</td><td>{safe(row["weight"])}</td>'
        f'<td class="num">{number(row["relative_size"], 3)}</td><td class="num">{number(row["effective_rank"])}</td>'
        f'<td class="num">{signed(row["independence_change"], 4)}</td></tr>'
        for row in latest[:_UPDATES_SHOWN]
    ]
    more = f"<p class='quiet'>and {len(latest) - _UPDATES_SHOWN} more</p>" if len(latest) > _UPDATES_SHOWN else ""
    heads = ("step", "weight", "‖ΔW‖/‖W‖", "rank of ΔW", "ΔPII")
    return f"<h3>What the latest recorded step did</h3>{table(heads, rows)}{more}"
