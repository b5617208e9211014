"""What the pages of the benchmarks are made of: tables of costs, and promises beside what was seen."""

import math
from collections.abc import Iterable, Sequence
from statistics import median
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
    """Rows that agree in a field, in the order in which its values first come up."""
    return [(name, [row for row in rows if row[field] == name]) for name in dict.fromkeys(row[field] for row in rows)]


def merged(rows: Sequence[Numbers], *by: str) -> list[Numbers]:
    """One row for all processes that agree in these fields: median times, and the largest peak and error."""
    kinds = dict.fromkeys(tuple(row[field] for field in by) for row in rows)
    lines = []
    for kind in kinds:
        found = [row for row in rows if tuple(row[field] for field in by) == kind]
        fields = [field for field in ("milliseconds", "products") if field in found[0]]
        timed = {field: median(row[field] for row in found) for field in fields}
        worst = {field: largest(row.get(field) for row in found) for field in ("peak_mebibytes", "error")}
        lines.append({**found[0], **timed, **worst})
    return lines


def largest(values: Iterable[float | None]) -> float | None:
    """Of those that there are; nan if there is one."""
    return max((value for value in values if value is not None), key=lambda x: (math.isnan(x), x), default=None)


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
        for row in merged(rows, "method")
    ]


def promise(rows: list[Numbers], ours: str, peer: str, where: str, least: float) -> list[str]:
    """How many times faster than a peer, promised and seen; one that was missed says so.

    Over several processes the median of their ratios, which counts, and all of them.
    """
    ratios = [ratio(found, f"orthoscope {ours}", peer) for found in by_process(rows)]
    seen = median(ratios)
    text = f"{seen:.3g}x" + ("" if seen >= least else ", missed")
    if len(ratios) > 1:
        text += f" ({', '.join(f'{each:.3g}' for each in sorted(ratios))})"
    return [ours, peer, where, f"{least}x", text]


def by_process(rows: list[Numbers]) -> list[list[Numbers]]:
    """The rows of each process; all of them where there was one."""
    processes = dict.fromkeys(row.get("process") for row in rows)
    return [[row for row in rows if row.get("process") == process] for process in processes]


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
