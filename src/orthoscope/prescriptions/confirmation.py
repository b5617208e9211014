"""Whether a network trains: a short learning-rate sweep on copies, beside guessing and a shallow network."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.diagnosis.document import Viewed, environment
from orthoscope.findings import Verdict
from orthoscope.prescriptions._tasks import constant_loss, fitting_task, shallow_network
from orthoscope.probe.hooks import unwrapped
from orthoscope.report import document
from orthoscope.report.document import ConfirmationDocument, copied
from orthoscope.training import History, Loss, minibatches, train

# Adam for so many steps at these rates, as the networks were trained that set the limits of a verdict.
LEARNING_RATES = (1e-2, 1e-3, 1e-4)
STEPS = 150
_SAMPLES = 64  # of a batch that is cut from tensors
_LEAST_LEARNED = 0.2  # share of guessing that counts as learned where no shallow network can be built
Epoch = Callable[[], Iterable[tuple[Tensor, Tensor]]]
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters, rate: torch.optim.SGD(parameters, lr=rate, momentum=0.9),
    "adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate),
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
        guessing_loss: Loss of the best constant prediction.
        reference_loss: Loss that the reference reaches with the same steps.
        reference: What the reference is, in words.
        source: Where the data come from, in words.
        steps: Steps of a training.
    """

    name: str
    verdict: Verdict
    runs: tuple[Run, ...]
    guessing_loss: float
    reference_loss: float
    reference: str
    source: str
    steps: int

    @property
    def final_loss(self) -> float:
        """The best final loss over learning rates; infinite if all diverged."""
        return min(run.final for run in self.runs)

    @property
    def trains(self) -> bool | None:
        """Whether it learned half of what the reference learned; None if the reference learned nothing."""
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
            f"{self.outcome}: {loss} after {self.steps} steps{at} on {self.source} (best constant output: "
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


def confirm(
    model: nn.Module,
    batches: Any = None,
    loss: Loss | None = None,
    *,
    steps: int = STEPS,
    learning_rates: Sequence[float] = LEARNING_RATES,
    optimizer: str = "adam",
    batch: Any = None,
    diagnosis: Diagnosis | None = None,
    seed: int = 0,
    progress: Callable[[float, str], None] = lambda share, what: None,
) -> Confirmation:
    """Train copies of `model` for a few steps at several learning rates, and say whether its verdict was right.

    It trains if it learns half of what a shallow network learns from the same batches
    (`trained`). The model is left unchanged.

    Args:
        model: A network of one input tensor and one output tensor.
        batches: A DataLoader or a list of (inputs, targets), of which as many are taken as there are steps, or one pair
            of tensors, cut into batches of 64. Every run gets the same batches in the same order. By default embedded
            digits or text, made to fit `batch`.
        loss: `loss(output, target)`; by default cross entropy for integer targets and mean square for others.
        steps: Steps of a training, at least 10.
        learning_rates: One training each.
        optimizer: "adam", or "sgd" with momentum 0.9.
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
    _check(steps, learning_rates, optimizer)
    start, source = _data(model, batches, batch, steps, seed)
    seen = list(islice(start()(), steps))
    inputs, targets = seen[0]
    criterion = _criterion(targets) if loss is None else loss
    verdict = (diagnose(model, inputs) if diagnosis is None else diagnosis).verdict
    name = type(unwrapped(model)).__name__ if diagnosis is None else diagnosis.name

    def sweep(candidate: nn.Module, what: str, done: float) -> Iterator[Run]:
        for number, rate in enumerate(learning_rates):
            progress(done + number / len(learning_rates) / 2, f"training {what} at learning rate {rate:g}")
            yield _run(candidate, start(), criterion, rate, steps, optimizer, seed)

    output = _example_output(model, inputs)
    guessing = constant_loss(seen, output, criterion)
    shallow = shallow_network([one for one, _ in seen], output, seed)
    words = "a fifth less than guessing" if shallow is None else "a shallow network"
    if shallow is None:
        reference = guessing * (1 - _LEAST_LEARNED)
    else:
        reference = min(run.final for run in sweep(shallow, words, 0.0))
    runs = tuple(sweep(model, name, 0.5))
    return Confirmation(name, verdict, runs, guessing, reference, words, source, steps)


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


def _run(model: nn.Module, epoch: Epoch, loss: Loss, rate: float, steps: int, optimizer: str, seed: int) -> Run:
    twin = copy.deepcopy(unwrapped(model))
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # for dropout: every learning rate drops the same
        return Run(rate, train(twin, epoch, OPTIMIZERS[optimizer](twin.parameters(), rate), steps=steps, loss=loss))


def _check(steps: int, learning_rates: Sequence[float], optimizer: str) -> None:
    if steps < 10:
        raise ValueError(f"steps={steps}, but the final loss is a mean over ten steps: give at least 10")
    if not learning_rates or not all(0 < rate < math.inf for rate in learning_rates):
        raise ValueError(f"learning rates are positive numbers, at least one, got {tuple(learning_rates)}")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")


def _data(model: nn.Module, batches: Any, batch: Any, steps: int, seed: int) -> tuple[Callable[[], Epoch], str]:
    """A function that gives each run the same batches in the same order, and where the data come from."""
    if batches is None:
        if batch is None:
            raise ValueError(
                "there is no training data: give batches of (inputs, targets), or batch= for embedded data that fits it"
            )
        task = fitting_task(model, batch)
        return _shuffled(task.inputs, task.targets, seed), task.source
    pair = isinstance(batches, tuple | list) and len(batches) == 2 and all(isinstance(t, Tensor) for t in batches)
    if pair and batches[0].ndim > 1:
        return _shuffled(batches[0], batches[1], seed), "your data"
    with torch.random.fork_rng():
        # At most one batch per step: a loader may be infinite, or not fit into memory.
        found = [(one[0], one[1]) for one in islice(batches, steps)]
    if not found:
        raise ValueError("the data is empty: give at least one batch of (inputs, targets)")
    return lambda: lambda: iter(found), "your data"


def _shuffled(inputs: Tensor, targets: Tensor, seed: int) -> Callable[[], Epoch]:
    size = min(_SAMPLES, len(inputs))
    return lambda: minibatches(inputs, targets, size, torch.Generator().manual_seed(seed))


def _criterion(targets: Tensor) -> Loss:
    def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output.flatten(0, -2), target.flatten())

    return F.mse_loss if targets.is_floating_point() else cross_entropy


def _example_output(model: nn.Module, inputs: Tensor) -> Tensor:
    twin = copy.deepcopy(unwrapped(model)).eval()
    device = next((parameter.device for parameter in twin.parameters()), torch.device("cpu"))
    with torch.no_grad():
        output = twin(inputs.to(device))
    if not isinstance(output, Tensor):
        raise ValueError(f"the model returns a {type(output).__name__}: wrap it so that it returns one tensor")
    return output
