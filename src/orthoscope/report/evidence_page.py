"""The page of results in Markdown, drawn from a document of evidence: claim, numbers beside ours, figure, checks."""

from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.report.evidence import count_of, ours, printed, span
from orthoscope.report.reading import Document

Row = Mapping[str, Any]

_INTRODUCTION = """# Results

Written by `orthoscope reproduce --page docs/results.md` from the tables in [results/](../results); do not edit.
[reproducing.md](reproducing.md) says how to make them again.

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


def evidence_page(document: Document, papers: Mapping[str, str]) -> str:
    """Paper by paper, figure by figure, those that have saved results."""
    parts = [_INTRODUCTION, count_of(document) + "\n"]
    for key, paper in papers.items():
        own = [one for one in document["experiments"] if one["name"].startswith(f"{key}/")]
        if own:
            parts += [f"## {key}\n", paper + "\n", *(_experiment(one) for one in own)]
    return "\n".join(parts)


def _experiment(one: Row) -> str:
    holding = sum(check["holds"] for check in one["checks"])
    seeds = f"{one['seeds']} seed{'s' if one['seeds'] > 1 else ''}" if one["seeds"] else "nothing random"
    facts = f"{one['kind']}, {seeds}, {one['rows']} rows, {span(one['seconds'], True)} of one core"
    figure = f"../results/{one['name']}"
    return "\n".join(
        [
            f"### {one['name']}\n",
            _text(one["claim"]) + "\n",
            *_comparisons(one["evidence"]),
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


def _comparisons(evidence: Sequence[Row]) -> list[str]:
    lines = ["| quantity | paper | ours | verdict | why |", "|---|---|---|---|---|"]
    for row in evidence:
        cells = (row["quantity"], printed(row), ours(row), row["verdict"], row["why"])
        lines.append("| " + " | ".join(_text(cell) for cell in cells) + " |")
    return [*lines, ""]


def _text(words: str) -> str:
    """As it is, on one line: Markdown has a meaning for bars in a table, asterisks, and what looks like a tag."""
    for sign in "\\|*<":
        words = words.replace(sign, "\\" + sign)
    return " ".join(words.split())
