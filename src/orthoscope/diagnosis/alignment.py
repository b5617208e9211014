"""Residual alignment of a network: the four scores of li2023, each with the limit that decides it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import nn

from orthoscope.diagnosis.document import Viewed, alignment_document
from orthoscope.metrics import Isometry, ResidualAlignment, dynamical_isometry, residual_alignment
from orthoscope.metrics.jacobians import DepthLaw, defined_median, depth_law
from orthoscope.probe import ResidualJacobians, layer_jacobians, residual_jacobians
from orthoscope.probe.batches import as_call
from orthoscope.probe.hooks import class_name, unwrapped
from orthoscope.probe.samples import Call, first_samples
from orthoscope.report.document import AlignmentStatement, ResidualDocument

ALIGNED, PARTLY, NOT_ALIGNED, UNKNOWN = "ALIGNED", "PARTLY ALIGNED", "NOT ALIGNED", "UNKNOWN"
# What a verdict means for training. Alignment describes how trained networks compute; its absence before training is
# usual and no fault, so that only a network that was trained for long has something to change.
MEANINGS = {
    ALIGNED: "Good: the blocks refine one answer step by step, as in networks that were trained for long "
    "(Li & Papyan, 2023); nothing has to be changed.",
    PARTLY: "Neither good nor bad: usual while a network learns; train on and measure again "
    "(`orthoscope diagnose` says whether it can train).",
    NOT_ALIGNED: "Normal before training: blocks with random weights never align (`orthoscope diagnose` says whether "
    "the network can train). After long training it is a warning: check that every block has a skip connection and "
    "that the training loss is low.",
    UNKNOWN: "Neither good nor bad: give more samples, or measure after some training.",
}

_LOOSE_TOLERANCE = 1e9  # a tolerance that is met after the first iteration
# Between random and trained networks of orthoscope_papers/li2023: the limit, and whether a score must be above it.
LIMITS = {"RA1": (0.3, True), "RA2": (0.9, False), "RA3": (0.1, False), "RA4": (0.3, True)}


def holds(value: float, limit: float, above: bool) -> bool | None:
    """Whether a score is on the side of its limit where its statement holds; None if it could not be measured."""
    if not isfinite(value):
        return None
    return value >= limit if above else value <= limit


@dataclass(frozen=True, repr=False)
class Alignment(Viewed):
    """Residual alignment of one network on a few samples, made by `align`.

    Attributes:
        name: Of the network.
        jacobians: Of the residual branches.
        scores: The four scores, sample by sample.
        whole: Isometry of the network from input to output; None where not all its singular values are known.
        classes: Number of classes.
        notes: Remarks about the measurement.
        seconds: Duration.
    """

    name: str
    jacobians: ResidualJacobians
    scores: ResidualAlignment
    whole: Isometry | None
    classes: int
    notes: tuple[str, ...]
    seconds: float

    @property
    def statements(self) -> tuple[AlignmentStatement, ...]:
        """RA1 to RA4, with medians over samples."""
        found, rank = self.scores, self.classes
        numbers = {
            "RA1": (
                found.step_cosine,
                "representations move in one direction",
                "cosine of the steps of adjacent blocks",
            ),
            "RA2": (found.misalignment, "blocks share their singular vectors", "misalignment of pairs of blocks"),
            "RA3": (
                found.rank_ratio[~found.dead],
                f"Jacobians have rank {rank} at most",
                f"σ{rank + 1}/σ1, median of blocks",
            ),
            "RA4": (self.law.slope, "the largest singular value falls as 1/depth", "slope of 1/σ1 over depth"),
        }
        rows = []
        for key, (values, statement, quantity) in numbers.items():
            value, (limit, above) = defined_median(values), LIMITS[key]
            rows.append(
                AlignmentStatement(
                    key=key,
                    statement=statement,
                    quantity=quantity,
                    value=value,
                    limit=limit,
                    above=above,
                    holds=holds(value, limit, above),
                )
            )
        return tuple(rows)

    @property
    def law(self) -> DepthLaw:
        r"""The line through $1/\sigma_1$ over depth: medians over samples, square blocks only."""
        shapes = [jacobian.operator.shape for jacobian in self.jacobians]
        middle = [defined_median(one) for one in self.scores.leading]
        return depth_law(torch.tensor([one if a == b else 0.0 for one, (a, b) in zip(middle, shapes, strict=True)]))

    @property
    def verdict(self) -> str:
        """ALIGNED, PARTLY ALIGNED, NOT ALIGNED, or UNKNOWN if fewer than two scores could be measured."""
        held = [score.holds for score in self.statements if score.holds is not None]
        if len(held) < 2:
            return UNKNOWN
        return ALIGNED if all(held) else PARTLY if any(held) else NOT_ALIGNED

    @property
    def summary(self) -> str:
        """What holds, what does not, what is not known; then whether that is good or bad news, and what to do."""
        words = {True: ("holds", "hold"), False: ("fails", "fail"), None: ("is not measured", "are not measured")}
        parts = [
            f"{', '.join(keys)} {words[state][len(keys) > 1]}"
            for state in (True, False, None)
            if (keys := [score.key for score in self.statements if score.holds is state])
        ]
        if self.scores.dead.all():
            return (
                f"All {len(self.scores.names)} residual branches are zero, as zero-initialized branches are, and have "
                "no singular vectors: measure after some training."
            )
        dead = [name for name, gone in zip(self.scores.names, self.scores.dead.all(-1), strict=True) if gone]
        if dead:
            are = "are" if len(dead) > 1 else "is"
            parts.append(f"{len(dead)} of {len(self.scores.names)} residual branches {are} zero, the first {dead[0]}")
        return f"{'; '.join(parts)}. {MEANINGS[self.verdict]}"

    def as_document(self, details: bool = True) -> ResidualDocument:
        """Return the document."""
        return alignment_document(self)


def align(
    model: nn.Module,
    batch: Any,
    *,
    blocks: Sequence[str] | None = None,
    top: int | None = None,
    samples: int = 1,
    classes: int = 10,
    token: int | None = None,
    running_statistics: bool = False,
    name: str | None = None,
    seed: int = 0,
) -> Alignment:
    """Measure how the residual blocks of `model` align; the model is left unchanged.

    Args:
        model: Any module with residual branches.
        batch: As for `diagnose`.
        blocks: As for `probe.residual_jacobians`.
        top: As for `probe.residual_jacobians`, by default one more than `classes`.
        samples: Take Jacobians at so many samples from the front of the batch.
        classes: Number of classes, with which the rank of Jacobians is compared.
        token: As for `probe.residual_jacobians`.
        running_statistics: Batch norm uses its running statistics; by default those of the whole batch.
        name: Of the network in reports; by default that of its class.
        seed: As for `probe.residual_jacobians`.

    Raises:
        ValueError: If no residual branch is found, or an argument does not fit the model.

    Example:
        >>> model = orthoscope.models.ResNet(kind=1, blocks=4, width=16, in_channels=1, image_size=4)
        >>> alignment = orthoscope.align(model, torch.randn(8, 1, 4, 4))
        >>> len(alignment.jacobians)
        4
    """
    start = time.perf_counter()
    if classes < 1:
        raise ValueError(f"classes={classes}, but must be at least 1")
    call = as_call(model, batch)
    if samples < 1:
        raise ValueError(f"samples={samples}, but Jacobians need at least 1 sample")
    chosen = first_samples(call, samples)
    shared: dict[str, Any] = {"token": token, "seed": seed, "statistics": None if running_statistics else call}
    jacobians = residual_jacobians(model, chosen, blocks, (classes + 1) if top is None else top, **shared)
    notes = []
    if call.samples < 2 and not running_statistics:
        notes.append("one sample has no batch statistics: give more samples, or use running statistics")
    return Alignment(
        name=name or class_name(unwrapped(model)),
        jacobians=jacobians,
        scores=residual_alignment(jacobians, jacobians.path, classes=classes),
        whole=_whole(model, chosen, call, running_statistics),
        classes=classes,
        notes=tuple(notes),
        seconds=time.perf_counter() - start,
    )


def _whole(model: nn.Module, chosen: Call, call: Call, running_statistics: bool) -> Isometry | None:
    try:
        # Only complete spectra are used: for others the tolerance does not matter.
        statistics = None if running_statistics else call
        (whole,) = layer_jacobians(model, chosen, statistics=statistics, tolerance=_LOOSE_TOLERANCE)
    except (ValueError, RuntimeError):
        return None  # token ids have no Jacobian, and the output may not be one tensor
    if whole.singular_values.shape[-1] < min(whole.operator.shape):
        return None
    mean, spread = dynamical_isometry(whole.singular_values)
    return Isometry(torch.tensor(defined_median(mean)), torch.tensor(defined_median(spread)))
