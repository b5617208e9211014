"""Experiments, results and errata as tables in a terminal, and the results page in Markdown; imports no torch.

experiment_list     every experiment: claim, time and data
results_tables      the document of results in a terminal
results_page        the same document as docs/results.md
errata_list         errata in a terminal
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orthoscope.report.wording import UNDEFINED, printable

Document = Mapping[str, Any]
Row = Mapping[str, Any]
STATES = ("error", "fails", "holds")  # the order in which experiments are shown: failures first
_COLORS = {
    "agrees": "green",
    "corrected": "cyan",
    "differs": "yellow",
    "measured": "dim",
    "holds": "green",
    "fails": "bold red",
}
_MAX_DECIMALS = 6


def experiment_list(experiments: Sequence[Row], papers: Mapping[str, str], workers: int) -> RenderableType:
    """Show every experiment with its claim, time and data; `≤` marks a limit where no run was measured here."""
    longest = max(len(row["name"]) for row in experiments)
    parts: list[RenderableType] = [Text(_line("experiment", longest, "kind", "quick", "default", "full"), "bold")]
    for key in dict.fromkeys(row["paper"] for row in experiments):
        parts.append(Text.assemble("\n", (key, "bold"), f"  {papers[key]}"))
        for row in (row for row in experiments if row["paper"] == key):
            quick, default = duration(*row["quick"]), duration(*row["default"])
            parts.append(Text(_line(row["name"], longest, row["kind"], quick, default, "yes" if row["full"] else "")))
            parts.append(Padding(Text(row["claim"], "dim"), (0, 0, 0, 4)))
            parts += [Padding(Text(f"data: {needed}"), (0, 0, 0, 4)) for needed in _data(row)]
    totals = {setting: sum(row[setting][0] for row in experiments) / workers for setting in ("quick", "default")}
    spans = ", ".join(f"{setting} {duration(seconds, True)}" for setting, seconds in totals.items())
    footer = f"\n{len(experiments)} experiments; all of them on {workers} cores, about: {spans}. "
    footer += "Full: the paper's own setting, where it is larger. orthoscope reproduce NAME… runs them. "
    footer += "Data is fetched by orthoscope data get NAME…; where none is named, and with --quick, none is needed."
    return Group(*parts, Text(footer))


def _data(row: Row) -> list[str]:
    """Datasets to fetch before it can run, if any; those of the full setting where they differ."""
    default, full = ", ".join(row["data"]), ", ".join(row["full_data"])
    return [f"{default or 'none'}, with --full {full}"] if full != default else [default] if default else []


def _line(name: str, longest: int, kind: str, quick: str, default: str, full: str) -> str:
    return f"{name:<{longest}}  {kind:<10}  {quick:>7}  {default:>8}  {full}".rstrip()


def results_tables(document: Document) -> RenderableType:
    """Show the results of experiments, failures first: failed checks, errors, one row of evidence each, and totals."""
    order = {state: place for place, state in enumerate(STATES)}
    experiments = sorted(document["experiments"], key=lambda one: order[one["state"]])
    parts: list[RenderableType] = []
    for one in experiments:
        parts += [_heading(one), *_failures(one)]
        if one["evidence"]:
            parts.append(_evidence_table(one["evidence"]))
        parts.append(Text(""))
    return Group(*parts, Text(count_of(document), "bold"))


def count_of(document: Document) -> str:
    """Return one sentence with the number of experiments, checks and verdicts."""
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
        f"{len(evidence)} comparisons: {_verdict_counts(evidence)}; "
        f"{len(numbers)} of them with a printed number: {_verdict_counts(numbers)}{beside}.{ended}"
    )


def _verdict_counts(evidence: Sequence[Row]) -> str:
    words = {"agrees": "agree", "differs": "differ", "corrected": "are corrected"}
    verdicts = [row["verdict"] for row in evidence]
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items())


def _heading(one: Row) -> Text:
    style = _COLORS.get(one["state"], "bold red")
    return Text.assemble((one["state"].upper(), style), "  ", (one["name"], "bold"), f"  {one['claim']}")


def _failures(one: Row) -> list[Text]:
    lines = [Text(f"  fails: {check['statement']}", "red") for check in one["checks"] if not check["holds"]]
    return lines + ([Text(f"  {printable(one['error'])}", "red")] if one["error"] else [])


def _evidence_table(evidence: Sequence[Row]) -> Table:
    headings = ("quantity", "paper", "ours", "verdict", "why")
    table = Table(*headings, box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for row in evidence:
        verdict = Text(row["verdict"], _COLORS[row["verdict"]])
        table.add_row(Text(row["quantity"]), printed(row), ours(row), verdict, Text(row["why"]))
    for column in (table.columns[0], table.columns[-1]):
        column.overflow = "fold"
    for column in table.columns[1:4]:
        column.no_wrap = True
    return table


def printed(row: Row) -> str:
    """Format the paper's number; a dash where it shows a picture, states a trend, or has nothing of the kind."""
    return UNDEFINED if row["printed"] is None else f"{row['printed']:g}".replace("-", "−")


def ours(row: Row) -> str:
    """Format our number and its interval, with the digits that are significant for that interval."""
    value, low, high = row["ours"], row["low"], row["high"]
    if value is None:
        return UNDEFINED
    reach = None if low is None or high is None else (high - low) / 2
    written = [_written(number, reach) for number in (value, low, high)]
    return written[0] if reach == 0 else f"{written[0]} [{written[1]}, {written[2]}]"


def _written(number: int | float | None, reach: int | float | None) -> str:
    if number is None:
        return UNDEFINED
    decimals = _MAX_DECIMALS + 1 if not reach else max(0, 1 - math.floor(math.log10(reach)))
    plain = decimals <= _MAX_DECIMALS and abs(number) < 1e6
    return (f"{round(number, decimals) + 0.0:.{decimals}f}" if plain else f"{number:.4g}").replace("-", "−")


def duration(seconds: int | float, measured: bool) -> str:
    """Format `0.8 s`, `12 s`, `4 min`, `2.5 h`; `≤` before a limit that is not a measurement."""
    if seconds < 90:
        text = f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    else:
        text = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return text if measured else f"≤ {text}"


_INTRODUCTION = """# Results

Written by `orthoscope reproduce --page docs/results.md` from the tables in [results/](../results); do not edit.
[reproduce.md](reproduce.md) says how to make them again.

A verdict is *agrees* where the printed number is within our interval, or as near to ours as the reason says, or where
the stated trend is seen (for li2023: if training went a quarter of the way to the stated limit at least); *differs*
where it is not, with the reason; and *corrected* where the paper's statement is false: then the reason says what holds
instead, and `orthoscope errata` has the counterexample of those that name one. A number is *measured* where nothing is
printed or stated that it could agree with, such as the scores of simpler rules beside those of the verdict: it is no
comparison and is counted apart. Under calibration, which is of no paper, what is stated is the claim above the table,
and the share itself is held to it, not its interval.
Intervals are of two standard errors over seeds unless the reason says otherwise; of few seeds they cover less than
95 %: 86 % of 4, 82 % of 3, 70 % of 2, and one seed has none. A dash in the paper's column is a picture or a trend
without a number, or nothing at all.
"""


def results_page(document: Document, papers: Mapping[str, str]) -> str:
    """Return docs/results.md: every experiment of the document, paper by paper."""
    parts = [_INTRODUCTION, count_of(document) + "\n"]
    for key, paper in papers.items():
        own = [one for one in document["experiments"] if one["name"].startswith(f"{key}/")]
        if own:
            parts += [f"## {key}\n", paper + "\n", *(_experiment(one) for one in own)]
    return "\n".join(parts)


def _experiment(one: Row) -> str:
    holding = sum(check["holds"] for check in one["checks"])
    seeds = f"{one['seeds']} seed{'s' if one['seeds'] > 1 else ''}" if one["seeds"] else "nothing random"
    facts = f"{one['kind']}, {seeds}, {one['rows']} rows, {duration(one['seconds'], True)} of one core"
    figure = f"../results/{one['name']}"
    return "\n".join(
        [
            f"### {one['name']}\n",
            _text(one["claim"]) + "\n",
            *_evidence_lines(one["evidence"]),
            f"![{one['name']}]({figure}/figure.svg)\n",
            f"{facts}: [table]({figure}/table.csv), [meta]({figure}/meta.json). "
            f"{holding} of {len(one['checks'])} checks hold:\n",
            *(
                f"- {'holds' if check['holds'] else '**fails**'}: {_text(check['statement'])}"
                for check in one["checks"]
            ),
            "",
        ]
    )


def _evidence_lines(evidence: Sequence[Row]) -> list[str]:
    lines = ["| quantity | paper | ours | verdict | why |", "|---|---|---|---|---|"]
    for row in evidence:
        cells = (row["quantity"], printed(row), ours(row), row["verdict"], row["why"])
        lines.append("| " + " | ".join(_text(cell) for cell in cells) + " |")
    return [*lines, ""]


def _text(words: str) -> str:
    """Escape bars, asterisks and tags, which Markdown would interpret, and put the text on one line."""
    for sign in "\\|*<":
        words = words.replace(sign, "\\" + sign)
    return " ".join(words.split())


def errata_list(rows: Sequence[Mapping[str, str]], bibliography: Mapping[str, str]) -> RenderableType:
    """Show every erratum under its paper, with both statements evaluated at the counterexample."""
    parts: list[RenderableType] = []
    for key in dict.fromkeys(row["source"] for row in rows):
        own = [row for row in rows if row["source"] == key]
        parts.append(Text.assemble((key, "bold"), f"  {bibliography[key]}: {len(own)} statements"))
        parts += [Padding(_erratum(row), (0, 0, 1, 2)) for row in own]
    return Group(*parts)


def _erratum(row: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("", Text.assemble((row["where"], "bold"), f"  ({row['key']})"))
    grid.add_row(Text("printed", "red"), Text(row["printed"]))
    grid.add_row("but", Text(f"{row['case']}: {row['printed_at_case']}"))
    grid.add_row(Text("corrected", "green"), Text(f"{row['corrected']}  [{row['corrected_at_case']}]"))
    grid.add_row("why", Text(row["why"]))
    return grid
