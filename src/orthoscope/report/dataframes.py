"""A document as a table with named columns, for pandas or polars: a row for every layer, depth, block or look."""

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.report.reading import Document, Number, is_prediction, is_residual, is_watch

Row = dict[str, Any]
LIBRARIES = ("pandas", "polars")
_PLAIN = ("name", "call", "kind", "depth", "samples", "units", "status", "rms", "gradient_norm", "weight_gradient_norm")
_VIEW = (
    "gap",
    "isometry_gap",
    "effective_rank",
    "stable_rank",
    "numerical_rank",
    "overlap",
    "mean_energy",
)
_EXPECTED = ("rms", "overlap", "gap", "effective_rank", "isometry_gap", "gradient_norm")
_SCALARS = (
    "worst_gap",
    "min_effective_rank",
    "mean_overlap",
    "gradient_slope",
    "risk",
    "record_seconds",
)


def frame(document: Document, library: str = "pandas") -> Any:
    """A `DataFrame` of the library that is named; what is undefined is nan, a dependent batch has an infinite gap."""
    if library not in LIBRARIES:
        raise ValueError(f"a frame is made by {' or '.join(LIBRARIES)}, got {library!r}")
    rows = frame_rows(document)
    try:
        module = importlib.import_module(library)
    except ModuleNotFoundError:
        other = next(name for name in LIBRARIES if name != library)
        raise ModuleNotFoundError(
            f"to_frame needs {library}, which is not installed: pip install {library}, or ask for {other!r}"
        ) from None
    return module.DataFrame(_columns(rows))


def frame_rows(document: Document) -> list[Row]:
    """The rows as plain data, all with the same names in the same order."""
    if is_prediction(document):
        return [_depth(row) for row in document["depths"]]
    if is_residual(document):
        return [_block(row) for row in document["blocks"]]
    if is_watch(document):
        return [_look(record) for record in document["history"]]
    return [_layer(layer) for layer in document["layers"]]


def _columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _number(value: Number | None) -> float:
    return math.nan if value is None else float(value)


def _layer(layer: Mapping[str, Any]) -> Row:
    row: Row = {name: layer[name] for name in _PLAIN}
    row |= {name: _number(layer[name]) for name in ("depth", "rms", "gradient_norm", "weight_gradient_norm")}
    row["shape"] = "x".join(map(str, layer["shape"]))
    for prefix, view in (("", layer["sample_view"]), ("token_", layer["token_view"])):
        row |= {prefix + name: _number(None if view is None else view[name]) for name in _VIEW}
    if layer["rank_deficient"]:
        row["isometry_gap"] = math.inf
    expected = layer["predicted"]
    return row | {f"predicted_{name}": _number(None if expected is None else expected[name]) for name in _EXPECTED}


def _depth(row: Mapping[str, Any]) -> Row:
    numbers = {name: _number(row[name]) for name in _EXPECTED if name in row}
    more = {name: _number(row[name]) for name in ("overlap_deviation", "gradient_growth")}
    symptoms = ", ".join(dict.fromkeys(finding["symptom"] for finding in row["findings"]))
    return {"depth": row["depth"], **numbers, **more, "verdict": row["verdict"], "symptoms": symptoms}


def _block(row: Mapping[str, Any]) -> Row:
    numbers = {name: _number(row[name]) for name in ("rank_ratio", "top_energy", "misalignment", "step")}
    values = row["singular_values"]
    sizes = {"inputs": row["inputs"], "outputs": row["outputs"], "dead": row["dead"]}
    return {
        "name": row["name"],
        "skip": row["skip"],
        **sizes,
        "sigma1": _number(values[0] if values else None),
        **numbers,
    }


def _look(record: Mapping[str, Any]) -> Row:
    scalars = {name: _number(record["scalars"].get(f"orthoscope/{name}")) for name in _SCALARS}
    return {"step": record["step"], "verdict": record["verdict"], **scalars, "summary": record["summary"]}
