"""What the pages of the benchmarks are made of: tables of costs, and promises beside what was seen."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

Table = list[list[str]]
Numbers = dict[str, Any]
PROMISE_COLUMNS = ["ours", "beside", "where", "promised", "seen"]
LIMIT_COLUMNS = ["ours", "where", "column", "at most", "seen"]


def about(numbers: Numbers) -> str:
    """What the numbers depend on, in one line."""
    versions = ", ".join(f"{name} {value}" for name, value in numbers["versions"].items())
    made_by = f"{numbers['processor']}, {numbers['threads']} threads, {versions}, commit {numbers['commit']}"
    return f"{made_by}; {numbers['seconds']:.0f} s in all."


def grouped(rows: Sequence[Numbers], field: str) -> list[tuple[str, list[Numbers]]]:
    return [(name, list(found)) for name, found in groupby(rows, lambda row: row[field])]


def costs(rows: list[Numbers]) -> Table:
    header = ["method", "ms", "products", "peak MiB", "error"]
    return [header] + [
        [
            row["method"],
            f"{row['milliseconds']:.3g}",
            f"{row['products']:.3g}",
            "" if row["peak_mebibytes"] is None else f"{row['peak_mebibytes']:.0f}",
            "" if row["error"] is None else f"{row['error']:.1e}",
        ]
        for row in rows
    ]


def promise(rows: list[Numbers], ours: str, peer: str, where: str, least: float) -> list[str]:
    """How many times faster than a peer, promised and seen; one that was missed says so."""
    seen = ratio(rows, f"orthoscope {ours}", peer)
    return [ours, peer, where, f"{least}x", f"{seen:.3g}x" + ("" if seen >= least else ", missed")]


def limit(ours: str, where: str, column: str, most: float, seen: float) -> list[str]:
    """A number of our own, promised and seen; one that was missed says so."""
    return [ours, where, column, f"{most:.4g}", f"{seen:.3g}" + ("" if seen <= most else ", missed")]


def ratio(rows: list[Numbers], ours: str, peer: str) -> float:
    by_name = {row["method"]: row["milliseconds"] for row in rows}
    return by_name[peer] / by_name[ours]


def markdown(table: Table) -> str:
    header, *lines = table
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *lines))
