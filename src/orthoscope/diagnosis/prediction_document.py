"""A forecast as plain data: the versioned document that its views are drawn from."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from orthoscope.diagnosis.document import environment, finite, source_rows
from orthoscope.findings import State, Verdict

if TYPE_CHECKING:
    from orthoscope.diagnosis.forecast import Depth, Forecast

SCHEMA = "orthoscope.prediction/1"


def prediction_document(forecast: "Forecast") -> dict[str, Any]:
    """Strict JSON: what is undefined or infinite is null."""
    at_risk, sick = forecast.first(Verdict.AT_RISK), forecast.first(Verdict.SICK)
    return {
        "schema": SCHEMA,
        "name": forecast.name,
        "summary": forecast.summary,
        "samples": forecast.samples,
        "width": forecast.width,
        "overlap": forecast.overlap,
        "deepest": forecast.deepest,
        "at_risk_from": None if at_risk is None else at_risk.depth,
        "sick_from": None if sick is None else sick.depth,
        "depths": [_depth(depth) for depth in forecast.depths],
        "not_checked": [{"check": f.check, "reason": f.reason} for f in forecast.not_checked],
        "limit": [{**asdict(prediction), "value": finite(prediction.value)} for prediction in forecast.limit],
        "sources": source_rows(forecast.sources),
        "seconds": forecast.seconds,
        "environment": environment(),
    }


def _depth(depth: "Depth") -> dict[str, Any]:
    expected = {name: finite(value) for name, value in vars(depth.expected).items() if name != "gradient_norm"}
    return {
        "depth": depth.depth,
        **expected,
        "overlap_deviation": finite(depth.overlap_deviation),
        "gradient_growth": finite(depth.gradient_growth),
        "verdict": str(depth.verdict),
        "findings": [
            {"check": f.check, "symptom": str(f.symptom), "severity": str(f.severity), "reason": f.reason}
            for f in depth.findings
            if f.state is State.FOUND
        ],
    }
