"""Whether a network trains: a short learning-rate sweep on copies, beside guessing and a shallow network."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.document import Viewed, environment
from orthoscope.findings import Verdict
from orthoscope.optim import Muon, muon_parameter_groups
from orthoscope.prescriptions._baselines import LEAST_LEARNED, comparable, constant_loss, shallow_network
from orthoscope.prescriptions._tasks import Task, example_output, training_task
from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.losses import Loss
from orthoscope.probe.samples import mapped
from orthoscope.report import document
from orthoscope.report.document import ConfirmationDocument, copied
from orthoscope.training import History, train

STEPS = 150
Progress = Callable[[float, str], None]  # the share that is done, and what is going on


def _sgd(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)


def _adamw(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def _muon(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    # What is no hidden matrix follows AdamW at a rate of its own.
    try:
        groups = muon_parameter_groups(model)
    except ValueError:  # there is none, as in the shallow network of token ids
        return _adamw(model, rate / 10)
    return Muon(groups, lr=rate, adamw_lr=rate / 10)


# By name, how it is made, and the learning rates that are tried.
OPTIMIZERS: dict[str, tuple[Callable[[nn.Module, float], torch.optim.Optimizer], tuple[float, ...]]] = {
    "adamw": (_adamw, (1e-2, 1e-3, 1e-4)),
    "sgd": (_sgd, (1e-1, 1e-2, 1e-3)),
    "muon": (_muon, (1e-1, 2e-2, 4e-3)),
}


@dataclass(frozen=True)
class Run:
    """One training at one learning rate."""

    learning_rate: float
    history: History

    @property
    def final(self) -> float:
        """Mean of the last losses; infinite if training diverged."""
        return self.history.final()


@dataclass(frozen=True, repr=False)
class Confirmation(Viewed):
    """Outcome of a short training, and whether it agrees with the verdict; made by `confirm`.

    Attributes:
        name: Of the network.
        verdict: The verdict that was tested.
        runs: One training per learning rate.
        guessing_loss: Loss of guessing.
        reference_loss: Loss that the reference reaches with the same steps.
        reference: What the reference is, in words.
        source: Where the data come from, in words.
        steps: Steps of a training.
        guess: What guessing is, in words: the best constant output, or the network before training.
    """

    name: str
    verdict: Verdict
    runs: tuple[Run, ...]
    guessing_loss: float
    reference_loss: float
    reference: str
    source: str
    steps: int
    guess: str = "best constant output"

    @property
    def final_loss(self) -> float:
        """The best final loss over learning rates; infinite if all diverged."""
        return min(run.final for run in self.runs)

    @property
    def trains(self) -> bool | None:
        """Whether it learned half of what the reference learned; None if the reference learned nothing."""
        if not math.isfinite(self.final_loss):
            return False
        if not self.reference_loss < self.guessing_loss:
            return None
        return trained(self.final_loss, self.reference_loss, self.guessing_loss)

    @property
    def outcome(self) -> str:
        """One of "trains", "does not train" and "undecided", as `trains`."""
        return {True: "trains", False: "does not train", None: "undecided"}[self.trains]

    @property
    def confirmed(self) -> bool | None:
        """Whether the outcome agrees with the verdict; None if that is open: AT RISK or UNKNOWN."""
        if self.trains is None or self.verdict in (Verdict.AT_RISK, Verdict.UNKNOWN):
            return None
        return self.trains is (self.verdict is Verdict.HEALTHY)

    @property
    def summary(self) -> str:
        """One sentence: outcome, losses, and whether the verdict is confirmed."""
        best = min(self.runs, key=lambda run: run.final)
        loss = f"loss {self.final_loss:.3g}" if math.isfinite(self.final_loss) else "every run diverged"
        said = {True: "confirmed", False: "refuted", None: "neither confirmed nor refuted"}[self.confirmed]
        at = f" at learning rate {best.learning_rate:g}" if math.isfinite(self.final_loss) else ""
        return (
            f"{self.outcome}: {loss} after {self.steps} steps{at} on {self.source} ({self.guess}: "
            f"{self.guessing_loss:.3g}, {self.reference}: {self.reference_loss:.3g}); verdict {self.verdict} {said}"
        )

    def as_document(self, details: bool = True) -> ConfirmationDocument:
        """Return the document, with the losses of every step."""
        runs = (
            copied(
                document.Run,
                run.history,
                learning_rate=run.learning_rate,
                final=run.final,
                losses=tuple(run.history.losses),
            )
            for run in self.runs
        )
        return copied(ConfirmationDocument, self, runs=tuple(runs), environment=environment())


@dataclass(frozen=True)
class Recipe:
    """How networks are trained for a short time."""

    steps: int
    learning_rates: tuple[float, ...]
    optimizer: str
    seed: int

    @classmethod
    def checked(cls, steps: int, learning_rates: Sequence[float] | None, optimizer: str, seed: int) -> "Recipe":
        """The recipe; a ValueError for options that make none."""
        if steps < 10:
            raise ValueError(f"steps={steps}, but the final loss is a mean over ten steps: give at least 10")
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"unknown optimizer {optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
        rates = OPTIMIZERS[optimizer][1] if learning_rates is None else tuple(learning_rates)
        if not rates or not all(0 < rate < math.inf for rate in rates):
            raise ValueError(f"learning rates are positive numbers, at least one, got {rates}")
        return cls(steps, rates, optimizer, seed)

    def runs(self, model: nn.Module, task: Task, loss: Loss | None, what: str, progress: Progress) -> Iterator[Run]:
        """Train a copy at each learning rate."""
        for number, rate in enumerate(self.learning_rates):
            progress(number / len(self.learning_rates), f"training {what} at learning rate {rate:g}")
            twin = copy.deepcopy(unwrapped(model))
            with torch.random.fork_rng():
                torch.manual_seed(self.seed)  # for dropout: every learning rate drops the same
                optimizer = OPTIMIZERS[self.optimizer][0](twin, rate)
                yield Run(rate, train(twin, task.start(), optimizer, steps=self.steps, loss=loss))


@dataclass(frozen=True)
class Trial:
    """A task, and what is known of it without the network: the same for all networks that are compared on it.

    Attributes:
        task: The batches.
        loss: Of the user; None for that of the model, or the usual one.
        recipe: How networks are trained.
        guessing: Loss of the best constant prediction; None if it cannot be computed.
        reference: Final loss of a shallow network; None if it cannot be built.
        start: Where guessing is unknown, the least loss before training of a network that was trained already.
    """

    task: Task
    loss: Loss | None
    recipe: Recipe
    guessing: float | None
    reference: float | None
    start: float = math.inf

    @classmethod
    def of(
        cls,
        model: nn.Module,
        batches: Any,
        loss: Loss | None,
        recipe: Recipe,
        *,
        batch: Any = None,
        progress: Progress = lambda share, what: None,
    ) -> "Trial":
        """Read the batches, and train the reference."""
        task = training_task(model, batches, batch, loss, recipe.steps, recipe.seed)
        output = example_output(model, task.calls[0])
        rest = comparable(task.calls, output, loss)
        if rest is None:
            return cls(task, loss, recipe, None, None)
        output = mapped(rest.output, Tensor.detach)
        shallow = shallow_network(rest.calls, output, recipe.seed)
        reference = None
        if shallow is not None:
            # Where the loss is computed inside the model, the reference is given logits and labels.
            same = task.start if rest.calls is task.calls else lambda: lambda: iter(rest.calls)
            replaced = Task(same, rest.calls, task.source)
            reference = min(
                run.final for run in recipe.runs(shallow, replaced, rest.loss, "a shallow network", progress)
            )
        return cls(task, loss, recipe, constant_loss(replace(rest, output=output)), reference)

    def confirmation(
        self, model: nn.Module, diagnosis: Diagnosis, progress: Progress = lambda share, what: None
    ) -> Confirmation:
        """Train copies of a network, whose verdict is tested."""
        runs = tuple(self.recipe.runs(model, self.task, self.loss, diagnosis.name, progress))
        start = min(self.start, *(run.history.losses[0] for run in runs))
        guessing = start if self.guessing is None else self.guessing
        words, reference = "a shallow network", self.reference
        if reference is None or self.guessing is None:
            words, reference = "a fifth less", guessing - LEAST_LEARNED * abs(guessing)
        return Confirmation(
            diagnosis.name,
            diagnosis.verdict,
            runs,
            guessing,
            reference,
            words,
            self.task.source,
            self.recipe.steps,
            "before training" if self.guessing is None else "best constant output",
        )


def confirm(
    model: nn.Module,
    batches: Any = None,
    loss: Loss | None = None,
    *,
    steps: int = STEPS,
    learning_rates: Sequence[float] | None = None,
    optimizer: str = "adamw",
    batch: Any = None,
    diagnosis: Diagnosis | None = None,
    seed: int = 0,
    progress: Progress = lambda share, what: None,
) -> Confirmation:
    """Train copies of `model` for a few steps at several learning rates, and say whether its verdict was right.

    It trains if it learns half of what a shallow network learns from the same batches
    (`trained`). The model is left unchanged.

    Args:
        model: Any module that `diagnose` takes.
        batches: A DataLoader or a list of batches, each in any form that `diagnose` takes, of which as many are taken
            as there are steps; or one batch, cut into batches of 64. Every run gets the same batches in the same order.
            By default `batch`, if it brings a target or the model returns its loss, else embedded digits or text, made
            to fit it.
        loss: As for `diagnose`; by default the one that the model returns, or cross entropy for integer targets and
            mean square for others.
        steps: Steps of a training, at least 10.
        learning_rates: One training each; by default three that suit the optimizer (`OPTIMIZERS`).
        optimizer: "adamw", "sgd" with momentum 0.9, or "muon".
        batch: What the model is called with; needed without `batches`.
        diagnosis: The diagnosis whose verdict is tested; by default one on the first batch.
        seed: Of shuffling and dropout.
        progress: Called with the share of the trainings that is done, and with what is trained.

    Raises:
        ValueError: If data, loss or options do not fit; the message says why and what to do.

    Example:
        >>> model = orthoscope.models.MLP(depth=2, width=64)
        >>> orthoscope.confirm(model, batch=torch.randn(16, 64), steps=20, learning_rates=[1e-2]).outcome
        'trains'
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"a network is trained, got a {type(model).__name__}")
    recipe = Recipe.checked(steps, learning_rates, optimizer, seed)
    trial = Trial.of(model, batches, loss, recipe, batch=batch, progress=lambda s, what: progress(s / 2, what))
    if diagnosis is None:
        diagnosis = diagnose(model, trial.task.calls[0], loss)
    return trial.confirmation(model, diagnosis, progress=lambda share, what: progress(0.5 + share / 2, what))


def trained(final_loss: float, reference_loss: float, guessing_loss: float) -> bool:
    r"""Whether a network learned at least half of what a shallow reference learned.

    $$ \text{final} \le \text{guessing} - \tfrac12 (\text{guessing} - \text{reference}) $$

    `guessing_loss` is that of the best constant prediction, `reference_loss` what a shallow network reaches with the
    same steps. With a loss that is not finite the answer is False; a reference that learns nothing is refused.
    """
    if not reference_loss < guessing_loss:
        raise ValueError(
            f"the reference ends at {reference_loss:.4g}, no better than guessing, {guessing_loss:.4g}: "
            "train it longer, or give data that it can learn"
        )
    return final_loss <= guessing_loss - (guessing_loss - reference_loss) / 2
