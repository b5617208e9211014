"""`orthoscope.watch` as a callback of Lightning."""

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch import nn

from orthoscope.watcher.hooks import Watch


class LightningCallback(Callback):
    """`Trainer(callbacks=[LightningCallback(every=200, log="run.jsonl", on_risk="warn")])`.

    `callback.watch` is the watch. Scalars go to the trainer's loggers unless `logger` names others. With
    `on_risk="stop"` a network that is SICK ends the training after the step.

    Args:
        every: Steps between snapshots.
        network: The part of the LightningModule that `training_step` calls, such as "model" for `self.model(...)`. By
            default the one child with parameters, or the whole module if there are several.
        **options: Those of `orthoscope.watch`.
    """

    def __init__(self, every: int = 200, *, network: str | None = None, **options: Any) -> None:
        super().__init__()
        self.watch: Watch | None = None
        self._every = every
        self._network = network
        self._options = options
        Watch(nn.Identity(), every=every, **{**options, "log": None})  # refused now, not when training begins

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to watch."""
        self.close()
        options = dict(self._options)
        if options.get("logger", "active") == "active":
            options["logger"] = list(trainer.loggers)
        self.watch = Watch(self._watched(pl_module), every=self._every, halt=lambda _: None, **options)
        self.watch.step = trainer.global_step
        self.watch.__enter__()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Stop the training if the watch asks for it."""
        if self.watch is not None and self.watch.stopped:
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the hooks."""
        self.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Remove the hooks."""
        self.close()

    def _watched(self, module: LightningModule) -> nn.Module:
        if self._network is not None:
            try:
                return module.get_submodule(self._network)
            except AttributeError:
                names = ", ".join(name for name, _ in module.named_children())
                raise ValueError(
                    f"the LightningModule has no child {self._network!r}: choose one of {names or 'none'}"
                ) from None
        children = [child for child in module.children() if next(child.parameters(), None) is not None]
        # `self.model(batch)` in training_step calls the child alone, `self(batch)` the child too.
        return children[0] if len(children) == 1 else module

    def close(self) -> None:
        """Remove the hooks; `callback.watch` keeps the history."""
        if self.watch is not None:
            self.watch.close()
