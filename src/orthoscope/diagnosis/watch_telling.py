"""Where a watch tells what it saw: its log and loggers, none of which may end the training by failing."""

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.diagnosis.trackers import active_loggers, trackers
from orthoscope.diagnosis.update_row import UpdateRow
from orthoscope.diagnosis.watched_updates import plain_row
from orthoscope.report.watch_log import WatchLog


class Telling:
    """The log, a line a record, and the loggers, which get the scalars; on the first rank alone."""

    def __init__(self, name: str, log: str | os.PathLike[str] | None, logger: Any) -> None:
        self._name = name
        self._log = None if log is None else WatchLog(log)
        self._logger = logger
        if logger != "active":
            trackers(logger)  # refused now, not after hours
        self._run = secrets.token_hex(4)

    def tell(
        self, step: int, scalars: dict[str, float], diagnosis: Diagnosis | None, rows: Iterable[UpdateRow]
    ) -> Iterator[str]:
        """Tell all of them, and yield what each that failed has raised; the others are told nevertheless."""
        if not _is_first_rank():
            return
        if self._log is not None:
            try:
                self._log.append(self._record(step, scalars, diagnosis, rows))
            except Exception as error:  # a disk may be full
                yield f"{type(error).__name__}: {error}"
        try:
            loggers = active_loggers() if self._logger == "active" else self._logger
        except Exception as error:
            yield f"{type(error).__name__}: {error}"
            return
        for logger in loggers if isinstance(loggers, (list, tuple)) else [loggers]:
            try:
                for send in trackers(logger):
                    send(scalars, step)
            except Exception as error:  # a server may be away
                yield f"{type(error).__name__}: {error}"

    def _record(
        self, step: int, scalars: dict[str, float], diagnosis: Diagnosis | None, rows: Iterable[UpdateRow]
    ) -> dict[str, Any]:
        return {
            "run": self._run,
            "name": self._name,
            "step": step,
            "time": time.time(),
            "scalars": scalars,
            "diagnosis": None if diagnosis is None else diagnosis.document(),
            "updates": [plain_row(row) for row in rows],
        }


def _is_first_rank() -> bool:
    distributed = torch.distributed
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
