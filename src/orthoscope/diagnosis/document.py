"""A diagnosis as plain data: the versioned document that every view is drawn from."""

import math
import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from orthoscope.diagnosis.calibration import CALIBRATION
from orthoscope.diagnosis.expectations import Expected
from orthoscope.diagnosis.weight_spectra import WeightSpectrum
from orthoscope.findings import Finding
from orthoscope.probe import Layer, Picture, Representation
from orthoscope.theory import Source
from orthoscope.version import VERSION

if TYPE_CHECKING:
    from orthoscope.diagnosis.diagnosis import Diagnosis

SCHEMA = "orthoscope.diagnosis/2"


def document(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Strict JSON: what is undefined or infinite is null, and a flag says which."""
    recording, gradients = diagnosis.recording, diagnosis.gradients
    return {
        "schema": SCHEMA,
        "name": diagnosis.name,
        "verdict": str(diagnosis.verdict),
        "summary": diagnosis.summary,
        "risk": risk_row(diagnosis.risk),
        "symptoms": [str(symptom) for symptom in diagnosis.symptoms],
        "findings": [_finding(finding) for finding in diagnosis.findings],
        "slope": {
            "value": finite(diagnosis.slope),
            "standard_error": finite(diagnosis.slope_standard_error),
            "layers": 0 if gradients is None else len(gradients.layers),
            "unit": "log-gradient per weight layer toward the input",
        },
        "gap": finite(diagnosis.gap),
        "prediction": _prediction(diagnosis),
        "parameters": recording.parameters,
        "samples": recording.samples,
        "gradient_of": recording.gradient_source or None,
        "input": _layer(recording.input, None),
        "layers": [
            _layer(layer, diagnosis.expected.of(layer), diagnosis.weight_spectra.get(layer.name))
            for layer in recording.layers
        ],
        "unobserved": [{"name": name, "reason": why} for name, why in recording.unobserved.items()],
        **({} if diagnosis.alignment is None else {"residual": diagnosis.alignment.document()}),
        "notes": [*recording.notes, *diagnosis.notes],
        "seconds": diagnosis.seconds,
        "environment": environment(),
    }


def risk_row(risk: float) -> dict[str, Any]:
    """The risk of not training, and what it rests on: networks, and how often the verdict was right on others."""
    known = CALIBRATION.document
    held_out = known["held_out"]["orthoscope"]
    return {
        "value": finite(risk),
        "networks": known["networks"],
        "accuracy": held_out["accuracy"],
        "false_alarms": held_out["false_alarms"],
        "tested_on": held_out["networks"],
    }


def environment() -> dict[str, Any]:
    """What the numbers were made with."""
    return {
        "orthoscope": VERSION,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    measured = finding.measured
    return {
        "check": finding.check,
        "symptom": str(finding.symptom),
        "state": str(finding.state),
        "severity": str(finding.severity),
        "layer": finding.layer,
        "reason": finding.reason,
        "value": None if measured is None else finite(measured.value),
        "standard_error": None if measured is None else finite(measured.standard_error),
        "unit": None if measured is None else measured.unit,
        "threshold": finite(finding.threshold),  # null too where no number would count
    }


def _prediction(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Where theory expects the network to end, or why it has nothing to say."""
    expected = diagnosis.expected
    return {
        "reason": expected.reason or None,
        "slope": finite(diagnosis.expected_slope),
        "sources": source_rows(expected.sources),
    }


def source_rows(sources: Sequence[Source]) -> list[dict[str, str]]:
    """Statements and their hypotheses, as text."""
    return [{"source": str(source), "assumes": source.assumes} for source in sources]


def _layer(layer: Layer, expected: Expected | None, weight: WeightSpectrum | None = None) -> dict[str, Any]:
    return {
        "name": layer.name,
        "call": layer.call,
        "kind": layer.kind,
        "depth": layer.depth,
        "shape": list(layer.shape),
        "samples": layer.samples,
        "units": layer.units,
        "status": str(layer.status),
        "rms": finite(layer.rms),
        "gradient_norm": finite(layer.gradient_norm),
        "weight_gradient_norm": finite(layer.weight_gradient_norm),
        "rank_deficient": layer.rank_deficient,
        "sample_view": _view(layer.sample_view),
        "token_view": _view(layer.token_view),
        "also": list(layer.also),
        "predicted": None if expected is None else {name: finite(value) for name, value in vars(expected).items()},
        **({} if layer.picture is None else {"picture": _picture(layer.picture)}),
        **({} if weight is None else {"weight_spectrum": _weight_spectrum(weight)}),
    }


def _view(view: Representation | None) -> Mapping[str, float | None] | None:
    return None if view is None else {name: finite(value) for name, value in vars(view).items()}


def _picture(picture: Picture) -> dict[str, Any]:
    low, high = picture.overlap_range
    return {
        "eigenvalues": list(picture.eigenvalues),
        "overlaps": {"low": low, "high": high, "counts": list(picture.overlap_counts)},
        "gram": {"size": picture.gram_size, "cosines": picture.gram},
    }


def _weight_spectrum(weight: WeightSpectrum) -> dict[str, Any]:
    return {"out": weight.rows, "in": weight.columns, "values": list(weight.values)}


def finite(value: int | float | None) -> int | float | None:
    """The number, or null where it is undefined or infinite."""
    return value if value is not None and math.isfinite(value) else None
