"""A document as a table with named columns, for pandas or polars: a row for every layer, depth, block or snapshot."""

import importlib
import math
from types import NoneType
from typing import Any, get_args

from orthoscope.report.document import (
    DiagnosisDocument,
    Document,
    Expected,
    Layer,
    Part,
    PredictionDocument,
    ResidualDocument,
    Snapshot,
    View,
    WatchDocument,
    as_document,
    quantities,
)
from orthoscope.report.document.conversion import declared_fields

Row = dict[str, Any]
LIBRARIES = ("pandas", "polars")


def frame(content: Any, library: str = "pandas") -> Any:
    """Return a `DataFrame` of the library that is named.

    Args:
        content: A document, as its dataclass or as JSON data.
        library: "pandas" or "polars".

    Returns:
        A row for every layer, depth, block or snapshot. What is undefined is nan; a linearly dependent batch has an
        infinite isometry gap.
    """
    if library not in LIBRARIES:
        raise ValueError(f"a frame is made by {' or '.join(LIBRARIES)}, got {library!r}")
    rows = frame_rows(as_document(content))
    try:
        module = importlib.import_module(library)
    except ModuleNotFoundError:
        other = next(name for name in LIBRARIES if name != library)
        raise ModuleNotFoundError(
            f"to_frame needs {library}, which is not installed: pip install {library}, or ask for {other!r}"
        ) from None
    return module.DataFrame({name: [row[name] for row in rows] for name in (rows[0] if rows else ())})


def frame_rows(document: Document) -> list[Row]:
    """Return the rows as plain data, all with the same names in the same order: the fields of the document."""
    match document:
        case DiagnosisDocument():
            return [_layer(layer) for layer in document.layers]
        case PredictionDocument():
            symptoms = (", ".join(dict.fromkeys(one.symptom for one in row.findings)) for row in document.depths)
            return [_plain(row) | {"symptoms": words} for row, words in zip(document.depths, symptoms, strict=True)]
        case ResidualDocument():
            return [_plain(block) | {"sigma1": _number(block.sigma1)} for block in document.blocks]
        case WatchDocument():
            return [_snapshot(record) for record in document.history]
    raise ValueError(f"a document of {document.schema} has no table: ask one of the diagnoses in it")


def _plain(part: Part) -> Row:
    """Return the fields of a part that are one number or word; null is nan."""
    values = {field.name: (field.hint, getattr(part, field.attribute)) for field in declared_fields(type(part))}
    return {name: _number(value, hint) for name, (hint, value) in values.items() if _is_column(hint)}


def _is_column(hint: Any) -> bool:
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    return all(isinstance(kind, type) and issubclass(kind, int | float | str) for kind in kinds)


def _number(value: Any, hint: Any = int | None) -> Any:
    """Return what a column holds: where some rows may be null, all are of type float."""
    if isinstance(value, str):
        return str(value)
    return float(math.nan if value is None else value) if NoneType in get_args(hint) else value


def _optional(kind: type[Part], part: Part | None, prefix: str) -> Row:
    """Return the columns of a part that may be missing."""
    names = [field.attribute for field in declared_fields(kind)]
    return {prefix + name: _number(getattr(part, name, None)) for name in names}


def _layer(layer: Layer) -> Row:
    row = _plain(layer) | {"shape": "x".join(map(str, layer.shape))}
    row |= _optional(View, layer.sample_view, "") | _optional(View, layer.token_view, "token_")
    if layer.rank_deficient:
        row["isometry_gap"] = math.inf
    return row | _optional(Expected, layer.predicted, "predicted_")


def _snapshot(record: Snapshot) -> Row:
    scalars = {quantity.key: _number(record.scalar(quantity.key)) for quantity in quantities("snapshot")}
    return {"step": record.step, "verdict": str(record.verdict), **scalars, "summary": record.summary}
