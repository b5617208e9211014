"""One network drawn with several seeds: the document of the first, and between what the others lie."""

from collections.abc import Callable, Sequence
from typing import Any

Document = dict[str, Any]
Values = list[float | None]

_METRICS: dict[str, Callable[[Document], float | None]] = {
    "gap": lambda layer: layer["sample_view"] and layer["sample_view"]["gap"],
    "effective_rank": lambda layer: layer["sample_view"] and layer["sample_view"]["effective_rank"],
    "overlap": lambda layer: layer["sample_view"] and layer["sample_view"]["overlap"],
    "rms": lambda layer: layer["rms"],
    "gradient_norm": lambda layer: layer["gradient_norm"],
}


def with_seeds(documents: Sequence[Document], seeds: Sequence[int]) -> Document:
    """The first document with the field `seeds`: verdicts, places in the plane, and the range of every layer's numbers.

    A range is from the least to the largest over seeds where the number is defined; null where it never is.
    """
    names = [[(layer["name"], layer["call"]) for layer in document["layers"]] for document in documents]
    if any(other != names[0] for other in names):
        raise ValueError("networks of different seeds called different modules: diagnose them one by one")
    columns = {
        name: [[measure(layer) for layer in document["layers"]] for document in documents]
        for name, measure in _METRICS.items()
    }
    return documents[0] | {
        "seeds": {
            "seeds": list(seeds),
            "verdicts": [document["verdict"] for document in documents],
            "gaps": [document["gap"] for document in documents],
            "slopes": [document["slope"]["value"] for document in documents],
            "ranges": {name: {"low": _over(min, rows), "high": _over(max, rows)} for name, rows in columns.items()},
        }
    }


def _over(extreme: Callable[[list[float]], float], rows: Sequence[Values]) -> Values:
    defined = [[value for value in column if value is not None] for column in zip(*rows, strict=True)]
    return [extreme(column) if column else None for column in defined]
