"""`orthoscope.watch` as a callback of `transformers.Trainer`."""

from typing import Any

import transformers
from torch import nn

from orthoscope.watcher.hooks import Watch
from orthoscope.watcher.sinks import active_loggers


class TrainerCallback(transformers.TrainerCallback):
    """`Trainer(..., callbacks=[TrainerCallback(every=200, log="run.jsonl", on_risk="warn")])`.

    Arguments are those of `orthoscope.watch`; `callback.watch` is the watch itself. Scalars are kept in
    `state.log_history` and go to the runs of W&B, MLflow and trackio that are open, or to the `logger` that is given.
    With `callback.attach(trainer)` instead of `callbacks=`, they go to whatever the trainer itself reports to,
    TensorBoard included. With `on_risk="stop"` a network that is SICK ends the training after the step.

    A trainer does not tell its callbacks of an exception: `with TrainerCallback(...) as callback:` around
    `trainer.train()`, or `callback.close()` after it, takes the hooks away at once; else the next training does, and
    they do nothing once the callback is gone.
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
        """Take the hooks away, if training did not come to its end; `callback.watch` keeps what was seen."""
        self._scalars.clear()
        if self.watch is not None:
            self.watch.close()

    def attach(self, trainer: Any) -> "TrainerCallback":
        """Join the callbacks of a trainer, and report through it."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.close()  # one that ended by an exception was never told so
        options = {**self._options, "logger": self._loggers()}
        self.watch = Watch(model, every=self._every, halt=lambda _: None, **options)
        self.watch.step = state.global_step
        self.watch.__enter__()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # The step count is still that of the look.
        if self._scalars and self._trainer is not None:
            self._trainer.log(dict(self._scalars))
        elif self._scalars:
            state.log_history.append({**self._scalars, "step": state.global_step})
        self._scalars.clear()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.watch is not None and self.watch.stopped:
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.close()

    def _loggers(self) -> list[Any]:
        """Our own note for the trainer, beside what was asked for."""
        given = self._options.get("logger", "active")
        if given == "active":
            given = [] if self._trainer is not None else active_loggers()
        several = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
        kept = self._scalars  # not the callback, which holds the watch: they would wait for the garbage collector
        return [lambda scalars, step: kept.update(scalars), *several]
