"""Results that can be shown: diagnoses, residual alignments and predictions as documents, and every view of one."""

import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch

from orthoscope import report
from orthoscope.diagnosis.expectations import Expected
from orthoscope.diagnosis.rules import CALIBRATION
from orthoscope.findings import Finding, State, Verdict
from orthoscope.metrics.jacobians import defined_median
from orthoscope.probe import Layer, Trunk
from orthoscope.probe.details import Picture, WeightSpectrum
from orthoscope.probe.parameters import ParameterTable
from orthoscope.report import document
from orthoscope.report.document import Document, copied, to_data
from orthoscope.theory import Source
from orthoscope.version import VERSION

if TYPE_CHECKING:
    from orthoscope.diagnosis.alignment import Alignment
    from orthoscope.diagnosis.diagnosis import Diagnosis
    from orthoscope.diagnosis.forecast import Depth, Forecast


class Viewed(ABC):
    """A result that prints as a table, shows as a page in a notebook, and can be saved."""

    @abstractmethod
    def as_document(self, details: bool = True) -> Document:
        """Return everything that views show, in the dataclasses of `orthoscope.report.document`.

        Args:
            details: Whether to compute what only a page draws.
        """

    def document(self) -> dict[str, Any]:
        """Return everything as plain data, in the versioned schema."""
        data: dict[str, Any] = to_data(self.as_document())
        return data

    def to_json(self) -> str:
        """The document as strict JSON: no nan, no infinity."""
        return json.dumps(self.document(), allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `.html` or `.json` atomically."""
        report.write(path, [self.as_document()])

    def __str__(self) -> str:
        return report.text(self.as_document(details=False))

    __repr__ = __str__  # at a prompt, the table

    def to_frame(self, library: str = "pandas") -> Any:
        """A DataFrame of "pandas" or "polars", a row for every layer, depth, block or snapshot; see `report.frame`."""
        return report.frame(self.as_document(details=False), library)

    def plot(self) -> Any:
        """A matplotlib `Figure` of the same numbers along the network, what theory expects dashed.

        It belongs to no window and no pyplot state: `.savefig("profiles.svg")` writes it.
        """
        return report.figure(self.as_document(details=False))

    def _repr_html_(self) -> str:
        return report.notebook(self.as_document())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show: the page, and the table where only text can be shown."""
        bundle = {"text/plain": str(self), "text/html": self._repr_html_()}
        wanted = {kind for kind in bundle if not include or kind in include} - set(exclude or ())
        return {kind: content for kind, content in bundle.items() if kind in wanted}


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
        risk=risk_row(diagnosis.risk, diagnosis.optimizer if diagnosis.steps_taken else None),
        findings=tuple(map(_finding, diagnosis.findings)),
        slope=document.Slope(
            value=diagnosis.slope,
            standard_error=diagnosis.slope_standard_error,
            layers=0 if gradients is None else round(gradients.steps) + 1,
            unit="e-folds per weight layer toward the input",
        ),
        prediction=document.PredictionSummary(
            reason=diagnosis.expected.reason or None,
            slope=diagnosis.expected_slope,
            sources=source_rows(diagnosis.expected.sources),
        ),
        parameters=recording.parameters,
        learning=_learning(recording.parameter_table),
        initial_loss=None if recording.initial_loss is None else copied(document.InitialLoss, recording.initial_loss),
        samples=recording.samples,
        gradient_of=recording.gradient_source or None,
        input=_layer(recording.input, None),
        layers=tuple(
            _layer(layer, diagnosis.expected.of(layer), picture, spectra.get(layer.name))
            for layer, picture in zip(recording.layers, pictures, strict=True)
        ),
        unobserved=omissions(recording.unobserved),
        attention=tuple(copied(document.Attention, one) for one in recording.attention) or None,
        stream=None if recording.trunk is None else _stream(recording.trunk),
        time=tuple(copied(document.OverTime, one) for one in recording.time) or None,
        experts=tuple(copied(document.Experts, one) for one in recording.experts) or None,
        residual=None if diagnosis.alignment is None else alignment_document(diagnosis.alignment),
        notes=(*recording.notes, *diagnosis.notes, *(diagnosis.details_notes if details else ())),
        environment=environment(),
    )


def _stream(trunk: Trunk) -> tuple[document.StreamPoint, ...]:
    return tuple(copied(document.StreamPoint, point) for point in trunk.points)


def _learning(table: ParameterTable) -> document.Learning:
    return document.Learning(
        trainable=table.trainable,
        connected=table.connected,
        sgd_decrease=table.first_decrease("sgd"),
        sign_decrease=table.first_decrease("adamw"),
    )


def risk_row(risk: float, optimizer: str | None = None) -> document.Risk:
    """Write down the risk of not training, and what it rests on: networks whose training is known.

    Args:
        risk: The probability.
        optimizer: The one whose first steps the probability is made of; None: it is of one pass.
    """
    known = CALIBRATION.document
    held_out = known["held_out"]["orthoscope"]
    if optimizer is not None:
        known = known["after_steps"]
        held_out = known["by_optimizer"][optimizer]
    return document.Risk(
        value=risk,
        networks=known["fitted_to"],
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
    return copied(
        document.ResidualDocument,
        alignment,
        samples=alignment.jacobians[0].operator.samples,
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
        environment=environment(),
    )


def _block(alignment: "Alignment", index: int) -> document.Block:
    block, scores = alignment.jacobians[index], alignment.scores
    others = [other for other in range(len(alignment.jacobians)) if other != index]
    outputs, inputs = block.operator.shape
    error = (block.spectrum.errors[:, 0] / block.singular_values[:, 0]).nan_to_num()
    step = block.output - block.input if block.output.shape == block.input.shape else None
    return copied(
        document.Block,
        block,
        activation=block.activation or None,
        inputs=inputs,
        outputs=outputs,
        singular_values=tuple(map(defined_median, block.singular_values.mT)),
        relative_error=defined_median(error),
        rank_ratio=defined_median(scores.rank_ratio[index]),
        top_energy=defined_median(scores.top_energy[index]),
        misalignment=defined_median(scores.pairs[index, others].nanmean(0)) if others else None,
        step=None if step is None else defined_median(torch.linalg.vector_norm(step.double(), dim=-1)),
        dead=bool(scores.dead[index].all()),
    )


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
