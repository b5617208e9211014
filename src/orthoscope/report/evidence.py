"""Experiments of the papers in a terminal: the list of all, and the printed numbers beside ours; imports no torch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.reading import Document, Number
from orthoscope.report.wording import UNDEFINED, printable

Row = Mapping[str, Any]
STATES = ("error", "fails", "holds")  # the order in which experiments are shown: failures first
_COLOURS = {
    "agrees": "green",
    "corrected": "cyan",
    "differs": "yellow",
    "measured": "dim",
    "holds": "green",
    "fails": "bold red",
}
_PLAINEST_DECIMALS = 6


def experiment_list(experiments: Sequence[Row], papers: Mapping[str, str], workers: int) -> RenderableType:
    """Every experiment with its claim and what it takes; `≤` where nobody measured it here."""
    longest = max(len(row["name"]) for row in experiments)
    parts: list[RenderableType] = [Text(_line("experiment", longest, "kind", "quick", "default", "full"), "bold")]
    for key in dict.fromkeys(row["paper"] for row in experiments):
        parts.append(Text.assemble("\n", (key, "bold"), f"  {papers[key]}"))
        for row in (row for row in experiments if row["paper"] == key):
            quick, default = span(*row["quick"]), span(*row["default"])
            parts.append(Text(_line(row["name"], longest, row["kind"], quick, default, "yes" if row["full"] else "")))
            parts.append(Padding(Text(row["claim"], "dim"), (0, 0, 0, 4)))
            parts += [Padding(Text(f"data: {needed}"), (0, 0, 0, 4)) for needed in _data(row)]
    totals = {setting: sum(row[setting][0] for row in experiments) / workers for setting in ("quick", "default")}
    spans = ", ".join(f"{setting} {span(seconds, True)}" for setting, seconds in totals.items())
    footer = f"\n{len(experiments)} experiments; all of them on {workers} cores, about: {spans}. "
    footer += "Full: the paper's own setting, where it is larger. orthoscope reproduce NAME… runs them. "
    footer += "Data is fetched by orthoscope data get NAME…; where none is named, and with --quick, none is needed."
    return Group(*parts, Text(footer))


def _data(row: Row) -> list[str]:
    """What must be fetched before it can run, if anything; the full setting apart where it needs other sets."""
    default, full = ", ".join(row["data"]), ", ".join(row["full_data"])
    return [f"{default or 'none'}, with --full {full}"] if full != default else [default] if default else []


def _line(name: str, longest: int, kind: str, quick: str, default: str, full: str) -> str:
    return f"{name:<{longest}}  {kind:<10}  {quick:>7}  {default:>8}  {full}".rstrip()


def evidence_tables(document: Document) -> RenderableType:
    """What was found, failures first: a row a comparison, then checks that fail and errors, and the count of all."""
    order = {state: place for place, state in enumerate(STATES)}
    experiments = sorted(document["experiments"], key=lambda one: order[one["state"]])
    parts: list[RenderableType] = []
    for one in experiments:
        parts += [_heading(one), *_failures(one)]
        if one["evidence"]:
            parts.append(_comparisons(one["evidence"]))
        parts.append(Text(""))
    return Group(*parts, Text(count_of(document), "bold"))


def count_of(document: Document) -> str:
    """One sentence with the number of experiments, checks and verdicts."""
    experiments = document["experiments"]
    checks = [check["holds"] for one in experiments for check in one["checks"]]
    rows = [row for one in experiments for row in one["evidence"]]
    evidence = [row for row in rows if row["verdict"] != "measured"]
    numbers = [row for row in evidence if row["printed"] is not None]
    errors = sum(one["state"] == "error" for one in experiments)
    ended = f" {errors} did not run to their end." if errors else ""
    alone = len(rows) - len(evidence)
    beside = f"; {alone} numbers are measured alone" if alone else ""
    return (
        f"{len(experiments)} experiments: {sum(checks)} of {len(checks)} checks hold; "
        f"{len(evidence)} comparisons: {_told(evidence)}; "
        f"{len(numbers)} of them with a printed number: {_told(numbers)}{beside}.{ended}"
    )


def _told(evidence: Sequence[Row]) -> str:
    words = {"agrees": "agree", "differs": "differ", "corrected": "are corrected"}
    verdicts = [row["verdict"] for row in evidence]
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items())


def _heading(one: Row) -> Text:
    style = _COLOURS.get(one["state"], "bold red")
    return Text.assemble((one["state"].upper(), style), "  ", (one["name"], "bold"), f"  {one['claim']}")


def _failures(one: Row) -> list[Text]:
    lines = [Text(f"  fails: {check['statement']}", "red") for check in one["checks"] if not check["holds"]]
    return lines + ([Text(f"  {printable(one['error'])}", "red")] if one["error"] else [])


def _comparisons(evidence: Sequence[Row]) -> Table:
    table = _table("quantity", "paper", "ours", "verdict", "why")
    for row in evidence:
        verdict = Text(row["verdict"], _COLOURS[row["verdict"]])
        table.add_row(Text(row["quantity"]), printed(row), ours(row), verdict, Text(row["why"]))
    for column in (table.columns[0], table.columns[-1]):
        column.overflow = "fold"
    for column in table.columns[1:4]:
        column.no_wrap = True
    return table


def _table(*headings: str) -> Table:
    return Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))


def printed(row: Row) -> str:
    """The paper's number; a dash where it shows a picture, states a trend, or has nothing of the kind."""
    return UNDEFINED if row["printed"] is None else f"{row['printed']:g}".replace("-", "−")


def ours(row: Row) -> str:
    """Our number and its interval, with as many digits as the interval leaves meaning to."""
    value, low, high = row["ours"], row["low"], row["high"]
    if value is None:
        return UNDEFINED
    reach = None if low is None or high is None else (high - low) / 2
    written = [_written(number, reach) for number in (value, low, high)]
    return written[0] if reach == 0 else f"{written[0]} [{written[1]}, {written[2]}]"


def _written(number: Number | None, reach: Number | None) -> str:
    if number is None:
        return UNDEFINED
    decimals = _PLAINEST_DECIMALS + 1 if not reach else max(0, 1 - math.floor(math.log10(reach)))
    plain = decimals <= _PLAINEST_DECIMALS and abs(number) < 1e6
    return (f"{round(number, decimals) + 0.0:.{decimals}f}" if plain else f"{number:.4g}").replace("-", "−")


def span(seconds: Number, measured: bool) -> str:
    """`0.8 s`, `12 s`, `4 min`, `2.5 h`; `≤` before what is a limit and not a measurement."""
    if seconds < 90:
        text = f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    else:
        text = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return text if measured else f"≤ {text}"
