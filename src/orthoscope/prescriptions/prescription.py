"""A prescription: a change as a function and as code, its reason, its predicted effect and its measured one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn

from orthoscope import report
from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.checks import fitted_slope
from orthoscope.diagnosis.expectations import Expectation, expected_numbers
from orthoscope.findings import Verdict
from orthoscope.report import document
from orthoscope.report.document import copied


@dataclass(frozen=True)
class Change:
    """A call of a public function; what is run and what is printed follow from the same name and arguments."""

    function: Callable[..., Any]
    name: str  # by which a user calls it, from `import orthoscope` on
    arguments: tuple[Any, ...] = ()  # after the model, and the batch if it is wanted
    options: tuple[tuple[str, Any], ...] = ()
    batch: bool = False  # whether the function takes a batch
    seed: int | None = None  # of a generator, where it draws

    def apply_(self, model: nn.Module, batch: Any) -> None:
        """Call the function on a model."""
        drawn = {} if self.seed is None else {"generator": torch.Generator().manual_seed(self.seed)}
        self.function(model, *([batch] if self.batch else []), *self.arguments, **dict(self.options), **drawn)

    @property
    def code(self) -> str:
        """The call as Python code."""
        words = ["model", *(["batch"] if self.batch else []), *map(repr, self.arguments)]
        words += [f"{name}={value!r}" for name, value in self.options]
        if self.seed is not None:
            words.append(f"generator=torch.Generator().manual_seed({self.seed})")
        return f"{self.name}({', '.join(words)})"


@dataclass(frozen=True)
class Effect:
    """Gap and slope of a network after a change.

    Attributes:
        gap: Orthogonality gap; nan if unknown.
        slope: Growth of the log-gradient per layer toward the input; nan if unknown.
        reason: Why they are unknown.
    """

    gap: float = math.nan
    slope: float = math.nan
    reason: str = ""

    def as_document(self) -> document.Effect:
        """Return the part of a document."""
        return document.Effect(gap=self.gap, slope=self.slope, reason=self.reason or None)


NOT_PREDICTED = Effect(reason="not predicted")


@dataclass(frozen=True)
class Prescription:
    """One change to make. Without `changes` it is advice, which concerns the training loop or the code.

    Attributes:
        name: Short name.
        why: The reason, in one sentence.
        changes: The calls that make the change.
        advice: Code of what cannot be applied to a model.
        needs: What it cannot be applied without, such as "at least 64 samples".
        architecture: Whether modules are replaced or added.
        named: Whether single layers are named as the cause.
        foresee: Computes the predicted effect.
        measured: The measured effect, after a trial.
        verdict: The verdict, after a trial.
        outcome: "kept", or why not.
    """

    name: str
    why: str
    changes: tuple[Change, ...] = ()
    advice: str = ""
    needs: str = ""
    architecture: bool = False
    named: bool = False
    foresee: Callable[[], Effect] = lambda: NOT_PREDICTED
    # After a trial:
    measured: Effect | None = None
    verdict: Verdict | None = None
    outcome: str = field(default="not tried")

    @property
    def predicted(self) -> Effect:
        """The effect that theory predicts, or why it predicts none."""
        return self.foresee()

    @property
    def code(self) -> str:
        """Code to paste, after `import orthoscope`, `import torch`, and with `model` and `batch` defined."""
        return "\n".join(change.code for change in self.changes) or self.advice

    @property
    def applies(self) -> bool:
        """Whether it can be applied to the model that was diagnosed."""
        return bool(self.changes) and not self.needs

    def apply_(self, model: nn.Module, batch: Any) -> None:
        """Make the changes in place, one after the other."""
        if not self.changes:
            raise ValueError(f"{self.name!r} is advice for the training loop: nothing of the model changes")
        if self.needs:
            raise ValueError(f"{self.name!r} needs {self.needs}: diagnose with such a batch first")
        for change in self.changes:
            change.apply_(model, batch)

    def __str__(self) -> str:
        return report.plan_text([self.as_document()])

    __repr__ = __str__

    def as_document(self) -> document.Prescription:
        """Return the part of the documents of a plan and of a fix."""
        return copied(
            document.Prescription,
            self,
            advice=not self.changes,
            predicted=self.predicted.as_document(),
            measured=None if self.measured is None else self.measured.as_document(),
        )


def foreseen(diagnosis: Diagnosis, **changed: Any) -> Callable[[], Effect]:
    """The predicted effect of other arguments, computed once, when first asked for."""
    return cache(lambda: predicted_effect(diagnosis, **changed))


def predicted_effect(diagnosis: Diagnosis, **changed: Any) -> Effect:
    """Gap after the last hidden layer and slope of the log-gradient if the network were built with other arguments."""
    expected = diagnosis.expected
    if expected.refusal:
        return Effect(reason=f"not predicted: {expected.refusal}")
    other = Expectation("", {**expected.arguments, **changed}, expected.inputs, expected.output_gradient)
    if other.reason:
        return Effect(reason=f"not predicted: {other.reason}")
    depth, width = expected.arguments["depth"], expected.arguments["width"]
    numbers = expected_numbers(other.signals[f"layers.{depth - 1}"], diagnosis.layers[0].samples, width)
    slope = fitted_slope(list(other.log_gradients.values())) if other.log_gradients else math.nan
    return Effect(numbers.gap, slope)


_BUILD = "model = ...  # your network, built as before"
_BATCH = "batch = ...  # what it is called with"


def snippet(steps: Sequence[Prescription], build: str = _BUILD, batch: str = _BATCH, weights: str | None = None) -> str:
    """Code of all steps with imports, the network, and the fixed weights if they were saved; "" without steps.

    Weights are loaded after the changes, which determine the modules.
    """
    if not steps:
        return ""
    changes = [change for step in steps for change in step.changes]
    lines = ["import torch"] if "torch." in build or any(change.seed is not None for change in changes) else []
    lines += ["import orthoscope", *(["from safetensors.torch import load_model"] if weights else []), "", build]
    if any(change.batch for change in changes):
        lines.append(batch)
    lines.append("")
    for step in steps:
        lines.append(f"# {step.name}: {' '.join(step.why.split())}")  # a module may print over several lines
        lines += [change.code for change in step.changes]
    if weights is not None:
        lines.append(f"load_model(model, {weights!r})  # the very numbers that were measured")
    return "\n".join(lines) + "\n"
