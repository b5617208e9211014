"""Diagnoses, residual alignments and predictions as plain data: the versioned documents that views are drawn from."""

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from orthoscope.diagnosis.calibration import CALIBRATION
from orthoscope.diagnosis.expectations import Expected
from orthoscope.findings import Finding, State, Verdict
from orthoscope.metrics.jacobians import defined_median
from orthoscope.probe import Layer, Representation
from orthoscope.probe.details import Picture, WeightSpectrum
from orthoscope.theory import Source
from orthoscope.version import VERSION

if TYPE_CHECKING:
    from orthoscope.diagnosis.alignment import Alignment, Score
    from orthoscope.diagnosis.diagnosis import Diagnosis
    from orthoscope.diagnosis.forecast import Depth, Forecast

SCHEMA = "orthoscope.diagnosis/3"


def document(diagnosis: "Diagnosis", details: bool = True) -> dict[str, Any]:
    """Return a diagnosis as strict JSON: what is undefined or infinite is null, and a flag says which.

    Args:
        diagnosis: What to write down.
        details: Whether to include what only a page draws: spectra, cosines and Gram matrices.
    """
    recording, gradients = diagnosis.recording, diagnosis.gradients
    if details:
        diagnosis.compute_details()
    pictures = diagnosis.pictures if details else [None] * len(recording.layers)
    spectra = diagnosis.weight_spectra if details else {}
    return {
        "schema": SCHEMA,
        "name": diagnosis.name,
        "verdict": str(diagnosis.verdict),
        "summary": diagnosis.summary,
        "next_steps": [],
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
        "quoted_layer": diagnosis.quoted_layer,
        "prediction": _prediction(diagnosis),
        "parameters": recording.parameters,
        "samples": recording.samples,
        "gradient_of": recording.gradient_source or None,
        "input": _layer(recording.input, None),
        "layers": [
            _layer(layer, diagnosis.expected.of(layer), picture, spectra.get(layer.name))
            for layer, picture in zip(recording.layers, pictures, strict=True)
        ],
        "unobserved": [{"name": name, "reason": why} for name, why in recording.unobserved.items()],
        **({} if diagnosis.alignment is None else {"residual": diagnosis.alignment.document()}),
        "notes": [*recording.notes, *diagnosis.notes, *(diagnosis.details_notes if details else ())],
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


def _layer(
    layer: Layer, expected: Expected | None, picture: Picture | None = None, weight: WeightSpectrum | None = None
) -> dict[str, Any]:
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
        **({} if picture is None else {"picture": _picture(picture)}),
        **({} if weight is None else {"weight_spectrum": _weight_spectrum(weight)}),
    }


def _view(view: Representation | None) -> Mapping[str, float | None] | None:
    return None if view is None else {name: finite(value) for name, value in vars(view).items()}


def _picture(picture: Picture) -> dict[str, Any]:
    low, high = picture.overlap_range
    return {
        "centered_rank": finite(picture.centered_rank),
        "eigenvalues": list(picture.eigenvalues),
        "overlaps": {"low": low, "high": high, "counts": list(picture.overlap_counts)},
        "gram": {"size": picture.gram_size, "cosines": picture.gram},
    }


def _weight_spectrum(weight: WeightSpectrum) -> dict[str, Any]:
    return {"out": weight.rows, "in": weight.columns, "values": list(weight.values)}


def finite(value: int | float | None) -> int | float | None:
    """The number, or null where it is undefined or infinite."""
    return value if value is not None and math.isfinite(value) else None


RESIDUAL_SCHEMA = "orthoscope.residual/1"


def alignment_document(alignment: "Alignment") -> dict[str, Any]:
    """Strict JSON: what is undefined or infinite is null; numbers are medians over samples."""
    scores = alignment.scores
    return {
        "schema": RESIDUAL_SCHEMA,
        "name": alignment.name,
        "verdict": alignment.verdict,
        "summary": alignment.summary,
        "statements": [_statement(score) for score in alignment.statements],
        "samples": alignment.jacobians[0].operator.samples,
        "classes": alignment.classes,
        "line_shape": _middle(scores.line_shape),
        "step_cosine": _middle(scores.step_cosine),
        "spacing_variation": _middle(scores.spacing_variation),
        "misalignment": _middle(scores.misalignment),
        "reversed_misalignment": _middle(scores.reversed_misalignment),
        "law": {name: finite(float(value)) for name, value in alignment.law._asdict().items()},
        "whole": None
        if alignment.whole is None
        else {"mean_log": finite(float(alignment.whole.mean)), "spread_log": finite(float(alignment.whole.spread))},
        "blocks": [_block(alignment, index) for index in range(len(alignment.jacobians))],
        "pairs": [[_middle(pair) for pair in row] for row in scores.pairs],
        "left_out": [{"name": name, "reason": why} for name, why in alignment.jacobians.left_out.items()],
        "notes": list(alignment.notes),
        "seconds": alignment.seconds,
        "environment": environment(),
    }


def _statement(score: "Score") -> dict[str, Any]:
    return {
        "key": score.key,
        "statement": score.statement,
        "quantity": score.quantity,
        "value": finite(score.value),
        "limit": score.limit,
        "above": score.above,
        "holds": score.holds,
    }


def _block(alignment: "Alignment", index: int) -> dict[str, Any]:
    block, scores = alignment.jacobians[index], alignment.scores
    others = [other for other in range(len(alignment.jacobians)) if other != index]
    outputs, inputs = block.operator.shape
    error = (block.spectrum.errors[:, 0] / block.singular_values[:, 0]).nan_to_num()
    step = block.output - block.input if block.output.shape == block.input.shape else None
    return {
        "name": block.name,
        "skip": block.skip,
        "activation": block.activation or None,
        "inputs": inputs,
        "outputs": outputs,
        "singular_values": [_middle(value) for value in block.singular_values.mT],
        "relative_error": _middle(error),
        "rank_ratio": _middle(scores.rank_ratio[index]),
        "top_energy": _middle(scores.top_energy[index]),
        "misalignment": _middle(scores.pairs[index, others].nanmean(0)) if others else None,
        "step": None if step is None else _middle(torch.linalg.vector_norm(step.double(), dim=-1)),
        "dead": bool(scores.dead[index].all()),
    }


def _middle(values: Tensor) -> float | None:
    return finite(defined_median(values))


PREDICTION_SCHEMA = "orthoscope.prediction/1"


def prediction_document(forecast: "Forecast") -> dict[str, Any]:
    """Strict JSON: what is undefined or infinite is null."""
    at_risk, sick = forecast.first(Verdict.AT_RISK), forecast.first(Verdict.SICK)
    return {
        "schema": PREDICTION_SCHEMA,
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
