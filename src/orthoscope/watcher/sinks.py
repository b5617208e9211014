"""Sinks of a watched training: a log of one JSON line per record, and experiment loggers. None may end the training.

Loggers (TensorBoard, Weights & Biases, MLflow, trackio, Lightning's, functions) are recognized by their methods.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.report import document
from orthoscope.report.document import StepLoss, WatchRecordDocument, WatchWarning, copied, to_data
from orthoscope.watcher._updates import UpdateRow

Scalars = dict[str, float]
Tracker = Callable[[Scalars, int], object]
STEP = "orthoscope/step"


def tracker(logger: Any) -> Tracker:
    """A function that sends the scalars of a step to `logger`.

    `add_scalar(name, value, step)` is a writer of TensorBoard, `log_metrics(scalars, step=)` MLflow or a logger of
    Lightning, `log(scalars, step=)` W&B or trackio; a function is called with the scalars and the step.
    """
    if hasattr(logger, "add_scalar"):
        return lambda scalars, step: [logger.add_scalar(name, value, step) for name, value in scalars.items()]
    if hasattr(logger, "log_metrics"):
        return lambda scalars, step: logger.log_metrics(scalars, step=step)
    if hasattr(logger, "define_metric") and hasattr(logger, "log"):
        # W&B has one step counter and drops late records: ours is a metric of its own, used as the x-axis.
        logger.define_metric(STEP)
        logger.define_metric("orthoscope/*", step_metric=STEP)
        return lambda scalars, step: logger.log({**scalars, STEP: step})
    if hasattr(logger, "log"):
        return lambda scalars, step: logger.log(scalars, step=step)
    if callable(logger):
        return lambda scalars, step: logger(scalars, step)
    raise ValueError(
        "a logger has add_scalar, log_metrics or log, or is a function of scalars and step: "
        f"got {type(logger).__name__}"
    )


def trackers(logger: Any) -> list[Tracker]:
    """Trackers of one logger, of several in a list, or of none."""
    if logger is None:
        return []
    several: Iterable[Any] = logger if isinstance(logger, (list, tuple)) else [logger]
    return [tracker(one) for one in several]


def active_loggers() -> list[Any]:
    """The runs of W&B, MLflow and trackio that are open in this process; nothing is imported to find them."""
    wandb, mlflow, trackio = (sys.modules.get(name) for name in ("wandb", "mlflow", "trackio"))
    found = []
    if getattr(wandb, "run", None) is not None:
        found.append(wandb.run)  # type: ignore[union-attr]
    if mlflow is not None and hasattr(mlflow, "active_run") and mlflow.active_run() is not None:
        found.append(mlflow)
    current = getattr(getattr(trackio, "context_vars", None), "current_run", None)
    if current is not None and current.get() is not None:
        found.append(trackio)
    return found


_BLOCK = 1 << 16
_BEFORE_LOSSES = "orthoscope.watch-record/2"  # the same without losses and warnings


class WatchLog:
    """Appends records to a file; when `append` returns, the record is on disk.

    Args:
        path: The file. An existing log is continued; a line that a crash left incomplete is removed.

    Raises:
        FileNotFoundError: If the folder does not exist.
        ValueError: If the file exists and is not a log of a watch.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {str(path)!r}: there is no folder {str(self.path.absolute().parent)!r}"
            )
        if self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a folder: give the name of a file, such as run.jsonl")
        if self.path.exists():
            self._continue()
        self._torn = False  # an append has failed, and may have left half a line

    def append(self, record: WatchRecordDocument) -> None:
        """Write one record as one line."""
        line = json.dumps(to_data(record), allow_nan=False, separators=(",", ":")) + "\n"
        if self._torn and self.path.exists():
            self._continue()
        self._torn = True
        # One call with O_APPEND: readers, and other processes that write here, get whole lines only.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            content = line.encode()
            while content:
                content = content[os.write(descriptor, content) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._torn = False

    def _continue(self) -> None:
        """Prepare to append to a log: refuse a file that is none, and remove an incomplete last line."""
        with self.path.open("rb") as file:
            first = file.readline()
        if first.endswith(b"\n") and _record(first) is None:
            raise ValueError(f"{str(self.path)!r} is not a log of a watch: give another name, or remove it")
        with self.path.open("r+b") as file:
            end = whole = file.seek(0, os.SEEK_END)
            while whole > 0:
                start = max(0, whole - _BLOCK)
                file.seek(start)
                newline = file.read(whole - start).rfind(b"\n")
                whole = start + newline + 1 if newline >= 0 else start
                if newline >= 0:
                    break
            if whole == end:
                return
            file.seek(whole)
            rest = file.read()
            if _record(rest) is not None:
                file.write(b"\n")
            elif whole == 0 and not rest.lstrip().startswith(b'{"schema":"orthoscope.watch-record'):
                raise ValueError(f"{str(self.path)!r} is not a log of a watch: give another name, or remove it")
            else:
                file.truncate(whole)


def read_watch_log(path: str | os.PathLike[str], start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the records of a log, each with the byte offset where the next begins; an incomplete last line is skipped.

    Args:
        path: The file.
        start: Byte offset of the first record.

    Raises:
        ValueError: If a line is not a record.
    """
    with Path(path).open("rb") as file:
        place = file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            place += len(line)
            record = _record(line)
            if record is None:
                raise ValueError(f"{str(path)!r} is not a log of a watch: no record begins at byte {place - len(line)}")
            yield record, place


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    if isinstance(content, dict) and content.get("schema") == _BEFORE_LOSSES:
        content |= {"schema": WatchRecordDocument.schema, "losses": [], "warnings": []}
    known = isinstance(content, dict) and content.get("schema") == WatchRecordDocument.schema
    return content if known else None


def step_losses(losses: Iterable[tuple[int, float]]) -> tuple[StepLoss, ...]:
    """Losses as a document holds them."""
    return tuple(StepLoss(step=step, loss=loss) for step, loss in losses)


class LogSinks:
    """The log, one line per record, and the loggers, which get the scalars; only the first process writes."""

    def __init__(self, name: str, log: str | os.PathLike[str] | None, logger: Any) -> None:
        self._name = name
        self._log = None if log is None else WatchLog(log)
        self._logger = logger
        if logger != "active":
            trackers(logger)  # refused now, not after hours
        self._run = secrets.token_hex(4)

    def write(
        self,
        step: int,
        scalars: dict[str, float],
        diagnosis: Diagnosis | None,
        rows: Iterable[UpdateRow],
        losses: Sequence[tuple[int, float]] = (),
        warnings: Sequence[WatchWarning] = (),
    ) -> Iterator[str]:
        """Write to all sinks, and yield the error of each that failed."""
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized() and distributed.get_rank() > 0:
            return
        try:
            if self._log is not None:
                self._log.append(self._record(step, scalars, diagnosis, rows, losses, warnings))
        except Exception as error:  # a disk may be full
            yield f"{type(error).__name__}: {error}"
        if not scalars:
            return
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
        self,
        step: int,
        scalars: dict[str, float],
        diagnosis: Diagnosis | None,
        rows: Iterable[UpdateRow],
        losses: Sequence[tuple[int, float]],
        warnings: Sequence[WatchWarning],
    ) -> WatchRecordDocument:
        return WatchRecordDocument(
            run=self._run,
            name=self._name,
            step=step,
            time=time.time(),
            scalars=scalars,
            diagnosis=None if diagnosis is None else diagnosis.as_document(),
            updates=tuple(copied(document.Update, row) for row in rows),
            losses=step_losses(losses),
            warnings=tuple(warnings),
        )
