"""What the views of a prediction read off its document: the answer, and which depths to show."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.findings import Verdict
from orthoscope.report.reading import Document

DepthRow = Mapping[str, Any]
_ABOUT = 14  # depths on one screen
_MOST = 16
_FINEST = 100  # steps; 48 of them already pass through 14 of the depths 1..17


def deepest_of(document: Document) -> str:
    """`37 of 500`: the deepest network that should train, of the depths that were asked for."""
    deepest = "none" if document["deepest"] is None else document["deepest"]
    return f"{deepest} of {document['depths'][-1]['depth']}"


def most_directions(document: Document) -> int:
    """Most directions that the samples can span in a hidden layer."""
    return int(min(document["samples"], document["width"]))


def turning_point(document: Document) -> tuple[int, str] | None:
    """The least depth that is not healthy, and in words what it is from there on."""
    at_risk, sick = document["at_risk_from"], document["sick_from"]
    if at_risk is None:
        return None
    return int(at_risk), "sick from" if at_risk == sick else "at risk from"


def beginnings(document: Document, check: str) -> dict[Verdict, DepthRow]:
    """The least depth at which a check finds each severity, with what it found there."""
    found: dict[Verdict, DepthRow] = {}
    for row in document["depths"]:
        for finding in row["findings"]:
            if finding["check"] == check:
                found.setdefault(Verdict(finding["severity"]), {**finding, "depth": row["depth"]})
    return found


def checks_that_found(document: Document) -> list[str]:
    """Names of the checks that find something at some depth, in the order in which they do."""
    return list(dict.fromkeys(finding["check"] for row in document["depths"] for finding in row["findings"]))


def shown_depths(document: Document) -> list[DepthRow]:
    """About fourteen depths on a logarithmic scale, with the first, the last and those where the verdict changes."""
    rows: Sequence[DepthRow] = document["depths"]
    if len(rows) <= _MOST:
        return list(rows)
    named = {document[name] for name in ("deepest", "at_risk_from", "sick_from")}
    kept = {0, len(rows) - 1} | {index for index, row in enumerate(rows) if row["depth"] in named}
    shown = kept
    for count in range(2, _FINEST):
        more = kept | set(_logarithmic(rows, count))
        if len(more) > _MOST:
            break
        shown = more
        if len(shown) >= _ABOUT:
            break
    return [rows[index] for index in sorted(shown)]


def _logarithmic(rows: Sequence[DepthRow], count: int) -> list[int]:
    """Indices of `count` depths in equal ratios, as nearly as whole numbers can be."""
    first, last = rows[0]["depth"], rows[-1]["depth"]
    wanted = [round(first * (last / first) ** (step / (count - 1))) for step in range(count)]
    return [bisect_left(rows, depth, key=lambda row: row["depth"]) for depth in wanted]
