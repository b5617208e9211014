"""`fix` with a short training of every candidate: the training decides, the verdict says what is tried first."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.findings import Verdict
from orthoscope.prescriptions.comparison import axes
from orthoscope.prescriptions.confirmation import Confirmation, Progress, Trial
from orthoscope.prescriptions.fixes import Fix, State, after_step, kept_fix, unchanged_fix
from orthoscope.prescriptions.plan import Plan
from orthoscope.prescriptions.prescription import Prescription
from orthoscope.probe.hooks import unwrapped
from orthoscope.report.document import FixOutcome

_REFUTED = "refuted by training"
_CLEARLY = 0.1  # share of the loss of the untouched network that is learned beyond it
_COMBINED = 3  # of the prescriptions that training refutes, those that end best are combined with others
_MOST_COMBINED = 2  # prescriptions in one combination
_MOST_TRAINED = 6  # combinations
_AS_IT_IS = "trains as it is: nothing was changed"


def fix_by_training(
    plan: Plan,
    model: nn.Module,
    batch: Any,
    loss: Any,
    trial: Trial,
    *,
    steps: int,
    max_samples: int,
    seed: int,
    progress: Progress,
) -> Fix:
    """The first prescription, or combination, after which the network trains; without one, the network as it is."""
    start = trial.confirmation(model, plan.diagnosis, _part(progress, 0.0, 0.1))
    if start.trains or plan.refusal:
        return _untouched(plan, model, start)

    def measured(candidate: nn.Module) -> Diagnosis:
        return diagnose(candidate, batch, loss, name=plan.diagnosis.name, max_samples=max_samples, seed=seed)

    tried: dict[str, Prescription] = {}
    beginnings = [State(copy.deepcopy(unwrapped(model)), plan.diagnosis, ())]
    for number in range(min(steps, _MOST_COMBINED)):
        found = [one for state in beginnings for one in _candidates(plan, state, batch, measured, tried)]
        found = _distinct(sorted(found, key=lambda one: _order(plan, one)))
        # Beyond single prescriptions there are many combinations: the most promising ones.
        found = found[:_MOST_TRAINED] if number else found
        share = _part(progress, 0.1 + 0.9 * number / _MOST_COMBINED, 0.9 / _MOST_COMBINED)
        ended, end = _until_one_trains(found, replace(trial, start=start.guessing_loss), start, tried, share)
        if end is not None:
            return _confirmed(plan, ended[-1], tried, model, start, end)
        beginnings = ended[:_COMBINED]
    refuted = any(step.outcome == _REFUTED for step in tried.values())
    outcome = FixOutcome.REFUTED if refuted else FixOutcome.NOTHING_HELPED
    sentence = "no prescription makes the network train, by a short training of each: nothing was changed"
    attempted = tuple(tried.get(step.name, step) for step in plan.steps)
    return replace(unchanged_fix(model, plan, outcome, sentence, attempted), confirmations=(start, start))


def _untouched(plan: Plan, model: nn.Module, start: Confirmation) -> Fix:
    """The network as it is: it trains, whatever its verdict, or its weights must stay."""
    if not start.trains:
        fixed = unchanged_fix(model, plan, FixOutcome.TRAINED, plan.refusal, plan.steps)
    elif plan.diagnosis.verdict is Verdict.HEALTHY:
        fixed = unchanged_fix(model, plan, FixOutcome.HEALTHY, f"the network is healthy and {_AS_IT_IS}", ())
    else:
        refuted = "a short training refutes it: " if start.confirmed is False else ""
        sentence = f"{plan.diagnosis.verdict}, but {refuted}the network {_AS_IT_IS}"
        fixed = unchanged_fix(model, plan, FixOutcome.REFUTED, sentence, plan.steps)
    return replace(fixed, confirmations=(start, start))


def _until_one_trains(
    candidates: list[State], trial: Trial, start: Confirmation, tried: dict[str, Prescription], progress: Progress
) -> tuple[list[State], Confirmation | None]:
    """Those that do not train, the best first, and None; or the one that trains as the last, and its training."""
    ended: list[tuple[float, State]] = []
    for index, state in enumerate(candidates):
        part = _part(progress, index / len(candidates), 1 / len(candidates))
        found = trial.confirmation(state.model, state.diagnosis, part)
        if _helps(start, found):
            return [state], found
        if len(state.steps) == 1:
            name = state.steps[0].name
            tried[name] = replace(tried[name], outcome=_REFUTED)
        ended.append((found.final_loss, state))
    return [state for _, state in sorted(ended, key=lambda one: one[0])], None


def _candidates(
    plan: Plan,
    state: State,
    batch: Any,
    measured: Callable[[nn.Module], Diagnosis],
    tried: dict[str, Prescription],
) -> list[State]:
    """The copies that one more step makes, with their diagnoses; those that it does not apply to are left out."""
    found = []
    for step in plan.applicable:
        if step.name in {one.name for one in state.steps}:
            continue
        after = after_step(state, step, batch, measured, tried)
        if after is not None:
            found.append(after)
    return found


def _order(plan: Plan, candidate: State) -> tuple[bool, int, bool, tuple[bool, tuple[float, ...]]]:
    """Sort key: what names a layer as the cause first, then the better verdict, then weights before architecture."""
    named, built = (any(getattr(step, name) for step in candidate.steps) for name in ("named", "architecture"))
    return not named, candidate.diagnosis.verdict.rank, built, candidate.rank(axes(plan.diagnosis))


def _distinct(candidates: list[State]) -> list[State]:
    """One candidate for every set of steps: their order matters less than the time of a training."""
    found: dict[frozenset[str], State] = {}
    for one in candidates:
        found.setdefault(frozenset(step.name for step in one.steps), one)
    return list(found.values())


def _helps(before: Confirmation, after: Confirmation) -> bool:
    """Whether it trains; where the reference decides nothing, whether it ends a tenth below the untouched network."""
    if after.trains is None:
        return after.final_loss < before.final_loss - _CLEARLY * abs(before.final_loss)
    return after.trains


def _confirmed(
    plan: Plan, state: State, tried: dict[str, Prescription], model: nn.Module, start: Confirmation, end: Confirmation
) -> Fix:
    healthy = state.diagnosis.verdict is Verdict.HEALTHY
    by = ", then ".join(step.name for step in state.steps)
    trains = f"{start.outcome} → {end.outcome}"
    if end.trains is None:  # the reference decides nothing: the loss does
        trains = f"loss {start.final_loss:.3g} → {end.final_loss:.3g}"
    verdict = f" by {by} ({plan.diagnosis.verdict} → {state.diagnosis.verdict})"
    outcome = FixOutcome.FIXED if healthy else FixOutcome.IMPROVED
    return replace(kept_fix(plan, state, tried, model, outcome, trains + verdict), confirmations=(start, end))


def _part(progress: Progress, begin: float, length: float) -> Progress:
    return lambda share, what: progress(begin + length * share, what)
