"""A diagnosis read back from its saved document, with the findings of the time it was made."""

import json
import math
from pathlib import Path

from orthoscope.diagnosis.checks import gradient_profile
from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.expectations import Expectation
from orthoscope.findings import Finding, Measurement
from orthoscope.probe import Layer, Recording, Representation
from orthoscope.report import document
from orthoscope.report.document import DiagnosisDocument, ReportDocument, from_data


def saved_documents(path: Path) -> tuple[DiagnosisDocument, ...]:
    """Return the documents of the diagnoses in a file that `diagnose --json` or `.save` wrote.

    Raises:
        ValueError: If there is no such file, or it holds something else; one sentence says what.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}: save one with orthoscope diagnose --json") from None
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is no saved diagnosis: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    try:
        if str(schema).startswith("orthoscope.report/"):
            return from_data(ReportDocument, content).diagnoses
        return (from_data(DiagnosisDocument, content),)
    except ValueError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}") from None


def saved_diagnosis(saved: DiagnosisDocument) -> Diagnosis:
    """Return the diagnosis of a document; predictions of theory stay in the document."""
    recording = Recording(
        input=_layer(-1, saved.input),
        layers=tuple(_layer(index, layer) for index, layer in enumerate(saved.layers)),
        unobserved={entry.name: entry.reason for entry in saved.unobserved},
        parameters=saved.parameters,
        samples=saved.samples,
        gradient_source=saved.gradient_of or "",
        notes=saved.notes,
    )
    return Diagnosis(
        name=saved.name,
        recording=recording,
        findings=tuple(map(_finding, saved.findings)),
        gradients=gradient_profile(recording),
        expected=Expectation(refusal="read from a saved document, which has what theory expects"),
        seconds=float(saved.seconds),
    )


def _layer(index: int, layer: document.Layer) -> Layer:
    return Layer(
        index=index,
        name=layer.name,
        call=layer.call,
        kind=layer.kind,
        depth=layer.depth,
        shape=layer.shape,
        samples=layer.samples,
        units=layer.units,
        status=layer.status,
        rms=_number(layer.rms),
        sample_view=_view(layer.sample_view, layer.rank_deficient),
        token_view=_view(layer.token_view, False),
        gradient_norm=_optional(layer.gradient_norm),
        weight_gradient_norm=_optional(layer.weight_gradient_norm),
        also=layer.also,
    )


def _view(view: document.View | None, rank_deficient: bool) -> Representation | None:
    if view is None:
        return None
    numbers = {name: _number(value) for name, value in vars(view).items()}
    return Representation(**{**numbers, **({"isometry_gap": math.inf} if rank_deficient else {})})


def _finding(finding: document.Finding) -> Finding:
    measured = None
    if finding.unit is not None:
        measured = Measurement(finding.check, _number(finding.value), finding.unit, _optional(finding.standard_error))
    return Finding(
        check=finding.check,
        symptom=finding.symptom,
        state=finding.state,
        reason=finding.reason,
        severity=finding.severity,
        layer=finding.layer,
        measured=measured,
        threshold=_optional(finding.threshold),
    )


def _optional(value: int | float | None) -> float | None:
    return None if value is None else float(value)


def _number(value: int | float | None) -> float:
    return math.nan if value is None else float(value)
