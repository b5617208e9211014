"""Documents of a network in training, and of what a step of its optimizer costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from orthoscope.findings import Verdict
from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.diagnosis import DiagnosisDocument
from orthoscope.report.document.parts import NOT_NEGATIVE, POSITIVE, Environment, Omission


@dataclass(frozen=True, kw_only=True)
class Update(Part):
    """What one step of an optimizer did to one matrix, W → W + ΔW; null where undefined or infinite."""

    step: Annotated[int, "Step of its optimizer since the watch began.", POSITIVE]
    optimizer: Annotated[str, "Class of the optimizer."]
    weight: Annotated[str, "Name of the parameter, with [i] for the i-th of several matrices."]
    shape: Annotated[tuple[int, ...], "Rows and columns.", {"items": NOT_NEGATIVE, "minItems": 2, "maxItems": 2}]
    gradient_norm: Annotated[Number | None, "Frobenius norm of the gradient that the optimizer saw."]
    weight_norm: Annotated[Number | None, "Frobenius norm of W before the step."]
    update_norm: Annotated[Number | None, "Frobenius norm of ΔW."]
    relative_size: Annotated[Number | None, "Frobenius norm of ΔW over that of W."]
    relative_spectral_size: Annotated[Number | None, "Spectral norm of ΔW over that of W."]
    rms_operator_norm: Annotated[Number | None, "√(in/out) times the spectral norm of ΔW."]
    spectrum: Annotated[
        tuple[Number | None, ...],
        "Singular values of ΔW: largest, upper quartile, median, lower quartile, smallest.",
        {"minItems": 5, "maxItems": 5},
    ]
    effective_rank: Annotated[Number | None, "Effective rank of ΔW."]
    stable_rank: Annotated[Number | None, "Stable rank of ΔW."]
    semi_orthogonality_defect: Annotated[Number | None, "0 if all singular values of ΔW are equal."]
    update_alignment: Annotated[Number | None, "Cosine of ΔW and W."]
    left_share: Annotated[
        Number | None, "Share of the energy of ΔW in the leading tenth of the left singular vectors of W."
    ]
    right_share: Annotated[Number | None, "The same for the right singular vectors."]
    independence: Annotated[Number | None, "Mean absolute cosine over pairs of rows of W, before the step."]
    independence_change: Annotated[Number | None, "Its change by the step."]
    angle_change: Annotated[Number | None, "Mean change of the angle of two rows, in radians."]
    conformality_defect: Annotated[Number | None, "The mean change of angle per relative size of the update."]


@dataclass(frozen=True, kw_only=True)
class Snapshot(Part):
    """The state of a network after some optimizer steps."""

    step: Annotated[int, "Optimizer steps taken before it.", NOT_NEGATIVE]
    verdict: Annotated[
        Verdict,
        "Until a snapshot is healthy, the verdict of the diagnosis; then by what changed since the first healthy one.",
    ]
    summary: Annotated[str, "One sentence: what was found, or that nothing was."]
    scalars: Annotated[
        Mapping[str, Number], "Numbers for a logger, by name; undefined ones are left out.", {"maxProperties": 8}
    ]
    seconds: Annotated[Number, "Time that the snapshot took.", NOT_NEGATIVE]

    def scalar(self, name: str) -> Number | None:
        """Return a number by its name without the prefix, None where it is undefined."""
        return self.scalars.get(f"orthoscope/{name}")


@dataclass(frozen=True, kw_only=True)
class WatchWarning(Part):
    """What a watch warns of: a number that is not finite, a learning rate, or a network that became worse."""

    kind: Annotated[
        Literal["loss", "gradient", "weights", "learning rate", "network"],
        "What is wrong: the first three are not finite; the network became worse than at its first healthy snapshot.",
    ]
    step: Annotated[int, "Optimizer steps taken before it.", NOT_NEGATIVE]
    sentence: Annotated[str, "What was found, and what to do."]
    layer: Annotated[str | None, "Module or parameter where it begins; null if it is of the whole network."] = None
    value: Annotated[Number | None, "The number that is wrong, such as the learning rate."] = None
    suggestion: Annotated[Number | None, "A better one."] = None


@dataclass(frozen=True, kw_only=True)
class StepLoss(Part):
    """The loss of one step."""

    step: Annotated[int, "Optimizer steps taken before it.", NOT_NEGATIVE]
    loss: Annotated[Number | None, "The loss, summed over the backward passes of the step; null if it is not finite."]


@dataclass(frozen=True, kw_only=True)
class WatchDocument(Part, drawn=True):
    """One network in training: snapshots of it, and what steps of optimizers did to its matrices."""

    schema: Literal["orthoscope.watch/4"] = "orthoscope.watch/4"
    name: Annotated[str, "Class of the network."]
    every: Annotated[int, "Optimizer steps between two snapshots.", POSITIVE]
    steps: Annotated[int, "Optimizer steps taken.", NOT_NEGATIVE]
    history: Annotated[tuple[Snapshot, ...], "All snapshots."]
    latest: Annotated[DiagnosisDocument | None, "The last snapshot in full."]
    last_healthy_step: Annotated[int | None, "Step of the last healthy snapshot; null if there is none.", NOT_NEGATIVE]
    last_healthy: Annotated[DiagnosisDocument | None, "That snapshot in full; absent if it is the last one."] = None
    losses: Annotated[tuple[StepLoss, ...], "The loss of every step, or of evenly spaced ones of a long training."]
    guessing: Annotated[Number | None, "The loss of guessing: of equal probabilities, or of the untrained network."]
    warnings: Annotated[tuple[WatchWarning, ...], "What was wrong, in order."]
    rows: Annotated[tuple[Update, ...], "What recorded steps did to every matrix."]
    skipped: Annotated[tuple[Omission, ...], "Parameters whose updates were not recorded."]
    problems: Annotated[tuple[str, ...], "Snapshots and loggers that failed."]
    stopped: Annotated[str | None, "Why training was to stop; null if it was not."]
    environment: Annotated[Environment, "What the numbers were made with."]


@dataclass(frozen=True, kw_only=True)
class WatchRecordDocument(Part):
    """A line of the log of a network in training: a snapshot, what one step did to its matrices, or a warning."""

    schema: Literal["orthoscope.watch-record/3"] = "orthoscope.watch-record/3"
    run: Annotated[str, "The same in all lines of one watch."]
    name: Annotated[str, "Class of the network."]
    step: Annotated[int, "Optimizer steps taken before it.", NOT_NEGATIVE]
    time: Annotated[Number, "Seconds since 1970."]
    scalars: Annotated[
        Mapping[str, Number], "Numbers for a logger, by name; undefined ones are left out.", {"maxProperties": 8}
    ]
    diagnosis: Annotated[DiagnosisDocument | None, "The snapshot in full."]
    updates: Annotated[tuple[Update, ...], "What the step did to every matrix."]
    losses: Annotated[tuple[StepLoss, ...], "The loss of every step since the line before."]
    warnings: Annotated[tuple[WatchWarning, ...], "What was found to be wrong since the line before."]


@dataclass(frozen=True, kw_only=True)
class PerProcess(Part):
    """A number of the busiest process, and of the average one."""

    max: Annotated[int, "Of the busiest process.", NOT_NEGATIVE]
    mean: Annotated[Number, "Mean over all processes.", NOT_NEGATIVE]


@dataclass(frozen=True, kw_only=True)
class StepCost(Part):
    """The cost of one step of Muon on some number of processes."""

    layout: Annotated[Literal["ddp", "fsdp", "hsdp"], "How parameters are spread over processes."]
    ranks: Annotated[int, "Number of processes.", POSITIVE]
    dtype: Annotated[str, "Type of parameters, momentum and messages."]
    parameters: Annotated[int, "Number of parameters.", POSITIVE]
    elements: Annotated[int, "Number of their elements.", POSITIVE]
    bytes_sent: Annotated[PerProcess, "Bytes sent to other processes."]
    bytes_sent_by_call: Annotated[Mapping[str, PerProcess], "The same for each collective, in the order of the calls."]
    momentum_bytes: Annotated[PerProcess, "Bytes of the momentum."]
    temporary_bytes: Annotated[PerProcess, "Bytes of updates and buffers at the worst moment."]
    flops: Annotated[PerProcess, "Floating point operations."]
    busiest_to_mean: Annotated[Number, "Work of the busiest process over the mean.", POSITIVE]
    ranks_with_work: Annotated[int, "Processes that have work.", POSITIVE]


@dataclass(frozen=True, kw_only=True)
class MuonPlanDocument(Part):
    """What a step of Muon would cost, for one list of parameters on several clusters."""

    schema: Literal["orthoscope.muon-plan/1"] = "orthoscope.muon-plan/1"
    plans: Annotated[tuple[StepCost, ...], "One for each cluster.", {"minItems": 1}]
