"""The one training loop: any model, data, optimizer, schedule and loss, reproducible from a generator."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from orthoscope.probe.losses import Loss, call_loss
from orthoscope.probe.samples import Call, chosen_samples, mapped

# Inputs and targets, of which a tuple of inputs is several arguments; or the arguments by name, with a target or none.
Batch = tuple[Tensor | tuple[Tensor, ...], Tensor] | Call


@dataclass(frozen=True)
class Step:
    """The argument of a callback, after every optimizer step."""

    number: int  # from 1
    epoch: int  # from 1
    loss: float  # of the batch of this step, before the step
    model: nn.Module


@dataclass
class History:
    """The losses of every step, and why the loop ended."""

    losses: list[float] = field(default_factory=list)
    stopped: str = ""  # "done", "diverged", "no gradient", "stalled" or what a callback returned

    @property
    def best(self) -> float:
        """The smallest loss, infinity if no step was finite."""
        return min((loss for loss in self.losses if math.isfinite(loss)), default=math.inf)

    def final(self, over: int = 10) -> float:
        """Mean of the last `over` losses, since that of one batch is noisy; infinite if training diverged."""
        tail = self.losses[-over:]
        finite = bool(tail) and self.stopped != "diverged" and all(math.isfinite(loss) for loss in tail)
        return sum(tail) / len(tail) if finite else math.inf


def minibatches(
    inputs: Tensor, targets: Tensor, size: int, generator: torch.Generator | None = None
) -> Callable[[], Iterator[tuple[Tensor, Tensor]]]:
    """A function that returns one epoch of batches, shuffled anew at each call; the last batch may be smaller.

    The permutation is drawn on the CPU, so that it does not depend on the device.
    """
    if len(inputs) != len(targets):
        raise ValueError(f"got {len(inputs)} inputs and {len(targets)} targets: give one target per input")
    if len(inputs) == 0:
        raise ValueError("there are no samples to train on")
    if size < 1:
        raise ValueError(f"a batch needs at least one sample, got size {size}")

    def epoch() -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
        for indices in order.split(size):
            yield inputs[indices], targets[indices]

    return epoch


def pieces(call: Call, size: int, generator: torch.Generator | None = None) -> Callable[[], Iterator[Call]]:
    """`minibatches` of the samples of a call; see `probe.samples.divisible`."""

    def epoch() -> Iterator[Call]:
        for indices in torch.randperm(call.samples, generator=generator).split(size):
            yield chosen_samples(call, indices)

    return epoch


def train(
    model: nn.Module,
    epoch: Callable[[], Iterable[Batch]],
    optimizer: Optimizer,
    *,
    steps: int,
    loss: Loss | None = nn.functional.cross_entropy,
    schedule: LRScheduler | None = None,
    callback: Callable[[Step], str | None] | None = None,
    patience: int | None = None,
    clip: Callable[[nn.Module], None] | None = None,
) -> History:
    """Take `steps` optimizer steps, calling `epoch()` as often as needed.

    Args:
        model: Trained in place; every module keeps its training mode afterwards.
        epoch: Returns the `(inputs, targets)` batches of one epoch, or calls; see `minibatches`. Inputs that are a
            tuple are the several arguments of the model.
        optimizer: Any torch optimizer, also one that evaluates a closure several times.
        steps: Number of optimizer steps.
        loss: Function of outputs and targets, or of outputs; None for the loss that the model returns, or the usual one
            of its targets (`probe.losses.call_loss`).
        schedule: Stepped after every optimizer step.
        callback: Called after every step; a string that it returns stops training and becomes `History.stopped`.
        patience: Stop ("stalled") if the loss has not improved for so many steps.
        clip: Called between backward pass and step; may change gradients.

    Returns:
        The losses. Training also stops, before that step is taken, at a loss that is not finite ("diverged"), or that
        depends on no parameter ("no gradient").
    """
    history = History()
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    modes = [(module, module.training) for module in model.modules()]
    model.train()
    try:
        for number, (turn, batch) in enumerate(_steps(epoch, steps), start=1):
            value, stopped = _step(model, _placed(batch, device), optimizer, loss, clip)
            history.losses.append(value)
            history.stopped = stopped or _reason_to_stop(history, patience)
            if not history.stopped and callback is not None:
                history.stopped = callback(Step(number, turn, value, model)) or ""
            if history.stopped:
                return history
            if schedule is not None:
                schedule.step()
    finally:
        for module, mode in modes:
            module.training = mode
    history.stopped = "done"
    return history


def _steps(epoch: Callable[[], Iterable[Batch]], steps: int) -> Iterator[tuple[int, Batch]]:
    taken = turn = 0
    while taken < steps:
        turn += 1
        before = taken
        for batch in epoch():
            if taken == steps:
                return
            taken += 1
            yield turn, batch
        if taken == before:
            raise ValueError("the data is empty: an epoch gave no batch")


def _placed(batch: Batch, device: torch.device) -> Call:
    """The batch as a call, its tensors on the device of the model."""
    if not isinstance(batch, Call):
        inputs, target = batch
        batch = Call(inputs if isinstance(inputs, tuple) else (inputs,), target=target)
    parts = (tuple(batch.args), dict(batch.kwargs), batch.target)
    return Call(*mapped(parts, lambda tensor: tensor.to(device)))


class _StoppedError(ArithmeticError):
    """Raised with the loss, and the reason why no step can be taken: the weights stay unchanged."""


def _step(
    model: nn.Module,
    batch: Call,
    optimizer: Optimizer,
    loss: Loss | None,
    clip: Callable[[nn.Module], None] | None,
) -> tuple[float, str]:
    def closure() -> float:
        optimizer.zero_grad(set_to_none=True)
        value = call_loss(loss, model(*batch.args, **batch.kwargs), batch.target)
        if not bool(value.isfinite()):
            raise _StoppedError(float(value.detach()), "diverged")
        if not value.requires_grad:
            raise _StoppedError(float(value.detach()), "no gradient")
        value.backward()
        if clip is not None:
            clip(model)
        return float(value.detach())

    # A closure works for every optimizer, also for those that evaluate the loss several times, such as LBFGS.
    try:
        return float(optimizer.step(closure)), ""
    except _StoppedError as stopped:
        return stopped.args


def _reason_to_stop(history: History, patience: int | None) -> str:
    if not math.isfinite(history.losses[-1]):
        return "diverged"
    if patience and len(history.losses) > patience:
        before, recent = history.losses[:-patience], history.losses[-patience:]
        return "stalled" if min(recent) >= min(before) else ""
    return ""
