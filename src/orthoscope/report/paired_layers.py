"""Which layers of a comparison are shown where there is no room for all."""

from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN = 12


def spaced_weights(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """About twelve weight layers evenly spaced along the depth, the first and the last among them."""
    weights = [row for row in rows if row["depth"] is not None]
    spaced = weights[:: max(1, -(-len(weights) // _SHOWN))]
    return spaced if not weights or spaced[-1] is weights[-1] else [*spaced, weights[-1]]
