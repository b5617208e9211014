"""The outcome of a fix, and the copies of a network on the way to it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.document import Viewed, environment
from orthoscope.prescriptions.comparison import Axes, Comparison, axes, compare, effect, kept
from orthoscope.prescriptions.confirmation import Confirmation
from orthoscope.prescriptions.plan import Plan
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


@dataclass(frozen=True)
class State:
    """A copy of the network with some steps applied."""

    model: nn.Module
    diagnosis: Diagnosis
    steps: tuple[Prescription, ...]

    @property
    def axes(self) -> Axes:
        """Where it is in the trainability plane."""
        return axes(self.diagnosis)

    def rank(self, before: Axes) -> tuple[bool, tuple[float, ...]]:
        """Sort key, smaller is better: states that the rule keeps come first."""
        return not kept(before, self.axes), self.axes.badness


def after_step(
    state: State,
    step: Prescription,
    batch: Any,
    measured: Callable[[nn.Module], Diagnosis],
    tried: dict[str, Prescription],
) -> State | None:
    """A copy with one more step, measured; None if it does not apply."""
    candidate = copy.deepcopy(state.model)
    try:
        step.apply_(candidate, batch)
        found = measured(candidate)
    except Exception as reason:  # the network is the user's, and a changed one may raise anything
        why = str(reason) or type(reason).__name__
        tried.setdefault(step.name, replace(step, outcome=f"does not apply: {why}"))
        return None
    done = replace(step, measured=effect(found), verdict=found.verdict)
    if not state.steps:
        tried[step.name] = replace(done, outcome="tried")
    return State(candidate, found, (*state.steps, done))


def kept_fix(
    plan: Plan, state: State, tried: dict[str, Prescription], model: nn.Module, outcome: FixOutcome, sentence: str
) -> Fix:
    """The outcome with the steps of a state."""
    steps = tuple(replace(step, outcome="kept") for step in state.steps)
    done = {step.name: step for step in steps}
    if doubt := plan.doubt(model):
        sentence += f"; on a copy, because your weights may be trained ({doubt})"
    everything = tuple(done.get(step.name, tried.get(step.name, step)) for step in plan.steps)
    return Fix(state.model, plan.diagnosis, state.diagnosis, steps, everything, outcome, sentence)


def unchanged_fix(
    model: nn.Module, plan: Plan, outcome: FixOutcome, sentence: str, steps: tuple[Prescription, ...]
) -> Fix:
    """The outcome that changes nothing."""
    return Fix(copy.deepcopy(unwrapped(model)), plan.diagnosis, plan.diagnosis, (), steps, outcome, sentence)
