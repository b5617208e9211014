"""`fix`: prescriptions are tried on copies and measured again; the best are kept, with their code."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.document import Viewed, environment
from orthoscope.findings import State, Symptom, Verdict
from orthoscope.prescriptions.comparison import Axes, Comparison, axes, compare, effect, kept
from orthoscope.prescriptions.confirmation import Confirmation
from orthoscope.prescriptions.plan import Plan, prescribe
from orthoscope.prescriptions.prescription import Prescription, snippet
from orthoscope.probe.hooks import unwrapped
from orthoscope.report.document import Confirmations, FixDocument, FixOutcome, Verdicts, copied


@dataclass(frozen=True, repr=False)
class Fix(Viewed):
    """Outcome of trying prescriptions on copies of a network; made by `fix`.

    Attributes:
        model: A copy of the network with `steps` applied.
        before: Diagnosis of the network.
        after: Diagnosis of the copy.
        steps: The prescriptions that were kept, in order.
        plan: All prescriptions, with the outcome of each.
        outcome: How it ended.
        sentence: The same in words.
        confirmations: Short trainings of the network before and after, if asked for.
        code: Code to paste, where more is known of how the network is built.
    """

    model: nn.Module
    before: Diagnosis
    after: Diagnosis
    steps: tuple[Prescription, ...]
    plan: tuple[Prescription, ...]
    outcome: FixOutcome
    sentence: str
    confirmations: tuple[Confirmation, Confirmation] | None = None
    code: str = ""

    @property
    def snippet(self) -> str:
        """Code that makes the same changes, bit for bit, on a network built in the same way."""
        return self.code or snippet(self.steps)

    @property
    def comparison(self) -> Comparison:
        """The two diagnoses side by side."""
        return compare(self.before, self.after)

    def as_document(self, details: bool = True) -> FixDocument:
        """Return the document; weights are not part of it."""
        confirmed = self.confirmations and [one.as_document(details) for one in self.confirmations]
        return copied(
            FixDocument,
            self,
            name=self.before.name,
            verdict=Verdicts(before=self.before.verdict, after=self.after.verdict),
            steps=tuple(step.as_document() for step in self.steps),
            plan=tuple(step.as_document() for step in self.plan),
            comparison=self.comparison.as_document(details),
            confirmation=Confirmations(before=confirmed[0], after=confirmed[1]) if confirmed else None,
            environment=environment(),
        )


Progress = Callable[[float, str], None]  # the share that is done, and what is going on
FEWEST_SAMPLES = 8
MOST_STEPS = 3


@dataclass(frozen=True)
class _State:
    """A copy of the network with some steps applied."""

    model: nn.Module
    diagnosis: Diagnosis
    steps: tuple[Prescription, ...]

    @property
    def axes(self) -> Axes:
        return axes(self.diagnosis)

    def rank(self, before: Axes) -> tuple[bool, tuple[float, ...]]:
        """Sort key, smaller is better: states that the rule keeps come first."""
        return not kept(before, self.axes), self.axes.badness


def fix(
    model: nn.Module,
    batch: Any,
    loss: Any = None,
    *,
    steps: int = MOST_STEPS,
    trained: bool | None = None,
    reinitialize: bool = False,
    max_samples: int = 64,
    seed: int = 0,
    name: str | None = None,
    progress: Progress = lambda share, what: None,
) -> Fix:
    """Diagnose, prescribe, try prescriptions on copies, and keep what helps; `model` itself is left unchanged.

    The first prescription that makes the network healthy with gradients to spare is kept, or else the best of those
    that the rule (`comparison.kept`) allows; from there again. The rule: the verdict gets no worse, what was sick or at
    risk improves, and what was healthy stays healthy, for samples (forward) and for gradients (backward). Where weights
    show no sign of training and are not known to be untrained either, the copy gets new ones, and `.sentence` says so.

    Args:
        model: Any module.
        batch: As for `diagnose`, at least 8 samples.
        loss: As for `diagnose`.
        steps: Combine at most so many prescriptions.
        trained: As for `prescribe`.
        reinitialize: As for `prescribe`.
        max_samples: As for `diagnose`.
        seed: As for `diagnose`.
        name: As for `diagnose`.
        progress: Called with an upper bound of the share of the trials that is done, and with what is tried.

    Returns:
        The fixed copy (`.model`), the code that makes the changes (`.snippet`), and both diagnoses.

    Raises:
        ValueError: If the batch is too small or degenerate, or no weight layer is seen to run.

    Example:
        >>> model = orthoscope.models.MLP(depth=50, width=32)
        >>> orthoscope.fix(model, torch.randn(64, 32)).after.verdict
        <Verdict.HEALTHY: 'HEALTHY'>
    """
    progress(0.0, "diagnosing")
    before = diagnose(model, batch, loss, name=name, max_samples=max_samples, seed=seed)
    _refuse_unjudgeable(before)
    plan = prescribe(before, trained=trained, reinitialize=reinitialize)
    return fix_by_plan(plan, model, batch, loss, steps=steps, max_samples=max_samples, seed=seed, progress=progress)


def fix_by_plan(
    plan: Plan,
    model: nn.Module,
    batch: Any,
    loss: Any = None,
    *,
    steps: int = MOST_STEPS,
    max_samples: int = 64,
    seed: int = 0,
    progress: Progress = lambda share, what: None,
) -> Fix:
    """The same for a plan of the same network that was made before."""
    before = plan.diagnosis
    _refuse_unjudgeable(before)
    if before.verdict is Verdict.HEALTHY:
        return _unchanged(model, plan, FixOutcome.HEALTHY, "the network is healthy: nothing was changed", plan.steps)
    if plan.refusal:
        return _unchanged(model, plan, FixOutcome.TRAINED, plan.refusal, plan.steps)

    def measured(candidate: nn.Module) -> Diagnosis:
        return diagnose(candidate, batch, loss, name=before.name, max_samples=max_samples, seed=seed)

    tried: dict[str, Prescription] = {}
    state = _State(copy.deepcopy(unwrapped(model)), before, ())
    trials = 1 + steps * len(plan.applicable)
    for number in range(steps):

        def trying(index: int, step: Prescription, before: int = 1 + number * len(plan.applicable)) -> None:
            progress((before + index) / trials, f"trying {step.name}")

        better = _next(plan, state, batch, measured, tried, trying)
        if better is None:
            break
        state = better
        if state.axes.comfortable:
            break
    return _concluded(plan, state, tried, model)


def _next(
    plan: Plan,
    state: _State,
    batch: Any,
    measured: Callable[[nn.Module], Diagnosis],
    tried: dict[str, Prescription],
    trying: Callable[[int, Prescription], None],
) -> _State | None:
    """The first step that makes the network comfortable, or else the best one; None if none helps.

    The best is the least bad of those that the rule keeps, or, if it keeps none, of all.
    """
    before = axes(plan.diagnosis)
    best = state
    for index, step in enumerate(plan.applicable):
        if step.name in {one.name for one in state.steps}:
            continue
        trying(index, step)
        candidate = copy.deepcopy(state.model)
        try:
            step.apply_(candidate, batch)
            found = measured(candidate)
        except Exception as reason:  # the network is the user's, and a changed one may raise anything
            why = str(reason) or type(reason).__name__
            tried.setdefault(step.name, replace(step, outcome=f"does not apply: {why}"))
            continue
        done = replace(step, measured=effect(found), verdict=found.verdict)
        if not state.steps:
            tried[step.name] = replace(done, outcome="tried")
        after = _State(candidate, found, (*state.steps, done))
        if after.rank(before) < best.rank(before):
            best = after
        if best is after and after.axes.comfortable:
            break
    return None if best is state else best


def _concluded(plan: Plan, state: _State, tried: dict[str, Prescription], model: nn.Module) -> Fix:
    before = plan.diagnosis
    attempted = tuple(tried.get(step.name, step) for step in plan.steps)
    if not state.steps or not kept(axes(before), state.axes):
        sentence = "no prescription improved the network without making something else worse: nothing was changed"
        return _unchanged(model, plan, FixOutcome.NOTHING_HELPED, sentence, attempted)
    steps = tuple(replace(step, outcome="kept") for step in state.steps)
    done = {step.name: step for step in steps}
    sentence = f"{before.verdict} → {state.diagnosis.verdict} by {', then '.join(done)}"
    if doubt := plan.doubt(model):
        sentence += f"; on a copy, because your weights may be trained ({doubt})"
    return Fix(
        state.model,
        before,
        state.diagnosis,
        steps,
        tuple(done.get(step.name, step) for step in attempted),
        FixOutcome.FIXED if state.diagnosis.verdict is Verdict.HEALTHY else FixOutcome.IMPROVED,
        sentence,
    )


def _unchanged(
    model: nn.Module, plan: Plan, outcome: FixOutcome, sentence: str, steps: tuple[Prescription, ...]
) -> Fix:
    return Fix(copy.deepcopy(unwrapped(model)), plan.diagnosis, plan.diagnosis, (), steps, outcome, sentence)


def _refuse_unjudgeable(diagnosis: Diagnosis) -> None:
    """Raise a ValueError if it cannot be told whether a change helps: too few samples, or no known order of layers."""
    if diagnosis.recording.samples < FEWEST_SAMPLES:
        raise ValueError(
            f"the batch has {diagnosis.recording.samples} samples, too few to tell whether a change helps: "
            f"give at least {FEWEST_SAMPLES} samples"
        )
    if not any(layer.depth is not None for layer in diagnosis.layers):
        why = next(iter(diagnosis.recording.unobserved.values()), "no module has a weight matrix of its own")
        raise ValueError(f"the order in which its weight layers run cannot be found ({why}): nothing can be fixed")
    for finding in diagnosis.findings:
        degenerate = finding.symptom is Symptom.DEGENERATE_INPUT and finding.state is State.FOUND
        if degenerate and finding.severity is Verdict.SICK:
            raise ValueError(f"no change to the network helps while {finding.reason}: give another batch")
