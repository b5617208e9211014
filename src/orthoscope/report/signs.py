"""How a verdict looks: a class for its colour, and a shape, for colour alone is not seen by everybody."""

from collections.abc import Mapping
from typing import Any

from orthoscope.findings import Verdict
from orthoscope.report.reading import Number

_LOOKS = {Verdict.HEALTHY: "healthy", Verdict.AT_RISK: "at-risk", Verdict.SICK: "sick"}


def look(document: Mapping[str, Any]) -> str:
    """The class that gives a verdict its colour; shape and word go with it everywhere."""
    return _LOOKS[Verdict(document["verdict"])]


def symbol(look: str, x: Number, y: Number, size: Number = 6) -> str:
    """Circle, triangle or square: a verdict must be told without colour."""
    if look == "healthy":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{look}"/>'
    if look == "at-risk":
        corners = f"M{x:.1f},{y - 1.2 * size:.1f} l{1.15 * size:.1f},{2 * size:.1f} h{-2.3 * size:.1f} z"
        return f'<path d="{corners}" class="{look}"/>'
    side = f'width="{2 * size:.1f}" height="{2 * size:.1f}"'
    return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" {side} class="{look}"/>'
