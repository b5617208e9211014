"""From a word to an engine."""

import os
import re
from pathlib import Path
from typing import Any

from orthoscope.sweep.engines.adopted import AdoptedEngine
from orthoscope.sweep.engines.dask import DaskEngine
from orthoscope.sweep.engines.engine import Engine
from orthoscope.sweep.engines.inline import InlineEngine
from orthoscope.sweep.engines.local import LocalEngine
from orthoscope.sweep.engines.ray import RayEngine
from orthoscope.sweep.engines.submitit import SubmititEngine

NAMES = ("local", "dask", "ray", "slurm", "inline")
WITH_SCHEDULER = ("dask", "ray")
_LAST_PORT = 65535


def checked(engine: object, workers: int | None, scheduler: str | None) -> None:
    """ValueError for what `opened` would not understand, before anything is done."""
    if engine not in NAMES and not callable(getattr(engine, "submit", None)):
        raise ValueError(
            f"engine={engine!r} is none of {', '.join(NAMES)}, nor an object with the `submit` of concurrent.futures"
        )
    if scheduler is not None and engine not in WITH_SCHEDULER:
        raise ValueError(f"scheduler={scheduler!r} belongs to {' or '.join(WITH_SCHEDULER)}, not to engine={engine!r}")
    if engine == "dask" and scheduler is not None:
        _check_address(scheduler)
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and (not whole or workers < 0):
        raise ValueError(f"workers={workers!r}: give a whole number of processes, or 0 to compute in this one")


def opened(engine: Any, runs: int, workers: int | None, scheduler: str | None, store: Path) -> Engine:
    """An engine for so many runs; `workers` None: one a core that this process may use, and not more than runs."""
    count = min(runs, _cores() if workers is None else workers)
    if engine == "inline" or (engine in ("local", "dask") and workers == 0 and scheduler is None):
        return InlineEngine()
    if engine == "local":
        return LocalEngine(count)
    if engine == "dask":
        return DaskEngine(scheduler, count)
    if engine == "ray":
        return RayEngine(scheduler)
    if engine == "slurm":
        return SubmititEngine(store / "slurm")
    return engine if isinstance(engine, Engine) else AdoptedEngine(engine)


def _check_address(scheduler: str) -> None:
    """Dask would hang for a minute on an address without a port."""
    found = re.fullmatch(r"(?:\w+://)?(?:\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})", scheduler)
    if found is None or not 1 <= int(found[1]) <= _LAST_PORT:
        raise ValueError(
            f"scheduler={scheduler!r} is no address of a Dask scheduler: write protocol, host and port, such as "
            "tcp://host:8786"
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
