"""`orthoscope.watch` as a callback of `transformers.Trainer`."""

from typing import Any

import transformers
from torch import nn

from orthoscope.watcher.hooks import Watch
from orthoscope.watcher.sinks import active_loggers


class TrainerCallback(transformers.TrainerCallback):
    """`Trainer(..., callbacks=[TrainerCallback(every=200, log="run.jsonl", on_risk="warn")])`.

    `callback.watch` is the watch. Scalars are kept in `state.log_history` and go to the open runs of W&B, MLflow and
    trackio, or to the `logger` that is given. With `callback.attach(trainer)` instead of `callbacks=`, they go to
    whatever the trainer itself reports to, TensorBoard included. With `on_risk="stop"` a network that is SICK ends the
    training after the step.

    A trainer does not tell its callbacks of an exception: `with TrainerCallback(...) as callback:` around
    `trainer.train()`, or `callback.close()` after it, removes the hooks at once; else the next training does, and
    they do nothing once the callback is gone.

    Args:
        every: Steps between snapshots.
        **options: Those of `orthoscope.watch`.
    """

    def __init__(self, every: int = 200, **options: Any) -> None:
        self.watch: Watch | None = None
        self._every = every
        self._options = options
        self._trainer: Any = None
        self._scalars: dict[str, float] = {}
        Watch(nn.Identity(), every=every, **{**options, "log": None})  # refused now, not when training begins

    def __enter__(self) -> "TrainerCallback":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hooks, if training did not come to its end; `callback.watch` keeps the history."""
        self._scalars.clear()
        if self.watch is not None:
            self.watch.close()

    def attach(self, trainer: Any) -> "TrainerCallback":
        """Join the callbacks of a trainer, and report through it."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Begin to watch."""
        self.close()  # a training that ended by an exception did not close it
        options = {**self._options, "logger": self._loggers()}
        self.watch = Watch(model, every=self._every, halt=lambda _: None, **options)
        self.watch.step = state.global_step
        self.watch.__enter__()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Log the scalars of a snapshot while the step count is still that of the snapshot."""
        if self._scalars and self._trainer is not None:
            self._trainer.log(dict(self._scalars))
        elif self._scalars:
            state.log_history.append({**self._scalars, "step": state.global_step})
        self._scalars.clear()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop the training if the watch asks for it."""
        if self.watch is not None and self.watch.stopped:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Remove the hooks."""
        self.close()

    def _loggers(self) -> list[Any]:
        """The loggers that were asked for, and a function that keeps the scalars for the trainer."""
        given = self._options.get("logger", "active")
        if given == "active":
            given = [] if self._trainer is not None else active_loggers()
        several = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
        kept = self._scalars  # not the callback, which refers to the watch: a reference cycle
        return [lambda scalars, step: kept.update(scalars), *several]
