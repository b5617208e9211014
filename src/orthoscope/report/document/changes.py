"""Documents of a change: a comparison of two diagnoses, a fix, and its confirmation by a short training."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from orthoscope.findings import Symptom, Verdict
from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.diagnosis import DiagnosisDocument
from orthoscope.report.document.parts import NOT_NEGATIVE, Environment, Prescription


@dataclass(frozen=True, kw_only=True)
class Verdicts(Part):
    """The verdict before and after a change."""

    before: Annotated[Verdict, "Before the change."]
    after: Annotated[Verdict, "After the change."]


@dataclass(frozen=True, kw_only=True)
class NumberPair(Part):
    """One number before and after a change."""

    name: Annotated[str, "Name of the number."]
    before: Annotated[Number | None, "Before the change."]
    after: Annotated[Number | None, "After the change."]
    unit: Annotated[str, "Its unit."]


@dataclass(frozen=True, kw_only=True)
class ChangedFinding(Part):
    """What was found in only one of two networks."""

    check: Annotated[str, "Name of the check."]
    symptom: Annotated[Symptom, "What the check looks for."]
    severity: Annotated[Verdict, "How bad it is."]
    layer: Annotated[str | None, "Module where it begins."]
    reason: Annotated[str, "One sentence: what was found."]


@dataclass(frozen=True, kw_only=True)
class KindPair(Part):
    """The class of a module before and after a change; null where it was not there."""

    before: Annotated[str | None, "Before the change."]
    after: Annotated[str | None, "After the change."]


@dataclass(frozen=True, kw_only=True)
class LayerPair(Part):
    """One module call before and after a change; null where it was not there."""

    name: Annotated[str, "Name of the module."]
    call: Annotated[int, "0 for the first call of this module in the pass.", NOT_NEGATIVE]
    kind: Annotated[KindPair, "Class of the module."]
    depth: Annotated[int | None, "Weight layers from the input; null without a weight matrix."]
    before: Annotated[int | None, "Index of the layer before the change.", NOT_NEGATIVE]
    after: Annotated[int | None, "Index of the layer after the change.", NOT_NEGATIVE]


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument(Part, drawn=True):
    """Two diagnoses whole, and what changed between them."""

    schema: Literal["orthoscope.comparison/2"] = "orthoscope.comparison/2"
    name: Annotated[str, "Name of the network after the change."]
    verdict: Annotated[Verdicts, "Both verdicts."]
    improved: Annotated[bool, "Whether what was sick or at risk improved and what was healthy stayed so."]
    summary: Annotated[str, "One sentence: what changed."]
    numbers: Annotated[tuple[NumberPair, ...], "The main numbers of the network."]
    vanished: Annotated[tuple[ChangedFinding, ...], "What was found before and is not found any more."]
    appeared: Annotated[tuple[ChangedFinding, ...], "What is found now and was not before."]
    layers: Annotated[tuple[LayerPair, ...], "Every module call, in order; what is gone comes last."]
    before: Annotated[DiagnosisDocument, "Diagnosis before the change."]
    after: Annotated[DiagnosisDocument, "Diagnosis after the change."]
    environment: Annotated[Environment, "What the numbers were made with."]

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in self.layers:
            for index, whole in ((pair.before, self.before), (pair.after, self.after)):
                if index is not None and index >= len(whole.layers):
                    raise ValueError(f"has index {index} for layer {pair.name!r}, expected that of one of its layers")


@dataclass(frozen=True, kw_only=True)
class Run(Part):
    """One training at one learning rate."""

    learning_rate: Annotated[Number, "The learning rate.", {"exclusiveMinimum": 0}]
    final: Annotated[Number | None, "Mean loss of the last steps; null if it is not finite."]
    best: Annotated[Number | None, "Least loss; null if it is not finite."]
    stopped: Annotated[str, "Why it ended early; empty if it did not."]
    losses: Annotated[tuple[Number | None, ...], "Loss of every step; null where it is not finite."]


@dataclass(frozen=True, kw_only=True)
class ConfirmationDocument(Part, drawn=True):
    """A short training at several learning rates, beside guessing and beside a shallow network."""

    schema: Literal["orthoscope.confirmation/1"] = "orthoscope.confirmation/1"
    name: Annotated[str, "Name of the network."]
    verdict: Annotated[Verdict, "Verdict that is confirmed or refuted."]
    outcome: Annotated[str, "What became of the training.", {"enum": ["trains", "does not train", "undecided"]}]
    confirmed: Annotated[bool | None, "Whether the verdict was right; null if training does not decide it."]
    summary: Annotated[str, "One sentence: the loss, beside the loss of guessing and of the reference."]
    final_loss: Annotated[Number | None, "The best over learning rates; null if all diverged."]
    guessing_loss: Annotated[Number | None, "Loss of the best constant output."]
    reference_loss: Annotated[Number | None, "Loss of the reference after the same training."]
    reference: Annotated[str, "What the reference is."]
    source: Annotated[str, "Where the data came from."]
    steps: Annotated[int, "Steps of every training.", {"minimum": 10}]
    runs: Annotated[tuple[Run, ...], "One training for each learning rate."]
    environment: Annotated[Environment, "What the numbers were made with."]


class FixOutcome(StrEnum):
    """How a fix ended."""

    FIXED = "fixed"  # healthy now
    IMPROVED = "improved"  # better by the rule, but not healthy
    HEALTHY = "healthy before"
    TRAINED = "trained weights left alone"
    REFUTED = "refuted by training"  # what the verdict calls better does not train, or the network trains as it is
    NOTHING_HELPED = "nothing helped"


@dataclass(frozen=True, kw_only=True)
class Confirmations(Part):
    """Short trainings of the network before and after a fix."""

    before: Annotated[ConfirmationDocument, "Before the fix."]
    after: Annotated[ConfirmationDocument, "After the fix."]


@dataclass(frozen=True, kw_only=True)
class FixDocument(Part, drawn=True):
    """What was done to a copy of a network, what else was considered, and the network before and after."""

    schema: Literal["orthoscope.fix/2"] = "orthoscope.fix/2"
    name: Annotated[str, "Name of the network."]
    outcome: Annotated[FixOutcome, "How the fix ended."]
    sentence: Annotated[str, "One sentence: what was done and what came of it."]
    verdict: Annotated[Verdicts, "Both verdicts."]
    steps: Annotated[tuple[Prescription, ...], "Changes that were made, in order."]
    plan: Annotated[tuple[Prescription, ...], "All changes that were considered."]
    snippet: Annotated[str, "Code that makes the changes again; empty if there are none."]
    comparison: Annotated[ComparisonDocument, "The network before and after."]
    confirmation: Annotated[Confirmations | None, "Short trainings before and after; null if none was made."]
    environment: Annotated[Environment, "What the numbers were made with."]
