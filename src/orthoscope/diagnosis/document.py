"""Diagnoses, residual alignments and predictions as documents, from which every view is drawn."""

import platform
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from orthoscope.diagnosis.calibration import CALIBRATION
from orthoscope.diagnosis.expectations import Expected
from orthoscope.diagnosis.next_steps import next_steps
from orthoscope.findings import Finding, State, Verdict
from orthoscope.metrics.jacobians import defined_median
from orthoscope.probe import Layer
from orthoscope.probe.details import Picture, WeightSpectrum
from orthoscope.report import document
from orthoscope.report.document import copied
from orthoscope.theory import Source
from orthoscope.version import VERSION

if TYPE_CHECKING:
    from orthoscope.diagnosis.alignment import Alignment
    from orthoscope.diagnosis.diagnosis import Diagnosis
    from orthoscope.diagnosis.forecast import Depth, Forecast


def diagnosis_document(diagnosis: "Diagnosis", details: bool = True) -> document.DiagnosisDocument:
    """Write down a diagnosis.

    Args:
        diagnosis: What to write down.
        details: Whether to include what only a page draws: spectra, cosines and Gram matrices.
    """
    recording, gradients = diagnosis.recording, diagnosis.gradients
    if details:
        diagnosis.compute_details()
    pictures = diagnosis.pictures if details else [None] * len(recording.layers)
    spectra = diagnosis.weight_spectra if details else {}
    return copied(
        document.DiagnosisDocument,
        diagnosis,
        next_steps=next_steps(diagnosis),
        risk=risk_row(diagnosis.risk),
        findings=tuple(map(_finding, diagnosis.findings)),
        slope=document.Slope(
            value=diagnosis.slope,
            standard_error=diagnosis.slope_standard_error,
            layers=0 if gradients is None else len(gradients.layers),
            unit="e-folds per weight layer toward the input",
        ),
        prediction=document.PredictionSummary(
            reason=diagnosis.expected.reason or None,
            slope=diagnosis.expected_slope,
            sources=source_rows(diagnosis.expected.sources),
        ),
        parameters=recording.parameters,
        samples=recording.samples,
        gradient_of=recording.gradient_source or None,
        input=_layer(recording.input, None),
        layers=tuple(
            _layer(layer, diagnosis.expected.of(layer), picture, spectra.get(layer.name))
            for layer, picture in zip(recording.layers, pictures, strict=True)
        ),
        unobserved=omissions(recording.unobserved),
        residual=None if diagnosis.alignment is None else alignment_document(diagnosis.alignment),
        notes=(*recording.notes, *diagnosis.notes, *(diagnosis.details_notes if details else ())),
        environment=environment(),
    )


def risk_row(risk: float) -> document.Risk:
    """Write down the risk of not training, and what it rests on: networks whose training is known."""
    known = CALIBRATION.document
    held_out = known["held_out"]["orthoscope"]
    return document.Risk(
        value=risk,
        networks=known["networks"] - held_out["networks"],
        accuracy=held_out["accuracy"],
        false_alarms=held_out["false_alarms"],
        tested_on=held_out["networks"],
    )


def environment() -> document.Environment:
    """Return what the numbers were made with."""
    return document.Environment(
        orthoscope=VERSION,
        python=platform.python_version(),
        torch=torch.__version__,
        platform=platform.platform(),
        threads=torch.get_num_threads(),
    )


def omissions(reasons: Mapping[str, str]) -> tuple[document.Omission, ...]:
    """Write down what was left out, by name, and why."""
    return tuple(document.Omission(name=name, reason=reason) for name, reason in reasons.items())


def source_rows(sources: Iterable[Source]) -> tuple[document.Source, ...]:
    """Write down statements and their hypotheses, as text."""
    return tuple(document.Source(source=str(source), assumes=source.assumes) for source in sources)


def _finding(finding: Finding) -> document.Finding:
    measured = finding.measured
    return copied(
        document.Finding,
        finding,
        value=None if measured is None else measured.value,
        standard_error=None if measured is None else measured.standard_error,
        unit=None if measured is None else measured.unit,
    )


def _layer(
    layer: Layer, expected: Expected | None, picture: Picture | None = None, weight: WeightSpectrum | None = None
) -> document.Layer:
    samples, tokens = layer.sample_view, layer.token_view
    return copied(
        document.Layer,
        layer,
        sample_view=None if samples is None else copied(document.View, samples),
        token_view=None if tokens is None else copied(document.View, tokens),
        predicted=None if expected is None else copied(document.Expected, expected),
        picture=None if picture is None else _picture(picture),
        weight_spectrum=None
        if weight is None
        else document.WeightSpectrum(out=weight.rows, in_=weight.columns, values=weight.values),
    )


def _picture(picture: Picture) -> document.Picture:
    low, high = picture.overlap_range
    return document.Picture(
        centered_rank=picture.centered_rank,
        eigenvalues=picture.eigenvalues,
        overlaps=document.Overlaps(low=low, high=high, counts=picture.overlap_counts),
        gram=document.Gram(size=picture.gram_size, cosines=picture.gram),
    )


def alignment_document(alignment: "Alignment") -> document.ResidualDocument:
    """Write down a residual alignment; numbers are medians over samples."""
    scores, whole = alignment.scores, alignment.whole
    return document.ResidualDocument(
        name=alignment.name,
        verdict=alignment.verdict,
        summary=alignment.summary,
        statements=tuple(copied(document.AlignmentStatement, score) for score in alignment.statements),
        samples=alignment.jacobians[0].operator.samples,
        classes=alignment.classes,
        line_shape=defined_median(scores.line_shape),
        step_cosine=defined_median(scores.step_cosine),
        spacing_variation=defined_median(scores.spacing_variation),
        misalignment=defined_median(scores.misalignment),
        reversed_misalignment=defined_median(scores.reversed_misalignment),
        law=document.DepthLaw(**{name: float(value) for name, value in alignment.law._asdict().items()}),
        whole=None
        if whole is None
        else document.LogSingularValues(mean_log=float(whole.mean), spread_log=float(whole.spread)),
        blocks=tuple(_block(alignment, index) for index in range(len(alignment.jacobians))),
        pairs=tuple(tuple(map(defined_median, row)) for row in scores.pairs),
        left_out=omissions(alignment.jacobians.left_out),
        notes=tuple(alignment.notes),
        seconds=alignment.seconds,
        environment=environment(),
    )


def _block(alignment: "Alignment", index: int) -> document.Block:
    block, scores = alignment.jacobians[index], alignment.scores
    others = [other for other in range(len(alignment.jacobians)) if other != index]
    outputs, inputs = block.operator.shape
    error = (block.spectrum.errors[:, 0] / block.singular_values[:, 0]).nan_to_num()
    step = block.output - block.input if block.output.shape == block.input.shape else None
    return document.Block(
        name=block.name,
        skip=block.skip,
        activation=block.activation or None,
        inputs=inputs,
        outputs=outputs,
        singular_values=tuple(map(defined_median, block.singular_values.mT)),
        relative_error=defined_median(error),
        rank_ratio=defined_median(scores.rank_ratio[index]),
        top_energy=defined_median(scores.top_energy[index]),
        misalignment=defined_median(scores.pairs[index, others].nanmean(0)) if others else None,
        step=None if step is None else _median_length(step),
        dead=bool(scores.dead[index].all()),
    )


def _median_length(step: Tensor) -> float:
    return defined_median(torch.linalg.vector_norm(step.double(), dim=-1))


def prediction_document(forecast: "Forecast") -> document.PredictionDocument:
    """Write down a prediction."""
    at_risk, sick = forecast.first(Verdict.AT_RISK), forecast.first(Verdict.SICK)
    return copied(
        document.PredictionDocument,
        forecast,
        at_risk_from=None if at_risk is None else at_risk.depth,
        sick_from=None if sick is None else sick.depth,
        depths=tuple(map(_depth, forecast.depths)),
        not_checked=tuple(copied(document.Unchecked, finding) for finding in forecast.not_checked),
        limit=tuple(copied(document.Limit, prediction) for prediction in forecast.limit),
        sources=source_rows(forecast.sources),
        environment=environment(),
    )


def _depth(depth: "Depth") -> document.Depth:
    return copied(
        document.Depth,
        depth.expected,
        depth=depth.depth,
        overlap_deviation=depth.overlap_deviation,
        gradient_growth=depth.gradient_growth,
        verdict=depth.verdict,
        findings=tuple(copied(document.DepthFinding, one) for one in depth.findings if one.state is State.FOUND),
    )
