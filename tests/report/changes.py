"""Comparisons and fixes made by hand, as `prescriptions` writes them."""

from typing import Any

from orthoscope.report.document import ComparisonDocument, FixDocument
from report.handmade import ENVIRONMENT, document, layer


def network(name: str, gaps: list[float], text: str = "layer", **changes: Any) -> dict[str, Any]:
    """Weight layers with the given gaps, each followed by an activation."""
    layers = []
    for depth, gap in enumerate(gaps, start=1):
        one = layer(f"{text}.{depth}", depth, gradient_norm=10.0**-depth)
        one["sample_view"]["gap"] = gap
        layers += [one, layer(f"{text}.{depth}.relu")]
    return document(layers, **{"name": name, "gap": gaps[-1]} | changes)


def comparison(text: str = "layer") -> dict[str, Any]:
    """Sick, then healthy, with one finding that went and one that came."""
    slope = {"value": -0.4, "standard_error": 0.02, "layers": 3, "unit": "e-folds per weight layer"}
    before = network(text, [0.2, 0.5, 0.9], text, verdict="SICK", slope=slope)
    after = network(text, [0.2, 0.25, 0.3], text)
    found = {"check": text, "symptom": "collapse", "severity": "SICK", "layer": text, "reason": f"gone: {text}"}
    return {
        "schema": ComparisonDocument.schema,
        "name": text,
        "verdict": {"before": "SICK", "after": "HEALTHY"},
        "improved": True,
        "summary": f"SICK → HEALTHY; no longer found: {text}",
        "numbers": [
            {"name": "orthogonality gap", "before": 0.9, "after": 0.3, "unit": "0 orthogonal, 1 one direction"}
        ],
        "vanished": [found],
        "appeared": [found | {"severity": "AT RISK", "reason": f"came: {text}"}],
        "layers": [_pair(*row) for row in enumerate(zip(before["layers"], after["layers"], strict=True))],
        "before": before,
        "after": after,
        "environment": dict(ENVIRONMENT),
    }


def prescription(name: str, outcome: str = "kept", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "why": f"why {name}",
        "code": f"mend(model, {name!r})",
        "advice": False,
        "architecture": False,
        "predicted": {"gap": 0.31, "slope": 0.012, "reason": None},
        "measured": {"gap": 0.3, "slope": 0.01, "reason": None} if outcome in ("kept", "tried") else None,
        "verdict": "HEALTHY" if outcome in ("kept", "tried") else None,
        "outcome": outcome,
    } | changes


def fix(text: str = "layer", steps: bool = True) -> dict[str, Any]:
    """One step kept of four that were thought of, one of which does not apply; or none of them kept."""
    kept = prescription(f"mend {text}", "kept" if steps else "tried")
    rest = [prescription(f"{outcome} {text}", outcome) for outcome in ("tried", "not tried")]
    return {
        "schema": FixDocument.schema,
        "name": text,
        "outcome": "fixed" if steps else "nothing helped",
        "sentence": f"SICK → HEALTHY by mend {text}" if steps else "nothing was changed",
        "verdict": {"before": "SICK", "after": "HEALTHY" if steps else "SICK"},
        "steps": [kept] if steps else [],
        "plan": [rest[0], prescription("far-fetched", "does not apply: no branches"), kept, rest[1]],
        "snippet": f"import orthoscope\nmend(model, {text!r})" if steps else "",
        "comparison": comparison(text),
        "confirmation": None,
        "environment": dict(ENVIRONMENT),
    }


def _pair(index: int, layers: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    old, new = layers
    kind = {"before": old["kind"], "after": new["kind"]}
    return {"name": new["name"], "call": 0, "kind": kind, "depth": new["depth"], "before": index, "after": index}
