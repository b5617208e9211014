"""Watching a model while it trains: snapshots, the effect of optimizer steps, logs, and callbacks of trainers.

Neither transformers nor Lightning is imported before its callback is asked for.
"""

from typing import TYPE_CHECKING, Any

from orthoscope.watcher.hooks import RiskWarning, StopTraining, Watch, watch
from orthoscope.watcher.sinks import WatchLog, read_watch_log

if TYPE_CHECKING:
    from orthoscope.watcher.lightning import LightningCallback
    from orthoscope.watcher.trainer import TrainerCallback

_HOME = {"LightningCallback": ("lightning", "lightning"), "TrainerCallback": ("trainer", "transformers")}
__all__ = [
    "LightningCallback",
    "RiskWarning",
    "StopTraining",
    "TrainerCallback",
    "Watch",
    "WatchLog",
    "read_watch_log",
    "watch",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'orthoscope.watcher' has no attribute {name!r}")
    module, package = _HOME[name]
    try:
        return getattr(importlib.import_module(f"orthoscope.watcher.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("lightning", "pytorch_lightning", "transformers")):
            raise
        raise ModuleNotFoundError(
            f"{name} needs {package}, which is not installed: pip install {package}", name=error.name
        ) from None
