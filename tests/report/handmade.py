"""Documents made by hand, so that the views are tested without a network or a probe."""

from typing import Any

from orthoscope.report.document import DiagnosisDocument, View

# A metric that is added to the documents has a number here without a change of this file.
VIEW = dict.fromkeys(View.__dataclass_fields__, 0.5) | {
    "gap": 0.3,
    "isometry_gap": 1.2,
    "effective_rank": 12.5,
    "stable_rank": 4.0,
    "numerical_rank": 16.0,
    "overlap": 0.25,
    "mean_energy": 0.3,
}
EXPECTED = {
    "rms": 1.1,
    "overlap": 0.26,
    "gap": 0.31,
    "effective_rank": 9.5,
    "isometry_gap": 1.3,
    "gradient_norm": 0.4,
}
STATEMENT = {"source": "poole2016, equation (3)", "assumes": "infinite width"}
ENVIRONMENT = {"orthoscope": "0", "python": "3", "torch": "2", "platform": "any", "threads": 1}


def layer(name: str, depth: int | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "call": 0,
        "kind": "ReLU" if depth is None else "Linear",
        "depth": depth,
        "shape": [16, 32],
        "samples": 16,
        "units": 32,
        "status": "measured",
        "rms": 1.0,
        "gradient_norm": 0.5,
        "weight_gradient_norm": None if depth is None else 2.0,
        "rank_deficient": False,
        "sample_view": dict(VIEW),
        "token_view": None,
        "also": [],
        "predicted": None,
    } | changes


def undefined_layer(name: str, status: str = "dead") -> dict[str, Any]:
    """A layer of which nothing could be measured."""
    return layer(name, status=status, rms=None, gradient_norm=None, sample_view=None)


def finding(check: str, state: str = "clean", **changes: Any) -> dict[str, Any]:
    measured = state != "not checked"
    return {
        "check": check,
        "symptom": "collapse",
        "state": state,
        "severity": "SICK" if state == "found" else "HEALTHY",
        "layer": None,
        "reason": f"the reason of {check}",
        "value": 0.02 if measured else None,
        "standard_error": None,
        "unit": "share of possible directions" if measured else None,
        "threshold": 0.025 if measured else None,
    } | changes


def document(layers: list[dict[str, Any]] | None = None, sick_at: str | None = None, **changes: Any) -> dict[str, Any]:
    """A healthy network of the given layers, or one that collapses at `sick_at`."""
    layers = sequential(3) if layers is None else layers
    findings = [finding("live layers"), finding("token rank", "not checked", reason="there are no tokens")]
    if sick_at is not None:
        findings.append(finding("sample rank", "found", layer=sick_at))
    return {
        "schema": DiagnosisDocument.schema,
        "name": "handmade",
        "verdict": "HEALTHY" if sick_at is None else "SICK",
        "summary": "samples stay apart" if sick_at is None else f"representations collapse from {sick_at} on",
        "next_steps": [],
        "risk": {"value": 0.1, "networks": 100, "accuracy": 0.9, "false_alarms": 0.05, "tested_on": 50},
        "symptoms": [] if sick_at is None else ["collapse"],
        "findings": findings,
        "slope": {
            "value": 0.01,
            "standard_error": 0.002,
            "layers": 3,
            "unit": "e-folds per weight layer",
        },
        "gap": 0.3,
        "quoted_layer": quoted(layers),
        "prediction": {"reason": "it was made by hand", "slope": None, "sources": []},
        "parameters": 1234,
        "samples": 16,
        "gradient_of": "a random unit direction at the output",
        "input": layer("input", kind="float32"),
        "layers": layers,
        "unobserved": [],
        "notes": [],
        "seconds": 0.1,
        "environment": dict(ENVIRONMENT),
    } | changes


def quoted(layers: list[dict[str, Any]]) -> int | None:
    """The last of the layers where samples can have the most directions."""
    rooms = {i: min(one["samples"], one["units"]) for i, one in enumerate(layers) if one["sample_view"] is not None}
    return max(rooms, key=lambda index: (rooms[index], index), default=None)


def explained(layers: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A network that theory speaks of, at every layer."""
    layers = sequential(3, predicted=dict(EXPECTED)) if layers is None else layers
    return document(layers, prediction={"reason": None, "slope": 0.02, "sources": [dict(STATEMENT)]}, **changes)


def sequential(depth: int, **changes: Any) -> list[dict[str, Any]]:
    """Linear and ReLU in turn, named by number as in `nn.Sequential`."""
    return [layer(str(index), index // 2 + 1 if index % 2 == 0 else None, **changes) for index in range(2 * depth)]


def transformer(blocks: int) -> list[dict[str, Any]]:
    parts = ("norm1", "attention.query", "attention.out", "norm2", "mlp.up", "mlp.down")
    names = [f"blocks.{block}.{part}" for block in range(blocks) for part in parts]
    return [layer("embed"), *(layer(name, depth) for depth, name in enumerate(names, start=1)), layer("head")]


NUMBERS = ("rms", "overlap", "gap", "effective_rank", "isometry_gap", "overlap_deviation", "gradient_growth")


def depth(number: int, verdict: str = "HEALTHY", **changes: Any) -> dict[str, Any]:
    """What is predicted of one depth; samples that close in on each other as it grows."""
    found = {
        "check": "sample rank",
        "symptom": "collapse",
        "severity": verdict,
        "reason": f"the reason at depth {number}",
    }
    return {
        "depth": number,
        "rms": 1.0,
        "overlap": 1 - 1 / (number + 1),
        "gap": 1 - 1 / (number + 1) ** 2,
        "effective_rank": 1 + 15 / number,
        "isometry_gap": float(number),
        "overlap_deviation": 0.1 / number,
        "gradient_growth": 0.01 * number,
        "verdict": verdict,
        "findings": [] if verdict == "HEALTHY" else [found],
    } | changes


def prediction(
    last: int = 60, at_risk_from: int | None = 20, sick_from: int | None = 40, first: int = 1, **changes: Any
) -> dict[str, Any]:
    """Depths `first` to `last`: healthy, then at risk, then sick."""
    limits = {"AT RISK": at_risk_from, "SICK": sick_from}

    def verdict(number: int) -> str:
        reached = [name for name, limit in limits.items() if limit is not None and number >= limit]
        return reached[-1] if reached else "HEALTHY"

    depths = [depth(number, verdict(number)) for number in range(first, last + 1)]
    healthy = [row["depth"] for row in depths if row["verdict"] == "HEALTHY"]
    return {
        "schema": "orthoscope.prediction/1",
        "name": f"mlp(depth={first}..{last})",
        "summary": "trains as far as it does",
        "samples": 16,
        "width": 32,
        "overlap": 0.0,
        "deepest": healthy[-1] if healthy else None,
        "at_risk_from": at_risk_from,
        "sick_from": sick_from,
        "depths": depths,
        "not_checked": [{"check": "sample rank", "reason": "more samples than units"}],
        "limit": [{"name": "overlap", "value": 0.76, "unit": "mean cosine", **STATEMENT}],
        "sources": [dict(STATEMENT)],
        "seconds": 0.1,
        "environment": dict(ENVIRONMENT),
    } | changes


def unknown_prediction(last: int = 60) -> dict[str, Any]:
    """Theory has no number at any depth."""
    depths = [depth(number) | dict.fromkeys(NUMBERS) for number in range(1, last + 1)]
    limit = [{"name": "overlap", "value": None, "unit": "", **STATEMENT}]
    return prediction(last, None, None, depths=depths, limit=limit, overlap=None, sources=[])
