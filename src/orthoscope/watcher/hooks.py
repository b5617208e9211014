"""`watch` and `Watch`: the loss of every step of a training loop, and snapshots of its model every few steps."""

import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.document import Viewed, environment, omissions
from orthoscope.findings import Verdict
from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.losses import Loss
from orthoscope.probe.samples import Call, first_samples
from orthoscope.report import document
from orthoscope.report.document import WatchDocument, WatchWarning, copied
from orthoscope.report.watch_terminal import history_text, watch_table
from orthoscope.watcher._changes import Judged, SnapshotJudge
from orthoscope.watcher._monitor import StepMonitor
from orthoscope.watcher._snapshot import checkup, own_loss, profile_scalars, update_scalars
from orthoscope.watcher._updates import UpdateRow, WatchedUpdates
from orthoscope.watcher.sinks import LogSinks, step_losses

_MOST_LOSSES = 2_000  # of a document


class RiskWarning(UserWarning):
    """The loss, the verdict or the learning rate of a training is bad, or a snapshot or a logger failed."""


class StopTraining(Exception):  # noqa: N818 - a request, not an error
    """Raised to end a training loop; the context of the watch catches it."""


class Watch(Viewed):
    """Snapshots of a model while the context is open, made by `watch`.

    Args:
        model: As for `watch`.
        optimizer: As for `watch`.
        every: As for `watch`.
        profile: As for `watch`.
        updates: As for `watch`.
        log: As for `watch`.
        logger: As for `watch`.
        on_risk: As for `watch`.
        loss: As for `watch`.
        samples: As for `watch`.
        batch_statistics: As for `watch`.
        largest: As for `watch`.
        losses: As for `watch`.
        wait: As for `watch`.
        halt: Called with the reason if training is to stop; by default it raises `StopTraining`.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        every: int = 200,
        *,
        profile: bool = True,
        updates: bool = False,
        log: str | os.PathLike[str] | None = None,
        logger: Any = "active",
        on_risk: str | None = None,
        loss: Loss | None = None,
        samples: int = 64,
        batch_statistics: bool = True,
        largest: int = 4096,
        losses: bool = True,
        wait: bool = False,
        halt: Callable[[str], None] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be an nn.Module, got {type(model).__name__}: pass the model")
        if every < 1:
            raise ValueError(f"every={every}, but snapshots are at least 1 step apart")
        if samples < 1:
            raise ValueError(f"samples={samples}, but a snapshot needs at least 1 sample")
        if on_risk not in ("warn", "stop", None):
            raise ValueError(f'on_risk must be "warn", "stop" or None, got {on_risk!r}')
        if not (profile or updates or losses):
            raise ValueError(
                "profile, updates and losses are all False: set one of them, or there is nothing to record"
            )
        self.model = unwrapped(model)
        self.every = every
        self.step = 0  # optimizer steps taken; set it before resuming from a checkpoint
        self.history: list[document.Snapshot] = []
        self.latest: Diagnosis | None = None
        self.last_healthy: Diagnosis | None = None
        self.last_healthy_step: int | None = None
        self.warnings: list[WatchWarning] = []  # what was wrong with loss, gradients, weights, or the network
        self.stopped = ""  # why training was to stop
        self.problems: list[str] = []  # snapshots and loggers that failed; training went on
        self._failed: set[str] = set()  # kinds of problems for which a warning was given
        self._called = model  # with the wrappers that it is called through
        self._profile, self._loss, self._samples, self._batch_statistics = profile, loss, samples, batch_statistics
        self._updates = WatchedUpdates(self.model, every, largest) if updates else None
        self._optimizers = _optimizers(optimizer)
        self._counted_optimizer: weakref.ref[Optimizer] | None = None  # the optimizer whose steps are counted
        self._sinks = LogSinks(type(self.model).__name__, log, logger)
        self._on_risk, self._halt = on_risk, halt or _raise_stop
        self._judge = SnapshotJudge()
        self._monitor = StepMonitor(self._called, self._warn, wait) if losses else None
        self._logged_losses, self._logged_warnings = 0, 0
        self._snapshot_step: int | None = None
        self._taking_snapshot = False
        self._handles: list[RemovableHandle] = []

    @property
    def rows(self) -> list[UpdateRow]:
        """The effect of recorded steps on every matrix; empty without `updates`."""
        return [] if self._updates is None else self._updates.rows

    @property
    def skipped(self) -> dict[str, str]:
        """Parameters whose updates were not recorded, and why."""
        return {} if self._updates is None else self._updates.skipped

    @property
    def losses(self) -> list[tuple[int, float]]:
        """Step and loss of every step that was read so far."""
        return [] if self._monitor is None else self._monitor.losses

    def loss(self, value: Tensor | float) -> None:
        """Tell the loss of this step, for a loop whose backward pass does not start at it.

        From the first call on, losses are no longer read where backward passes start.

        Args:
            value: The loss, a scalar; a tensor is not waited for.
        """
        if self._monitor is not None:
            self._monitor.tell(value)

    def __enter__(self) -> "Watch":
        if self._handles:
            raise RuntimeError("this watch is running already: leave its context first, or make another one")
        before, after = _weak_hook(self._before_step), _weak_hook(self._after_step)
        if self._optimizers is None:
            self._handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
        for optimizer in self._optimizers or ():
            self._handles.append(optimizer.register_step_pre_hook(before))
            self._handles.append(optimizer.register_step_post_hook(after))
        if self._monitor is not None:
            self._monitor.start()
            self._handles.append(self._called.register_forward_hook(_weak_hook(self._after_forward)))
        if self._profile or self._monitor is not None:
            # Prepended: FSDP gathers parameters in a hook of its own, which must not have run yet.
            forward = _weak_hook(self._before_forward)
            self._handles.append(self._called.register_forward_pre_hook(forward, prepend=True, with_kwargs=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.close()
        return isinstance(error, StopTraining) and str(error) == self.stopped

    def close(self) -> None:
        """Remove the hooks, as the end of the context does; history and rows stay."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._updates is not None:
            self._updates.forget()
        if self._monitor is not None:
            self._monitor.close()

    def _before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take a snapshot, if this is the first call with gradients since a step that asks for it."""
        if self._taking_snapshot or not torch.is_grad_enabled():
            return
        if self._monitor is not None:
            self._monitor.forward_begins(Call(args, kwargs))
        if self._profile and self.step % self.every == 0 and self.step != self._snapshot_step:
            self._snapshot_step, self._taking_snapshot = self.step, True
            try:
                self._take_snapshot(Call(args, kwargs))
            finally:
                self._taking_snapshot = False

    def _after_forward(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self._monitor is not None and not self._taking_snapshot and torch.is_grad_enabled():
            self._monitor.forward_ends(output)

    def _take_snapshot(self, call: Call) -> None:
        try:
            loss = self._loss or (own_loss if "labels" in call.kwargs else None)
            diagnosis = checkup(self._called, first_samples(call, self._samples), loss, self._batch_statistics)
        except Exception as error:  # a model may raise anything when it is run once more
            self._fail("take a snapshot at", f"step {self.step}: {type(error).__name__}: {error}")
            return
        self.latest = diagnosis
        scalars = profile_scalars(diagnosis)
        judged = self._judge.judge(diagnosis, self._monitor is not None and self._monitor.judge.falls)
        if judged.verdict is Verdict.HEALTHY and all(one.kind == "network" for one in self.warnings):
            self.last_healthy, self.last_healthy_step = diagnosis, self.step
        taken = {"step": self.step, "scalars": scalars, "verdict": judged.verdict, "summary": judged.summary}
        self.history.append(copied(document.Snapshot, diagnosis, **taken))
        if judged.worse and (change := judged.change) is not None:
            self.warnings.append(
                WatchWarning(
                    kind="network", step=self.step, sentence=change.sentence, layer=change.layer, value=change.value
                )
            )
        self._log(scalars, diagnosis)
        self._act_on_verdict(judged)

    def _log(
        self, scalars: dict[str, float], diagnosis: Diagnosis | None = None, rows: Iterable[UpdateRow] = ()
    ) -> None:
        losses, self._logged_losses = self.losses[self._logged_losses :], len(self.losses)
        found, self._logged_warnings = self.warnings[self._logged_warnings :], len(self.warnings)
        for failure in self._sinks.write(self.step, scalars, diagnosis, rows, losses, found):
            self._fail("log", f"step {self.step}, not logged: {failure}")

    def _fail(self, verb: str, sentence: str) -> None:
        """Note a problem that must not end the training, and warn of the first of its kind."""
        self.problems.append(sentence)
        if verb not in self._failed:
            self._failed.add(verb)
            warnings.warn(f"orthoscope could not {verb} {sentence}", RiskWarning, stacklevel=3)

    def _act_on_verdict(self, judged: Judged) -> None:
        if judged.verdict.rank >= Verdict.AT_RISK.rank:
            sentence = f"after {self.step} steps the network is {judged.verdict}: {judged.summary}"
            if judged.worse:
                self._say(sentence)
            # A diagnosis is the same in all processes; what changed depends on the loss of each.
            if judged.verdict is Verdict.SICK and (judged.change is None or _alone()):
                self._stop(sentence)

    def _warn(self, warning: WatchWarning, lasts: bool) -> None:
        """Act on a warning of the monitor."""
        self.warnings.append(warning)
        self._log({})
        known = self.last_healthy_step
        healthy = "" if known is None else f" (last healthy snapshot: after {known} steps)"
        sentence = f"after {warning.step} steps {warning.sentence}{healthy}"
        self._say(sentence)
        # Losses differ between processes: one that leaves the loop alone would leave the others waiting.
        if lasts and _alone():
            self._stop(sentence)

    def _say(self, sentence: str) -> None:
        if self._on_risk is not None:
            warnings.warn(sentence, RiskWarning, stacklevel=4)

    def _stop(self, sentence: str) -> None:
        if self._on_risk == "stop":
            self.stopped = sentence
            self._halt(sentence)

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self._taking_snapshot:
            return
        if (self._counted_optimizer is None or self._counted_optimizer() is None) and self._updates_model(optimizer):
            self._counted_optimizer = weakref.ref(optimizer)  # the outermost, for the hook of an inner one comes later
        if self._updates is not None:
            self._updates.before(optimizer)
        if self._monitor is not None and self._counts(optimizer):
            self._monitor.before_step(self.step, optimizer)

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self._taking_snapshot:
            return
        rows = [] if self._updates is None else self._updates.after(optimizer)
        if rows:
            self._log(update_scalars(rows), rows=rows)
        if self._counts(optimizer):
            if self._monitor is not None:
                self._monitor.after_step(self.step)
            self.step += 1

    def _counts(self, optimizer: Optimizer) -> bool:
        """Whether it is the optimizer whose steps are counted."""
        return self._counted_optimizer is not None and self._counted_optimizer() is optimizer

    def _updates_model(self, optimizer: Optimizer) -> bool:
        moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return not moved.isdisjoint(map(id, self.model.parameters()))

    def as_document(self, details: bool = True) -> WatchDocument:
        """Return the document."""
        earlier = self.last_healthy if self.last_healthy is not self.latest else None
        return WatchDocument(
            name=type(self.model).__name__,
            every=self.every,
            steps=self.step,
            history=tuple(self.history),
            latest=None if self.latest is None else self.latest.as_document(details),
            last_healthy_step=self.last_healthy_step,
            last_healthy=None if earlier is None else earlier.as_document(details),
            losses=step_losses(self.losses[:: -(-len(self.losses) // _MOST_LOSSES) or 1]),
            guessing=None if self._monitor is None else self._monitor.judge.guessing,
            warnings=tuple(self.warnings),
            rows=tuple(copied(document.Update, row) for row in self.rows),
            skipped=omissions(self.skipped),
            problems=tuple(self.problems),
            stopped=self.stopped or None,
            environment=environment(),
        )

    def table(self, step: int | None = None) -> str:
        """The history, one line per snapshot, and the updates of a step, by default the latest, one line per matrix."""
        content = self.as_document(details=False)
        told = self._profile or bool(self.warnings)
        parts = [history_text(content)] if told and step is None else []
        return "\n".join(parts + ([watch_table(content, step)] if self._updates is not None else []))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        state = "running" if self._handles else "not running"
        snapshots = f"{len(self.history)} snapshots, " if self._profile else ""
        weights = len({row.weight for row in self.rows})
        rows = f"{len(self.rows)} rows of {weights} matrices, " if self._updates is not None else ""
        return f"<Watch of {type(self.model).__name__}: {snapshots}{rows}{state}>"


def _weak_hook(method: Callable[..., None]) -> Callable[..., None]:
    """A hook that does nothing once its watch is gone.

    torch keeps hooks of all optimizers forever; a bound method would keep the watch and its model alive if training
    ended by an exception. The hook is not removed then, because that may be while torch iterates over its hooks.
    """
    reference = weakref.WeakMethod(method)

    def hook(*arguments: Any) -> None:
        call = reference()
        if call is not None:
            call(*arguments)

    return torch.compiler.disable(hook)  # a compiled step or model calls it as it is


def _alone() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1


def _raise_stop(sentence: str) -> None:
    raise StopTraining(sentence)


def _optimizers(given: Optimizer | Iterable[Optimizer] | None) -> list[Optimizer] | None:
    if given is None:
        return None
    optimizers = [given] if isinstance(given, Optimizer) else list(given)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}: pass the optimizer"
            )
    return optimizers


def watch(
    model: nn.Module,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    every: int = 200,
    *,
    profile: bool = True,
    updates: bool = False,
    log: str | os.PathLike[str] | None = None,
    logger: Any = "active",
    on_risk: str | None = None,
    loss: Loss | None = None,
    samples: int = 64,
    batch_statistics: bool = True,
    largest: int = 4096,
    losses: bool = True,
    wait: bool = False,
) -> Watch:
    """Watch a training: its loss at every step, and snapshots of `model`, from a `with` block around the loop.

    A snapshot is a diagnosis on the batch of that step, just before the loop's own forward pass. `w.history` keeps
    verdict and scalars of each, `w.latest` the last diagnosis, `w.last_healthy` the last that was healthy. The loss of
    every step is read where the loop's backward pass starts: `w.losses` has it, and `w.warnings` says at which step it
    was no longer finite and which module made it so, and when the learning rate is too high. Training is bit-identical.
    A snapshot or a logger that fails does not end the training: a warning is given, and `w.problems` says what failed.
    Under DDP or FSDP all processes must watch; the first one writes.

    Args:
        model: The model as it is called in training, with its wrappers.
        optimizer: The optimizers whose steps count; by default every one that updates parameters of the model, also one
            made later; of nested ones the outermost.
        every: Steps between snapshots.
        profile: Take snapshots.
        updates: Record in `w.rows` the effect of every `every`-th optimizer step on every matrix, from the first step
            on. That takes a decomposition of each matrix, and the time of some ten steps.
        log: File to which every record is appended, one line of JSON each.
        logger: Where at most eight scalars go: TensorBoard's writer, W&B, MLflow, trackio, a logger of Lightning, a
            function of scalars and step, or a list of them; "active" means the open runs of W&B, MLflow and trackio.
        on_risk: "warn" gives a warning when the verdict becomes worse than it ever was, and for all of `w.warnings`;
            "stop" also ends the loop when the verdict is SICK, when loss or gradient is not finite, and when a loss
            that the learning rate made rise has not recovered: the `with` block is left, and `w.stopped` says why.
            With several processes only the verdict of a diagnosis stops, which is the same in all.
        loss: As for `diagnose`. A model that is called with `labels`, as those of transformers, has a loss of its own.
        samples: Use at most so many samples from the front of the batch.
        batch_statistics: As for `diagnose`.
        largest: Matrices with more rows are skipped, because every pair of rows is compared; `w.skipped` lists them.
        losses: Read the loss, the largest gradient and the relative size of the update at every step; see
            docs/watch.md for the limits.
        wait: Wait for loss and gradient at every step. On a CPU that is always so; on an accelerator they are otherwise
            read when they have arrived, and a module that makes nan is then found only if the weights are still finite.

    Returns:
        The watch, a context manager.

    Raises:
        TypeError, ValueError: If an argument has no meaning.

    Example:
        >>> model = orthoscope.models.MLP(depth=4, width=16)
        >>> with orthoscope.watch(model, every=100) as w:
        ...     loss = model(torch.randn(8, 16)).square().mean()
        >>> len(w.history)
        1
    """
    return Watch(**locals())
