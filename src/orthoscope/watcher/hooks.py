"""`watch` and `Watch`: snapshots of a model and of its optimizers' updates every few steps of a training loop."""

import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.document import environment, omissions
from orthoscope.diagnosis.viewed import Viewed
from orthoscope.findings import Verdict
from orthoscope.probe.batches import Call, first_samples
from orthoscope.probe.modules import unwrapped
from orthoscope.probe.record import Loss
from orthoscope.report import document
from orthoscope.report.document import WatchDocument, copied
from orthoscope.report.watch import history_text, watch_table
from orthoscope.watcher._snapshot import WatchRecord, checkup, own_loss, profile_scalars, update_scalars
from orthoscope.watcher._updates import UpdateRow, WatchedUpdates
from orthoscope.watcher.sinks import LogSinks


class RiskWarning(UserWarning):
    """A network in training has become worse than it was."""


class StopTraining(Exception):  # noqa: N818 - a request, not an error
    """Raised in a loop that is to end; the context of the watch catches it."""


class Watch(Viewed):
    """What was seen while the context is open; see `watch`."""

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
        halt: Callable[[str], None] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"weights are watched in an nn.Module, got {type(model).__name__}: pass the model")
        if every < 1:
            raise ValueError(f"every counts steps from 1, got {every}")
        if samples < 1:
            raise ValueError(f"a network is looked at on samples: give at least 1, got {samples}")
        if on_risk not in ("warn", "stop", None):
            raise ValueError(f'on_risk is "warn", "stop" or None, got {on_risk!r}')
        if not (profile or updates):
            raise ValueError("with neither profile nor updates there is nothing to watch: ask for one of them")
        self.model = unwrapped(model)
        self.every = every
        self.step = 0  # optimizer steps taken; set it before training goes on from a checkpoint
        self.history: list[WatchRecord] = []
        self.latest: Diagnosis | None = None
        self.stopped = ""  # why training was to stop
        self.problems: list[str] = []  # looks that failed, and loggers; training went on
        self._failed: set[str] = set()  # kinds of problems that were warned of
        self._called = model  # with the wrappers that it is called through
        self._profile, self._loss, self._samples, self._batch_statistics = profile, loss, samples, batch_statistics
        self._updates = WatchedUpdates(self.model, every, largest) if updates else None
        self._optimizers = _optimizers(optimizer)
        self._leader: weakref.ref[Optimizer] | None = None  # whose steps are counted
        self._sinks = LogSinks(type(self.model).__name__, log, logger)
        self._on_risk, self._halt = on_risk, halt or _raise_stop
        self._worst = Verdict.HEALTHY
        self._looked_at: int | None = None
        self._looking = False
        self._handles: list[RemovableHandle] = []

    @property
    def rows(self) -> list[UpdateRow]:
        """What recorded steps did to every matrix; empty without `updates`."""
        return [] if self._updates is None else self._updates.rows

    @property
    def skipped(self) -> dict[str, str]:
        """Parameters whose updates were not looked at, and why."""
        return {} if self._updates is None else self._updates.skipped

    def __enter__(self) -> "Watch":
        if self._handles:
            raise RuntimeError("this watch is running already: leave its context first, or make another one")
        before, after = _weak_hook(self._before_step), _weak_hook(self._after_step)
        if self._optimizers is None:
            self._handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
        for optimizer in self._optimizers or ():
            self._handles.append(optimizer.register_step_pre_hook(before))
            self._handles.append(optimizer.register_step_post_hook(after))
        if self._profile:
            # First of all: FSDP gathers parameters in a hook of its own, which must not have run yet.
            forward = _weak_hook(self._before_forward)
            self._handles.append(self._called.register_forward_pre_hook(forward, prepend=True, with_kwargs=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.close()
        return isinstance(error, StopTraining) and str(error) == self.stopped

    def close(self) -> None:
        """Take the hooks away, as the end of the context does; what was seen stays."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._updates is not None:
            self._updates.forget()

    def _before_forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look, if this is the first call with gradients since a step that asks for it."""
        due = self.step % self.every == 0 and self.step != self._looked_at
        if due and not self._looking and torch.is_grad_enabled():
            self._looked_at, self._looking = self.step, True
            try:
                self._look(Call(args, kwargs))
            finally:
                self._looking = False

    def _look(self, call: Call) -> None:
        try:
            loss = self._loss or (own_loss if "labels" in call.kwargs else None)
            diagnosis = checkup(self._called, first_samples(call, self._samples), loss, self._batch_statistics)
        except Exception as error:  # a model may raise anything when it is run once more
            self._fail("look at", f"step {self.step}: {type(error).__name__}: {error}")
            return
        self.latest = diagnosis
        scalars = profile_scalars(diagnosis)
        self.history.append(WatchRecord(self.step, diagnosis.verdict, diagnosis.summary, scalars, diagnosis.seconds))
        self._tell(scalars, diagnosis)
        self._weigh(diagnosis)

    def _tell(
        self, scalars: dict[str, float], diagnosis: Diagnosis | None = None, rows: Iterable[UpdateRow] = ()
    ) -> None:
        for failure in self._sinks.tell(self.step, scalars, diagnosis, rows):
            self._fail("log", f"step {self.step}, not logged: {failure}")

    def _fail(self, verb: str, sentence: str) -> None:
        """Note what must not end somebody's training, and warn of the first of its kind."""
        self.problems.append(sentence)
        if verb not in self._failed:
            self._failed.add(verb)
            warnings.warn(f"orthoscope could not {verb} {sentence}", RiskWarning, stacklevel=3)

    def _weigh(self, diagnosis: Diagnosis) -> None:
        if self._on_risk is None or diagnosis.verdict is Verdict.HEALTHY:
            return
        sentence = f"after {self.step} steps the network is {diagnosis.verdict}: {diagnosis.summary}"
        if diagnosis.verdict.rank > self._worst.rank:
            self._worst = diagnosis.verdict
            warnings.warn(sentence, RiskWarning, stacklevel=2)
        if self._on_risk == "stop" and diagnosis.verdict is Verdict.SICK:
            self.stopped = sentence
            self._halt(sentence)

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self._looking:
            return
        if (self._leader is None or self._leader() is None) and self._moves(optimizer):
            self._leader = weakref.ref(optimizer)  # the outermost, for the hook of an inner one comes later
        if self._updates is not None:
            self._updates.before(optimizer)

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        if self._looking:
            return
        rows = [] if self._updates is None else self._updates.after(optimizer)
        if rows:
            self._tell(update_scalars(rows), rows=rows)
        if self._leader is not None and self._leader() is optimizer:
            self.step += 1

    def _moves(self, optimizer: Optimizer) -> bool:
        moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return any(id(parameter) in moved for parameter in self.model.parameters())

    def as_document(self, details: bool = True) -> WatchDocument:
        """Return the document."""
        return WatchDocument(
            name=type(self.model).__name__,
            every=self.every,
            steps=self.step,
            history=tuple(copied(document.Snapshot, record) for record in self.history),
            latest=None if self.latest is None else self.latest.as_document(details),
            rows=tuple(copied(document.Update, row) for row in self.rows),
            skipped=omissions(self.skipped),
            problems=tuple(self.problems),
            stopped=self.stopped or None,
            environment=environment(),
        )

    def table(self, step: int | None = None) -> str:
        """What was seen, a line a look; and what that step, or the latest recorded, did, a line a matrix."""
        content = self.as_document(details=False)
        parts = [history_text(content)] if self._profile and step is None else []
        return "\n".join(parts + ([watch_table(content, step)] if self._updates is not None else []))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        state = "running" if self._handles else "not running"
        looks = f"{len(self.history)} looks, " if self._profile else ""
        weights = len({row.weight for row in self.rows})
        rows = f"{len(self.rows)} rows of {weights} matrices, " if self._updates is not None else ""
        return f"<Watch of {type(self.model).__name__}: {looks}{rows}{state}>"


def _weak_hook(method: Callable[..., None]) -> Callable[..., None]:
    """A hook that does nothing once its watch is gone: torch keeps hooks of all optimizers for ever, and with a bound
    method the watch and its model, if a training ended by an exception. It is not removed then, for that may be while
    torch goes through its hooks.
    """
    reference = weakref.WeakMethod(method)

    def hook(*arguments: Any) -> None:
        call = reference()
        if call is not None:
            call(*arguments)

    return torch.compiler.disable(hook)  # a compiled step or model calls it as it is


def _raise_stop(sentence: str) -> None:
    raise StopTraining(sentence)


def _optimizers(given: Optimizer | Iterable[Optimizer] | None) -> list[Optimizer] | None:
    if given is None:
        return None
    optimizers = [given] if isinstance(given, Optimizer) else list(given)
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"steps of a torch.optim.Optimizer are watched, got {type(optimizer).__name__}")
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
) -> Watch:
    """Look at `model` when training starts and after every `every` steps: `with watch(model) as w:` around any loop.

    `profile` diagnoses it on the batch of that step, at most its first `samples`, just before the loop's own forward
    pass; `w.history` keeps the verdict and the scalars, `w.latest` the last diagnosis. `updates` records what
    every `every`-th optimizer step, beginning with the first, does to every matrix, in `w.rows`; that takes a
    decomposition of each, and the time of some ten steps. Training is the same to the last bit.

    `log` names a file that every record is appended to, one line of JSON each. At most eight scalars go to `logger`:
    TensorBoard's writer, W&B, MLflow, trackio, a logger of Lightning, a function of scalars and step, or a list of
    them; "active" means the runs of W&B, MLflow and trackio that are open. With `on_risk="warn"` a warning is given
    when the verdict becomes worse than it ever was; "stop" also ends the loop when it is SICK: the `with` block is
    left, and `w.stopped` says why.

    `loss` and `batch_statistics` are those of `diagnose`; a model that is called with `labels`, as those of
    transformers are, has a loss of its own. Without `optimizer`, every optimizer that moves parameters of the model is
    watched, also one made later; of nested ones the outermost. Which matrices a parameter holds is said by the
    optimizer, if that is `Muon`, else by its layer. Matrices of more than `largest` rows are skipped, because every
    pair of rows is compared; `w.skipped` says what was skipped and why. Models that are spread over ranks are looked
    at by all of them together, so every rank must watch; the first one writes. A look or a logger that fails does not
    end the training: a warning is given, and `w.problems` says what failed.
    """
    return Watch(
        model,
        optimizer,
        every,
        profile=profile,
        updates=updates,
        log=log,
        logger=logger,
        on_risk=on_risk,
        loss=loss,
        samples=samples,
        batch_statistics=batch_statistics,
        largest=largest,
    )
