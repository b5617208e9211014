"""`fix`: prescriptions are tried on copies and measured again; the best are kept, with their code."""

import copy
from collections.abc import Callable
from typing import Any

from torch import nn

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.findings import State as CheckState
from orthoscope.findings import Symptom, Verdict
from orthoscope.prescriptions.comparison import axes, kept
from orthoscope.prescriptions.confirmation import STEPS, Progress, Recipe, Trial
from orthoscope.prescriptions.fixes import Fix, State, after_step, kept_fix, unchanged_fix
from orthoscope.prescriptions.plan import Plan, plan_for, prescribe
from orthoscope.prescriptions.prescription import Prescription
from orthoscope.prescriptions.training_trials import fix_by_training
from orthoscope.probe.hooks import unwrapped
from orthoscope.report.document import FixOutcome

FEWEST_SAMPLES = 8
MOST_STEPS = 3


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
    confirm: bool | Trial = False,
    progress: Progress = lambda share, what: None,
) -> Fix:
    """Diagnose, prescribe, try prescriptions on copies, and keep what helps; `model` itself is left unchanged.

    The first prescription that makes the network healthy with gradients to spare is kept, or else the best of those
    that the rule (`comparison.kept`) allows; from there again. The rule: the verdict gets no worse, what was sick or at
    risk improves, and what was healthy stays healthy, for samples (forward) and for gradients (backward). Where weights
    show no sign of training and are not known to be untrained either, the copy gets new ones, and `.sentence` says so.

    With `confirm` a short training decides instead (`orthoscope.confirm`): a network that trains as it is stays as it
    is; of another all prescriptions are tried, the most promising by its verdict first, until one trains. What
    training refutes is said to be refuted, and not kept.

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
        confirm: Train for a short time, on `batch` or on embedded data that fits it; or a `Trial`, which says on what.
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
    options: dict[str, Any] = {"steps": steps, "max_samples": max_samples, "seed": seed, "progress": progress}
    if confirm is False:
        return fix_by_plan(prescribe(before, trained=trained, reinitialize=reinitialize), model, batch, loss, **options)
    if confirm is True:
        confirm = Trial.of(model, None, loss, Recipe.checked(STEPS, None, "adamw", seed), batch=batch)
    # Whatever the verdict is: the training may refute it.
    plan = plan_for(before, trained=trained, reinitialize=reinitialize)
    return fix_by_training(plan, model, batch, loss, confirm, **options)


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
        return unchanged_fix(model, plan, FixOutcome.HEALTHY, "the network is healthy: nothing was changed", plan.steps)
    if plan.refusal:
        return unchanged_fix(model, plan, FixOutcome.TRAINED, plan.refusal, plan.steps)

    def measured(candidate: nn.Module) -> Diagnosis:
        return diagnose(candidate, batch, loss, name=before.name, max_samples=max_samples, seed=seed)

    tried: dict[str, Prescription] = {}
    state = State(copy.deepcopy(unwrapped(model)), before, ())
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
    state: State,
    batch: Any,
    measured: Callable[[nn.Module], Diagnosis],
    tried: dict[str, Prescription],
    trying: Callable[[int, Prescription], None],
) -> State | None:
    """The first step that makes the network comfortable, or else the best one; None if none helps.

    The best is the least bad of those that the rule keeps, or, if it keeps none, of all.
    """
    before = axes(plan.diagnosis)
    best = state
    for index, step in enumerate(plan.applicable):
        if step.name in {one.name for one in state.steps}:
            continue
        trying(index, step)
        after = after_step(state, step, batch, measured, tried)
        if after is None:
            continue
        if after.rank(before) < best.rank(before):
            best = after
        if best is after and after.axes.comfortable:
            break
    return None if best is state else best


def _concluded(plan: Plan, state: State, tried: dict[str, Prescription], model: nn.Module) -> Fix:
    before = plan.diagnosis
    attempted = tuple(tried.get(step.name, step) for step in plan.steps)
    if not state.steps or not kept(axes(before), state.axes):
        sentence = "no prescription improved the network without making something else worse: nothing was changed"
        return unchanged_fix(model, plan, FixOutcome.NOTHING_HELPED, sentence, attempted)
    by = ", then ".join(step.name for step in state.steps)
    outcome = FixOutcome.FIXED if state.diagnosis.verdict is Verdict.HEALTHY else FixOutcome.IMPROVED
    return kept_fix(plan, state, tried, model, outcome, f"{before.verdict} → {state.diagnosis.verdict} by {by}")


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
        degenerate = finding.symptom is Symptom.DEGENERATE_INPUT and finding.state is CheckState.FOUND
        if degenerate and finding.severity is Verdict.SICK:
            raise ValueError(f"no change to the network helps while {finding.reason}: give another batch")
