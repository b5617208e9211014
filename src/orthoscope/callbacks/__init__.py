"""Watching inside a trainer that runs the loop: `TrainerCallback` of transformers, `LightningCallback` of Lightning.

Neither library is imported before its callback is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orthoscope.callbacks.lightning import LightningCallback
    from orthoscope.callbacks.trainer import TrainerCallback

_HOME = {"LightningCallback": ("lightning", "lightning"), "TrainerCallback": ("trainer", "transformers")}
__all__ = ["LightningCallback", "TrainerCallback"]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'orthoscope.callbacks' has no attribute {name!r}")
    module, package = _HOME[name]
    try:
        return getattr(importlib.import_module(f"orthoscope.callbacks.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith(("lightning", "pytorch_lightning", "transformers")):
            raise
        raise ModuleNotFoundError(
            f"{name} needs {package}, which is not installed: pip install {package}", name=error.name
        ) from None
