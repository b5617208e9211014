"""From a diagnosis to ranked prescriptions: the remedies in the order in which they are tried, and the plan they make.

A remedy gives a prescription, or None where it does not apply. A new one is a function in `layer_remedies` or
`remedies` and its name in `REMEDIES`: what names a layer as the cause first, and weights before architecture, because
numbers are easier to change than code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from torch import nn

from orthoscope import report
from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.inspection import doubt_that_drawn
from orthoscope.findings import Verdict
from orthoscope.prescriptions import layer_remedies, remedies
from orthoscope.prescriptions.advice import advice_for
from orthoscope.prescriptions.prescription import Prescription
from orthoscope.probe.hooks import unwrapped

Remedy = Callable[[Diagnosis], Prescription | None]
REMEDIES: tuple[Remedy, ...] = (
    layer_remedies.open_gates,
    layer_remedies.reset_biases,
    layer_remedies.new_layers,
    layer_remedies.without_softmax,
    layer_remedies.scaled_attention,
    remedies.orthogonal_weights,
    remedies.weaker_branches,
    remedies.xavier_weights,
    remedies.weaker_branches_anew,
    remedies.rescaled_weights,
    remedies.unit_variance,
    remedies.iterative_orthogonalization,
    layer_remedies.standardized_input,
    remedies.blended_activations,
    remedies.normalized_inputs,
    remedies.batch_normalization,
)


@dataclass(frozen=True)
class Plan(Sequence[Prescription]):
    """Prescriptions in the order in which to try them, as a sequence; empty for a healthy network. Made by `prescribe`.

    Attributes:
        diagnosis: The diagnosis that they follow from.
        steps: The prescriptions.
        refusal: Why weights may not be changed; empty if they may.
        allowed: Whether the user said that the weights are not trained, or may be lost.
    """

    diagnosis: Diagnosis
    steps: tuple[Prescription, ...]
    refusal: str = ""
    allowed: bool = False

    def __str__(self) -> str:
        name, verdict = self.diagnosis.name, self.diagnosis.verdict
        if not self.steps:
            return f"{name} is {verdict}: nothing to change"
        first = f"{name} is {verdict}: {len(self.steps)} prescriptions, the most promising first"
        refused = [self.refusal] if self.refusal else []
        return "\n".join([first, *refused, "", report.plan_text([step.as_document() for step in self.steps])])

    __repr__ = __str__

    @overload
    def __getitem__(self, index: int) -> Prescription: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Prescription, ...]: ...
    def __getitem__(self, index: int | slice) -> Prescription | tuple[Prescription, ...]:
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def applicable(self) -> tuple[Prescription, ...]:
        """The steps that change the model; the others are advice for the training loop or the code."""
        return tuple(step for step in self.steps if step.applies)

    def apply_(self, model: nn.Module, batch: Any, loss: Any = None) -> tuple[Prescription, ...]:
        """Try the steps on copies, then apply the best of them in place.

        All or nothing: if no step helps, the model is unchanged. So it is if its weights may be trained (`doubt`) and
        `prescribe` was not told otherwise.

        Args:
            model: Changed in place.
            batch: As for `diagnose`.
            loss: As for `diagnose`.

        Returns:
            The steps that were applied, with their measured effect.

        Raises:
            ValueError: If nothing was changed, with the reason.
        """
        from orthoscope.prescriptions.trials import fix_by_plan

        if self.applicable and (doubt := self.doubt(model)):
            raise ValueError(
                f"nothing was changed, because the weights may be trained ({doubt}): if they are not, "
                "prescribe(diagnosis, trained=False) allows new ones in place"
            )
        fixed = fix_by_plan(self, model, batch, loss)
        if not fixed.steps:
            raise ValueError(f"nothing was changed: {fixed.sentence}")
        # Every step has just run on a copy, from the same seeds: it runs here too.
        for step in fixed.steps:
            step.apply_(model, batch)
        return fixed.steps

    def doubt(self, model: nn.Module) -> str:
        """Why the weights of `model` may be trained (`doubt_that_drawn`); empty if not, or if new ones are allowed."""
        return "" if self.allowed else doubt_that_drawn(unwrapped(model))


def prescribe(diagnosis: Diagnosis, *, trained: bool | None = None, reinitialize: bool = False) -> Plan:
    """Prescribe changes for a diagnosed network, in the order in which to try them, each with its predicted effect.

    Args:
        diagnosis: From `diagnose`.
        trained: Whether the weights are trained, which leaves them unchanged. By default judged by signs (see
            `orthoscope.diagnosis.inspection.signs_of_training`); False says that they are not.
        reinitialize: Allow new weights for a trained network.

    Returns:
        The plan; only advice if the weights are left unchanged.

    Raises:
        ValueError: If the argument is not a diagnosis.

    Example:
        >>> model = orthoscope.models.MLP(depth=50, width=32)
        >>> orthoscope.prescribe(orthoscope.diagnose(model, torch.randn(64, 32)))[0].name
        'orthogonal weights'
    """
    if not isinstance(diagnosis, Diagnosis):
        raise ValueError(
            f"prescriptions follow from a diagnosis, got a {type(diagnosis).__name__}: call diagnose first"
        )
    if diagnosis.verdict.rank < Verdict.AT_RISK.rank:
        return Plan(diagnosis, ())
    return plan_for(diagnosis, trained=trained, reinitialize=reinitialize)


def plan_for(diagnosis: Diagnosis, *, trained: bool | None, reinitialize: bool) -> Plan:
    """The plan whatever the verdict is: a training may have refuted it."""
    signs = diagnosis.anatomy.trained if trained is None else "trained=True was given" if trained else ""
    if signs and not reinitialize:
        refusal = f"the weights are left unchanged, because {signs}: reinitialize=True allows new ones"
        return Plan(diagnosis, advice_for(diagnosis), refusal)
    found = [step for remedy in REMEDIES if (step := remedy(diagnosis)) is not None]
    return Plan(diagnosis, (*found, *advice_for(diagnosis)), allowed=trained is False or reinitialize)
