"""The document of a diagnosis: verdict, findings, and the numbers of every layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from orthoscope.findings import State, Status, Symptom, Verdict
from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.inside import Attention, Experts, OverTime, StreamPoint
from orthoscope.report.document.parts import NOT_NEGATIVE, Environment, Omission, Prescription, Source
from orthoscope.report.document.residual import ResidualDocument


@dataclass(frozen=True, kw_only=True)
class View(Part):
    """Metrics of the samples at a layer, or of the tokens within a sequence; null where undefined.

    A metric that is added has the default None, so that documents of before can still be read: it is absent there.
    """

    gap: Annotated[
        Number | None, "Orthogonality gap: 0 for orthogonal samples of equal length, near 1 for one direction."
    ]
    isometry_gap: Annotated[Number | None, "Isometry gap; null also where it is infinite: see rank_deficient."]
    effective_rank: Annotated[Number | None, "Exponential of the entropy of the singular values."]
    stable_rank: Annotated[Number | None, "Squared Frobenius norm over squared spectral norm."]
    numerical_rank: Annotated[Number | None, "Number of singular values above rounding."]
    overlap: Annotated[Number | None, "Mean cosine similarity over pairs."]
    mean_energy: Annotated[Number | None, "Share of the energy that is in the mean of the batch."]
    length_spread: Annotated[Number | None, "Standard deviation of the samples' lengths over their mean."] = None


@dataclass(frozen=True, kw_only=True)
class Expected(Part):
    """The numbers of a layer that theory predicts; null where it predicts none."""

    rms: Annotated[Number | None, "Root mean square of the output."]
    overlap: Annotated[Number | None, "Mean cosine similarity over pairs of samples."]
    gap: Annotated[Number | None, "Orthogonality gap."]
    effective_rank: Annotated[Number | None, "Effective rank of the samples."]
    isometry_gap: Annotated[Number | None, "Isometry gap."]
    gradient_norm: Annotated[Number | None, "Norm of the gradient with respect to the output."]


@dataclass(frozen=True, kw_only=True)
class Overlaps(Part):
    """Histogram of the cosines of pairs of samples, in equal bins from the least to the largest."""

    low: Annotated[Number, "Least cosine."]
    high: Annotated[Number, "Largest cosine."]
    counts: Annotated[tuple[int, ...], "Pairs in each bin.", {"items": NOT_NEGATIVE, "minItems": 1, "maxItems": 24}]


@dataclass(frozen=True, kw_only=True)
class Gram(Part):
    """Cosines of evenly spaced samples i < j, row by row."""

    size: Annotated[int, "Number of samples.", {"minimum": 2, "maximum": 24}]
    cosines: Annotated[
        str, "Signed bytes of 127 times the cosine, in base64.", {"contentEncoding": "base64", "maxLength": 368}
    ]


@dataclass(frozen=True, kw_only=True)
class Picture(Part):
    """What a page draws of the samples at a layer, rounded."""

    centered_rank: Annotated[Number | None, "Effective rank of the samples around their mean; null if all are equal."]
    eigenvalues: Annotated[
        tuple[Number, ...],
        "Every k-th eigenvalue of n·G/tr G, largest first, where G is the Gram matrix of n samples; their mean is 1.",
        {"items": NOT_NEGATIVE, "minItems": 1, "maxItems": 64},
    ]
    overlaps: Annotated[Overlaps, "Histogram of the cosines of pairs of samples."]
    gram: Annotated[Gram, "Cosines of some of the pairs, to be drawn as a matrix."]


@dataclass(frozen=True, kw_only=True)
class WeightSpectrum(Part):
    """Singular values of the weight matrix of a layer."""

    out: Annotated[int, "Rows of the matrix.", {"minimum": 1}]
    in_: Annotated[int, "Columns of the matrix.", {"minimum": 1}]
    values: Annotated[
        tuple[Number, ...],
        "Every k-th singular value, largest first.",
        {"items": NOT_NEGATIVE, "minItems": 1, "maxItems": 32},
    ]


@dataclass(frozen=True, kw_only=True)
class Layer(Part):
    """The output of one module call."""

    name: Annotated[str, "Name of the module, as in `model.named_modules()`."]
    call: Annotated[int, "0 for the first call of this module in the pass.", NOT_NEGATIVE]
    kind: Annotated[str, "Class of the module."]
    depth: Annotated[int | None, "Weight layers from the input; null without a weight matrix.", NOT_NEGATIVE]
    shape: Annotated[tuple[int, ...], "Shape of the output.", {"items": NOT_NEGATIVE}]
    samples: Annotated[int, "Number of samples that the metrics compare.", NOT_NEGATIVE]
    units: Annotated[int, "Numbers of one sample.", NOT_NEGATIVE]
    status: Annotated[Status, "What kind of output it is; only measured ones have metrics."]
    rms: Annotated[Number | None, "Root mean square of the output."]
    gradient_norm: Annotated[Number | None, "Norm of the gradient with respect to the output; null if none arrived."]
    weight_gradient_norm: Annotated[Number | None, "Norm of the gradient with respect to the weight."]
    rank_deficient: Annotated[bool, "Whether the samples are linearly dependent, to float64."]
    sample_view: Annotated[View | None, "Metrics of the samples; null where nothing could be measured."]
    token_view: Annotated[View | None, "Metrics of the tokens within a sequence; null without tokens."]
    also: Annotated[tuple[str, ...], "Modules that returned the very same tensor."]
    predicted: Annotated[Expected | None, "What theory predicts here; null where it says nothing."]
    picture: Annotated[Picture | None, "What a page draws; absent where there is nothing to draw."] = None
    weight_spectrum: Annotated[WeightSpectrum | None, "Spectrum of the weight; absent where it is expensive."] = None

    @property
    def possible_rank(self) -> int:
        """Largest rank that the samples can have here: their number, at most the units."""
        return min(self.samples, self.units)

    @property
    def possible_centered_rank(self) -> int:
        """Largest rank around the mean: centering takes one sample."""
        return min(self.samples - 1, self.units)

    def measured(self, key: str) -> Number | None:
        """Return a quantity by its key, from where it is stored: the layer, its samples or its picture."""
        for part in (self, self.sample_view, self.picture):
            if part is not None and key in part.__dataclass_fields__:
                value: Number | None = getattr(part, key)
                return value
        return None

    def expected(self, key: str) -> Number | None:
        """Return the prediction of the same quantity, None where theory has none."""
        return getattr(self.predicted, key, None)


@dataclass(frozen=True, kw_only=True)
class Finding(Part):
    """The outcome of one check."""

    check: Annotated[str, "Name of the check."]
    symptom: Annotated[Symptom, "What the check looks for."]
    state: Annotated[State, "Whether it was found, was not found, or could not be checked."]
    severity: Annotated[Verdict, "How bad it is."]
    layer: Annotated[str | None, "Module where it begins."]
    cause: Annotated[str | None, 'Module to change, or "input"; null if no single one explains it.'] = None
    reason: Annotated[str, "One sentence: what was found, or why it was not checked."]
    value: Annotated[Number | None, "What was measured."]
    standard_error: Annotated[Number | None, "Its standard error, where it is an estimate."]
    unit: Annotated[str | None, "Unit of the value."]
    threshold: Annotated[Number | None, "The limit that was crossed, or the nearest one that was not."]


@dataclass(frozen=True, kw_only=True)
class Risk(Part):
    """The probability that the network does not train, and what this number rests on."""

    value: Annotated[Number | None, "Probability of not training; null where nothing could be judged."]
    networks: Annotated[int, "Networks that were trained to fit it."]
    accuracy: Annotated[Number, "Share of other networks for which the verdict was right."]
    false_alarms: Annotated[Number, "Share of other networks that train and were called sick."]
    tested_on: Annotated[int, "Number of those other networks."]


@dataclass(frozen=True, kw_only=True)
class InitialLoss(Part):
    """The loss before training, beside that of outputs that do not depend on the input."""

    value: Annotated[Number | None, "Loss of the batch; null if it is nan or infinite."]
    kind: Annotated[str, "Kind of the loss, where it is recognized; else empty."]
    guessing: Annotated[Number | None, "Loss of a constant output, such as equal logits; null if it is not known."]
    best_constant: Annotated[Number | None, "Loss of the best constant output on these targets; null if unknown."]
    reason: Annotated[str, "Why the loss of guessing is not known; empty if it is."]


@dataclass(frozen=True, kw_only=True)
class Learning(Part):
    """What can be trained, and what a first step does to the loss, to first order and per unit of learning rate."""

    trainable: Annotated[int, "Trainable parameters.", NOT_NEGATIVE]
    connected: Annotated[int, "Trainable parameters that are connected with the loss.", NOT_NEGATIVE]
    sgd_decrease: Annotated[Number | None, "Decrease by a step along the gradient."]
    sign_decrease: Annotated[Number | None, "Decrease by a step along the sign of the gradient, as the first of Adam."]


@dataclass(frozen=True, kw_only=True)
class Slope(Part):
    """Growth of the logarithm of the gradient norm per weight layer toward the input."""

    value: Annotated[Number | None, "Slope of the fitted line; null if no gradient was measured."]
    standard_error: Annotated[Number | None, "Standard error of the slope."]
    layers: Annotated[int, "Weight layers that the line spans.", NOT_NEGATIVE]
    unit: Annotated[str, "Unit of the slope."]


@dataclass(frozen=True, kw_only=True)
class PredictionSummary(Part):
    """What theory says of the whole network; the numbers of its layers are with the layers."""

    reason: Annotated[str | None, "Why there is no prediction; null if there is one."]
    slope: Annotated[Number | None, "Predicted slope, at the layers where the slope is measured."]
    sources: Annotated[tuple[Source, ...], "Statements that the prediction rests on."]


@dataclass(frozen=True, kw_only=True)
class SeedRange(Part):
    """The least and the largest value of one quantity over seeds, layer by layer; null where it is never defined."""

    low: Annotated[tuple[Number | None, ...], "Least value at each layer."]
    high: Annotated[tuple[Number | None, ...], "Largest value at each layer."]


@dataclass(frozen=True, kw_only=True)
class Seeds(Part):
    """The same network drawn with several seeds; the diagnosis is of the first."""

    seeds: Annotated[tuple[int, ...], "The seeds.", {"items": NOT_NEGATIVE, "minItems": 2}]
    verdicts: Annotated[tuple[Verdict, ...], "Verdict of each seed."]
    gaps: Annotated[tuple[Number | None, ...], "Orthogonality gap of each seed."]
    slopes: Annotated[tuple[Number | None, ...], "Gradient slope of each seed."]
    ranges: Annotated[Mapping[str, SeedRange], "Range over seeds at every layer, by the key of the quantity."]


@dataclass(frozen=True, kw_only=True)
class DiagnosisDocument(Part, drawn=True):
    """One network: verdict, findings, and the numbers of every layer."""

    schema: Literal["orthoscope.diagnosis/3"] = "orthoscope.diagnosis/3"
    name: Annotated[str, "Name of the network, or what was asked for."]
    verdict: Annotated[Verdict, "What follows from the risk."]
    optimizer: Annotated[
        Literal["adamw", "sgd", "muon"] | None, "Optimizer that the network is to be trained with, if that was said."
    ] = None
    summary: Annotated[str, "One sentence: what was found, or that nothing was."]
    next_steps: Annotated[tuple[str, ...], "What to do now, one sentence each; a command is between backquotes."]
    risk: Annotated[Risk, "Probability that the network does not train."]
    symptoms: Annotated[tuple[Symptom, ...], "What was found, each once.", {"uniqueItems": True}]
    findings: Annotated[tuple[Finding, ...], "The outcome of every check."]
    slope: Annotated[Slope, "Growth of the gradient toward the input."]
    gap: Annotated[Number | None, "Orthogonality gap at the quoted layer; null if nothing was measured."]
    quoted_layer: Annotated[
        int | None,
        "Index of the layer whose gap and rank are quoted for the network: the last where samples can have the most "
        "directions; null if nothing was measured.",
        NOT_NEGATIVE,
    ]
    prediction: Annotated[PredictionSummary, "What theory says of the whole network."]
    parameters: Annotated[int, "Number of parameters.", NOT_NEGATIVE]
    samples: Annotated[int, "Samples in the batch.", NOT_NEGATIVE]
    learning: Annotated[
        Learning | None, "What can be trained, and what a first step does; absent in older documents."
    ] = None
    initial_loss: Annotated[InitialLoss | None, "The loss before training; absent if none was given."] = None
    gradient_of: Annotated[str | None, "What was differentiated; null if nothing could be."]
    input: Annotated[Layer, "The batch; theory starts there.", {"properties": {"predicted": {"type": "null"}}}]
    layers: Annotated[tuple[Layer, ...], "Every module call, in order."]
    unobserved: Annotated[tuple[Omission, ...], "Modules that were not seen."]
    attention: Annotated[tuple[Attention, ...] | None, "Every attention; absent if none was seen."] = None
    stream: Annotated[tuple[StreamPoint, ...] | None, "The residual stream; absent if there is none."] = None
    time: Annotated[tuple[OverTime, ...] | None, "Every recurrent layer; absent if there is none."] = None
    experts: Annotated[tuple[Experts, ...] | None, "Every mixture of experts; absent if there is none."] = None
    residual: Annotated[ResidualDocument | None, "How residual blocks align; absent unless the diagnosis was deep."] = (
        None
    )
    prescriptions: Annotated[
        tuple[Prescription, ...] | None, "What to change, what is kept first; absent unless a fix was tried."
    ] = None
    seeds: Annotated[Seeds | None, "Several seeds; absent for one."] = None
    notes: Annotated[tuple[str, ...], "Remarks on the measurement."]
    seconds: Annotated[Number, "Time that the diagnosis took.", NOT_NEGATIVE]
    environment: Annotated[Environment, "What the numbers were made with."]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quoted_layer is not None and not 0 <= self.quoted_layer < len(self.layers):
            raise ValueError(f"has quoted_layer {self.quoted_layer}, expected the index of one of its layers")

    @property
    def quoted(self) -> Layer | None:
        """The layer whose gap and rank are quoted for the network."""
        return None if self.quoted_layer is None else self.layers[self.quoted_layer]

    def findings_in(self, state: State) -> list[Finding]:
        """Return the findings in one state, worst first, otherwise in the order of the rules."""
        chosen = [finding for finding in self.findings if finding.state is state]
        return sorted(chosen, key=lambda finding: -finding.severity.rank)

    @property
    def marks(self) -> dict[int, list[Symptom]]:
        """Where symptoms begin: index in `layers` to symptoms, each once, at the layer of its worst finding."""
        # A name can be called several times; the document does not say which call, so the first is marked.
        place: dict[str, int] = {}
        for index, layer in enumerate(self.layers):
            place.setdefault(layer.name, index)
        begins: dict[int, list[Symptom]] = {}
        for finding in self.findings_in(State.FOUND):
            index = place.get(finding.layer, -1) if finding.layer is not None else -1
            if index >= 0 and not any(finding.symptom in symptoms for symptoms in begins.values()):
                begins.setdefault(index, []).append(finding.symptom)
        return begins

    @property
    def first_sick(self) -> int | None:
        """Where the worst finding that names a layer begins: an index in `layers`."""
        return next(iter(self.marks), None)


@dataclass(frozen=True, kw_only=True)
class ReportDocument(Part):
    """Several diagnoses in one file."""

    schema: Literal["orthoscope.report/3"] = "orthoscope.report/3"
    diagnoses: Annotated[tuple[DiagnosisDocument, ...], "The diagnoses."]
