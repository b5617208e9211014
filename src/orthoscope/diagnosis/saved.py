"""A diagnosis read back from its saved document, with the findings of the time it was made."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orthoscope.diagnosis.checks import gradient_profile
from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.document import SCHEMA
from orthoscope.diagnosis.expectations import Expectation
from orthoscope.findings import Finding, Measurement, State, Symptom, Verdict
from orthoscope.probe import Layer, Recording, Representation, Status

_REPORT = "orthoscope.report/2"


def saved_documents(path: Path) -> list[dict[str, Any]]:
    """The documents of the diagnoses in a file that `diagnose --json` or `.save` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}: save one with orthoscope diagnose --json") from None
    except (ValueError, OSError) as error:
        raise ValueError(f"{str(path)!r} is no saved diagnosis: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    documents: list[dict[str, Any]] = content["diagnoses"] if schema == _REPORT else [content]
    kinds = {document.get("schema") if isinstance(document, dict) else None for document in documents}
    if kinds != {SCHEMA}:
        shown = ", ".join(sorted(map(str, kinds))) or "nothing"
        raise ValueError(f"{str(path)!r} holds {shown}: this version compares {SCHEMA}")
    return documents


def saved_diagnosis(document: Mapping[str, Any]) -> Diagnosis:
    """The diagnosis of a document; predictions of theory stay in the document."""
    recording = Recording(
        input=_layer(-1, document["input"]),
        layers=tuple(_layer(index, layer) for index, layer in enumerate(document["layers"])),
        unobserved={entry["name"]: entry["reason"] for entry in document["unobserved"]},
        parameters=document["parameters"],
        samples=document["samples"],
        gradient_source=document["gradient_of"] or "",
        notes=tuple(document["notes"]),
    )
    return Diagnosis(
        name=document["name"],
        recording=recording,
        findings=tuple(_finding(finding) for finding in document["findings"]),
        gradients=gradient_profile(recording),
        expected=Expectation(refusal="read from a saved document, which has what theory expects"),
        seconds=document["seconds"],
    )


def _layer(index: int, layer: Mapping[str, Any]) -> Layer:
    return Layer(
        index=index,
        name=layer["name"],
        call=layer["call"],
        kind=layer["kind"],
        depth=layer["depth"],
        shape=tuple(layer["shape"]),
        samples=layer["samples"],
        units=layer["units"],
        status=Status(layer["status"]),
        rms=_number(layer["rms"]),
        sample_view=_view(layer["sample_view"], layer["rank_deficient"]),
        token_view=_view(layer["token_view"], False),
        gradient_norm=layer["gradient_norm"],
        weight_gradient_norm=layer["weight_gradient_norm"],
        also=tuple(layer["also"]),
    )


def _view(view: Mapping[str, float | None] | None, rank_deficient: bool) -> Representation | None:
    if view is None:
        return None
    numbers = {name: _number(value) for name, value in view.items() if name in Representation.__dataclass_fields__}
    return Representation(**{**numbers, **({"isometry_gap": math.inf} if rank_deficient else {})})


def _finding(finding: Mapping[str, Any]) -> Finding:
    measured = None
    if finding["unit"] is not None:
        measured = Measurement(finding["check"], _number(finding["value"]), finding["unit"], finding["standard_error"])
    return Finding(
        check=finding["check"],
        symptom=Symptom(finding["symptom"]),
        state=State(finding["state"]),
        reason=finding["reason"],
        severity=Verdict(finding["severity"]),
        layer=finding["layer"],
        measured=measured,
        threshold=finding["threshold"],
    )


def _number(value: int | float | None) -> float:
    return math.nan if value is None else float(value)
