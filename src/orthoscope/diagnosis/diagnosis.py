"""A diagnosis: the verdict, the findings behind it, and every layer's numbers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import nn

from orthoscope.diagnosis.alignment import Alignment, align
from orthoscope.diagnosis.causes import with_causes
from orthoscope.diagnosis.checks import GradientProfile, fitted_slope, gradient_profile, weight_layers
from orthoscope.diagnosis.document import Viewed, diagnosis_document
from orthoscope.diagnosis.expectations import Expectation, expectation
from orthoscope.diagnosis.first_steps import FirstSteps, first_steps
from orthoscope.diagnosis.inspection import Anatomy, anatomy
from orthoscope.diagnosis.judgment import agreeing, risk_after_steps
from orthoscope.diagnosis.notes import notes_on_training
from orthoscope.diagnosis.numbers import loss_unit, numbers
from orthoscope.diagnosis.rules import CALIBRATION, findings_of, in_words, omitted_checks, risk, verdict
from orthoscope.findings import Finding, State, Symptom, Verdict
from orthoscope.optim.recipes import OPTIMIZERS
from orthoscope.probe import Layer, Leaks, Recording, Status, leaks, record
from orthoscope.probe.batches import as_call
from orthoscope.probe.details import Picture, WeightReferences, WeightSpectrum, pictures, weight_spectra
from orthoscope.probe.hooks import class_name, unwrapped
from orthoscope.probe.losses import Loss, takes_target
from orthoscope.probe.record import OWN_LOSS
from orthoscope.report.document import DiagnosisDocument

# One of each: where samples or gradients were not looked at, nothing is called healthy.
_SAMPLE_CHECKS = ("sample angles", "sample rank")
_GRADIENT_CHECKS = ("gradient growth", "gradient arrives")

_FIX = "Apply the best change to a copy of the network, and confirm it by a short training"
_LIST = "List every change that may help, with what theory predicts of each"
_WATCH = "Learning rate, data and what happens later are not checked; follow the training with:"
_BATCH = "Give a batch whose samples differ: no change to the network helps against a degenerate input."
_FEW = "Give a batch of at least 8 samples: with fewer, rank collapse is not checked and no change can be tried."
_FEWEST_SAMPLES = 8  # that `orthoscope.fix` takes
_NOT_FINITE = "Look for nan, or for numbers that overflow, in the weights and the input of {layer}."
_TOO_LITTLE = "Too little could be checked: diagnose again with at least 8 samples that the network tells apart."
_UNNORMALIZED = "Normalize the batch: subtract the mean of every feature and divide by its standard deviation."
_DISCONNECTED = (
    "Connect the parameters with the loss: set requires_grad, and remove detach, no_grad or argmax on the way."
)
_LOGITS = (
    "Scale down the last layer, or initialize it with zeros: logits of about unit size cost no more than guessing."
)
_LOSS = "Give the loss the outputs that it expects: cross_entropy takes logits, nll_loss takes log_softmax."


# What to do first, by the checks that found something.
_STEPS = {
    ("input varies", "input rank"): _BATCH,
    ("input scale",): _UNNORMALIZED,
    ("trainable parameters", "gradient path"): _DISCONNECTED,
    ("initial loss",): _LOGITS,
    ("loss fits outputs",): _LOSS,
}


@dataclass(frozen=True, repr=False)
class Diagnosis(Viewed):
    """Whether a network will train, where it goes wrong, and why; made by `diagnose`.

    Attributes:
        name: Of the network.
        recording: The measurements of the pass.
        findings: The outcome of every check.
        expected: What theory predicts.
        seconds: Duration.
        alignment: Alignment of the residual blocks, if `deep` was asked for and there are some.
        leaks: Whether later tokens or other samples change an output, if `deep` was asked for; `notes` say what leaks.
        notes: Remarks, beside those of the recording.
        anatomy: What the network is made of.
        fix_command: Command that fixes the network, if it was built from a target.
        weights: Weak references to the weight layers, for their spectra.
        optimizer: The optimizer that the network is to be trained with, if that was said.
        first_steps: What the first steps with this optimizer do to the loss, if they were taken.
    """

    name: str
    recording: Recording
    findings: tuple[Finding, ...]
    expected: Expectation
    seconds: float
    alignment: Alignment | None = None
    leaks: Leaks | None = None
    notes: tuple[str, ...] = ()
    anatomy: Anatomy = field(default_factory=Anatomy)
    fix_command: str = ""
    weights: WeightReferences | None = field(default=None, repr=False, compare=False)
    first_steps: FirstSteps | None = None
    optimizer: str | None = None

    @cached_property
    def gradients(self) -> GradientProfile | None:
        """Log-norms of the gradient along depth; None with fewer than three of them."""
        return gradient_profile(self.recording)

    @property
    def verdict(self) -> Verdict:
        """What follows from the risk; UNKNOWN if nothing was found and too little could be judged."""
        return verdict(self.risk, CALIBRATION.after_steps.sick_above) if self.steps_taken else verdict(self.risk)

    @property
    def weight_layers(self) -> int:
        """How many times a weight layer was called."""
        return weight_layers(self.recording)

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """What the risk is made of, by name, larger being worse."""
        return numbers(self.findings, self.recording, self.first_steps)

    @property
    def steps_taken(self) -> bool:
        """Whether the first steps with the optimizer are part of the risk."""
        return self.first_steps is not None and self.first_steps.taken

    @property
    def risk(self) -> float:
        """Calibrated probability that the network does not train; nan if that is not known.

        With the optimizer that is named, if its first steps were taken; else as for AdamW, from one pass alone.
        """
        if self.first_steps is not None and self.steps_taken:
            return risk_after_steps(self.findings, self.numbers, self.first_steps.optimizer)
        return risk(self.findings, self.weight_layers, known=self.judged)

    @property
    def judged(self) -> bool:
        """Whether samples and gradients could both be checked; if not, the verdict is never HEALTHY."""
        checked = {finding.check for finding in self.findings if finding.state is not State.NOT_CHECKED}
        return all(checked.intersection(checks) for checks in (_SAMPLE_CHECKS, _GRADIENT_CHECKS))

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """What was found, each symptom once, in the order of the rules."""
        return tuple(dict.fromkeys(f.symptom for f in self.findings if f.state is State.FOUND))

    def first(self, symptom: str) -> str | None:
        """The module where a symptom begins, None if it was not found.

        Collapse begins nearest the input; vanishing and exploding gradients begin nearest the output.
        """
        if symptom not in list(Symptom):
            raise ValueError(f"{symptom!r} is no symptom: ask for {', '.join(repr(str(s)) for s in Symptom)}")
        wanted = Symptom(symptom)
        hits = [f for f in self.findings if f.symptom is wanted and f.state is State.FOUND]
        hits.sort(key=lambda finding: -finding.severity.rank)
        return hits[0].layer if hits else None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """A row for every module call, in order."""
        return self.recording.layers

    @property
    def slope(self) -> float:
        """Growth of the log-gradient per weight layer toward the input; nan when it was not measured."""
        return float("nan") if self.gradients is None else self.gradients.slope.value.item()

    @property
    def slope_standard_error(self) -> float:
        """Standard error of `slope`; nan when it was not measured."""
        return float("nan") if self.gradients is None else self.gradients.slope.standard_error.item()

    @property
    def expected_slope(self) -> float:
        """The slope that theory expects, fitted to its log-norms at the same layers; nan where it has none."""
        if self.gradients is None:
            return math.nan
        return fitted_slope([self.expected.log_gradients.get(layer.name, math.nan) for layer in self.gradients.layers])

    @cached_property
    def quoted_layer(self) -> int | None:
        """Index of the layer whose gap and rank are quoted for the network; None if nothing was measured.

        It is the last at least as wide as the batch, or the last of the widest: a head with fewer units than there
        are samples has a gap and a small rank by its shape alone.
        """
        capacities = {index: layer.capacity for index, layer in enumerate(self.layers) if layer.sample_view is not None}
        return max(capacities, key=lambda index: (capacities[index], index), default=None)

    @property
    def gap(self) -> float:
        """Orthogonality gap at the quoted layer: the horizontal place in the trainability plane."""
        return math.nan if self.quoted_layer is None else self.layers[self.quoted_layer].gap

    @property
    def summary(self) -> str:
        """One sentence: the worst finding of every symptom, or that there are none."""
        found = sorted((f for f in self.findings if f.state is State.FOUND), key=lambda f: -f.severity.rank)
        if found:
            worst = {finding.symptom: finding.reason for finding in reversed(found)}
            return "; ".join(worst[symptom] for symptom in dict.fromkeys(finding.symptom for finding in found))
        if not self.judged:
            return f"nothing was found, but {self._unjudged()}"
        rest = omitted_checks(self.findings)
        clean = {finding.check: finding.reason for finding in self.findings if finding.state is State.CLEAN}
        good = {"sample angles": "no rank collapse", "gradient growth": clean.get("gradient growth", "")}
        said = "; ".join(words for check, words in good.items() if check in clean) or "no symptom was found"
        return said + (f"; not checked: {'; '.join(rest)}" if rest else "")

    def _unjudged(self) -> str:
        """What could not be judged, and why."""
        missing = [f for f in self.findings if f.state is State.NOT_CHECKED]
        parts = []
        for what, names in (("samples", _SAMPLE_CHECKS), ("gradients", _GRADIENT_CHECKS)):
            reasons = [finding.reason for finding in missing if finding.check in names]
            parts += [f"{what} could not be judged ({reasons[0]})"] if len(reasons) == len(names) else []
        return " and ".join(parts)

    @property
    def next_steps(self) -> tuple[str, ...]:
        """What to do now, one sentence each; a command or call stands between backquotes at the end.

        A network that is sick or at risk is to be changed; of a healthy one, what was not checked is said.
        """
        if self.verdict is Verdict.UNKNOWN:
            return (_TOO_LITTLE,)
        if self.verdict is Verdict.HEALTHY:
            missing = omitted_checks(self.findings)
            unchecked = (f"Not checked on this batch: {'; '.join(missing)}.",) if missing else ()
            return (*unchecked, f"{_WATCH} `orthoscope.watch(model)`")
        found = {finding.check for finding in self.findings if finding.state is State.FOUND}
        first = tuple(step for checks, step in _STEPS.items() if found.intersection(checks))
        if not set(self.symptoms) & {Symptom.COLLAPSE, Symptom.VANISH, Symptom.EXPLODE}:
            return first
        broken = [f for f in self.findings if f.check == "finite outputs" and f.state is State.FOUND]
        first += tuple(_NOT_FINITE.format(layer=in_words(finding.layer)) for finding in broken)
        if self.recording.samples < _FEWEST_SAMPLES:
            return (*first, _FEW)
        if self.anatomy.trained:
            trained = f"The weights seem to be trained ({self.anatomy.trained}), so only advice is given"
            return (*first, f"{trained}: `orthoscope.prescribe(diagnosis)`")
        if self.fix_command:
            return (*first, f"{_FIX}: `{self.fix_command}`")
        return (*first, f"{_FIX}: `orthoscope.fix(model, batch)`", f"{_LIST}: `orthoscope.prescribe(diagnosis)`")

    @cached_property
    def pictures(self) -> Sequence[Picture | None]:
        """Spectrum, cosines and Gram matrix of every layer's samples; computed when a view first asks for them."""
        layers = self.layers
        if len(self.recording.factors) != len(layers):
            return [None] * len(layers)
        drawn = pictures(self.recording.factors, [layer.depth is not None for layer in layers])
        measured = (layer.status is Status.MEASURED for layer in layers)
        return [picture if shown else None for picture, shown in zip(drawn, measured, strict=True)]

    @cached_property
    def weight_spectra(self) -> Mapping[str, WeightSpectrum]:
        """Singular values of small weights, by layer; only of those that have not changed when a view first asks."""
        return {} if self.weights is None else weight_spectra(self.weights)

    @cached_property
    def details_notes(self) -> tuple[str, ...]:
        """Which weight spectra are missing, and why."""
        lost = 0 if self.weights is None else self.weights.lost()
        why = "the model was changed or freed, or the diagnosis copied, before they were asked for (`compute_details`)"
        return (f"weight spectra of {lost} layers are missing: {why}",) if lost else ()

    def compute_details(self) -> None:
        """Compute now what only a page shows: spectra of weights need the model, which may change or be freed."""
        _ = self.pictures, self.weight_spectra, self.details_notes

    def as_document(self, details: bool = True) -> DiagnosisDocument:
        """Return the document; without `details`, nothing is computed that only a page draws."""
        return diagnosis_document(self, details)


def diagnose(
    model: nn.Module,
    batch: Any,
    loss: Loss | None = None,
    *,
    name: str | None = None,
    max_samples: int = 64,
    batch_statistics: bool = True,
    seed: int = 0,
    deep: bool = False,
    optimizer: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Tell whether `model` will train, from one forward and backward pass; the model is left bit-identical.

    A gate that is zero at the start, trainable, and gets a gradient is alive, and what is zero behind it is no symptom.
    Where such a gate closes the whole network, it is judged after the gate's first step (`orthoscope.probe.record`).

    Args:
        model: Any module. Under DDP and FSDP2 every process calls this with its part of the batch.
        batch: What the model is called with: a tensor, a tuple, a dict, a graph, or a DataLoader, with or without a
            target (docs/diagnose.md has the table).
        loss: `loss(output)` or `loss(output, target)`, which is differentiated; by default the loss that the model
            itself returns (`output.loss`), or else a random direction at the output.
        name: Of the network in reports; by default that of its class.
        max_samples: Metrics compare at most so many samples, evenly spaced.
        batch_statistics: Batch norm uses the statistics of the batch, as in training; False for its running ones.
        seed: Of the random direction, and of models that draw noise.
        deep: Measure the Jacobians of residual blocks (`orthoscope.align`) and look for leaks
            (`orthoscope.probe.leaks`) too, which takes longer.
        optimizer: With which the network is to be trained: "adamw", "sgd" or "muon". If it is named, and there is a
            loss, ten steps are taken on copies of the network at each of three learning rates, which makes the verdict
            right more often (docs/calibration.md). None: not known, judged as for AdamW from one pass.
        progress: Called with the name of every module as it is measured.

    Returns:
        The diagnosis; printed, it is a table.

    Raises:
        ValueError: If the model, batch, loss or optimizer cannot be used; the message says why and what to do.

    Example:
        >>> model = orthoscope.models.MLP(depth=50, width=32, activation="relu")
        >>> orthoscope.diagnose(model, torch.randn(64, 32)).verdict
        <Verdict.SICK: 'SICK'>
    """
    if optimizer is not None and optimizer not in OPTIMIZERS:
        choices = ", ".join(map(repr, OPTIMIZERS))
        raise ValueError(f"the optimizer is {optimizer!r}, expected one of {choices}, or None: name the nearest one")
    start = time.perf_counter()
    recording = record(
        model,
        batch,
        loss,
        max_samples=max_samples,
        batch_statistics=batch_statistics,
        seed=seed,
        keep_factors=True,
        progress=progress,
    )
    alignment, notes = _alignment(model, batch, loss, name, seed, batch_statistics) if deep else (None, ())
    leaked, leaking = _leaks(model, batch, loss, seed) if deep else (None, ())
    steps, trial_notes = _first_steps(model, batch, loss, optimizer, seed, recording)
    return Diagnosis(
        name=name or class_name(unwrapped(model)),
        recording=recording,
        findings=_findings(recording, steps, unwrapped(model)),
        expected=expectation(unwrapped(model), recording, batch_statistics),
        seconds=time.perf_counter() - start,
        alignment=alignment,
        leaks=leaked,
        notes=(*notes_on_training(recording), *notes, *leaking, *trial_notes),
        first_steps=steps,
        anatomy=anatomy(unwrapped(model)),
        weights=WeightReferences(
            unwrapped(model), [layer.name for layer in recording.layers if layer.depth is not None]
        ),
        optimizer=optimizer,
    )


def _alignment(
    model: nn.Module, batch: Any, loss: Loss | None, name: str | None, seed: int, batch_statistics: bool
) -> tuple[Alignment | None, tuple[str, ...]]:
    """The alignment of residual blocks, or a note that says why it could not be measured."""
    call = as_call(unwrapped(model), batch, with_target=takes_target(loss))
    try:
        return align(model, call, name=name, seed=seed, running_statistics=not batch_statistics), ()
    except (ValueError, RuntimeError) as error:
        return None, (f"residual alignment is not known: {error}",)


def _findings(recording: Recording, steps: FirstSteps | None, model: nn.Module) -> tuple[Finding, ...]:
    """The outcome of every check, with causes; after first steps, in agreement with the risk that they show."""
    found = with_causes(findings_of(recording), recording, model)
    if steps is None or not steps.taken:
        return found
    known = numbers(found, recording, steps)
    return agreeing(found, risk_after_steps(found, known, steps.optimizer), steps, loss_unit(recording, steps))


def _first_steps(
    model: nn.Module, batch: Any, loss: Loss | None, optimizer: str | None, seed: int, recording: Recording
) -> tuple[FirstSteps | None, tuple[str, ...]]:
    """The first steps with the optimizer that is named, or a note that says why they were not taken."""
    if optimizer is None:
        return None, ()
    if recording.initial_loss is None and recording.gradient_source != OWN_LOSS:
        return None, ("no first steps were taken: without a loss there is nothing to train",)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return None, ("no first steps were taken: they are taken in one process alone",)
    network = unwrapped(model)
    try:
        call = as_call(network, batch, with_target=takes_target(loss))
        return first_steps(network, call, loss, optimizer, seed), ()
    except Exception as error:  # the user's network may refuse to be copied, or fail in training mode
        return None, (f"no first steps were taken: they fail ({type(error).__name__}: {error})",)


def _leaks(model: nn.Module, batch: Any, loss: Loss | None, seed: int) -> tuple[Leaks | None, tuple[str, ...]]:
    """What leaks, and a note of each leak, or of why it could not be tried."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return None, ("leaks are not known: they are tried in one process alone",)
    try:
        found = leaks(model, as_call(unwrapped(model), batch, with_target=loss is not None), seed=seed)
    except (ValueError, RuntimeError) as error:
        return None, (f"leaks are not known: {error}",)
    return found, found.found
