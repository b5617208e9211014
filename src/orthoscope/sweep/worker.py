"""One run, where it happens: claim it, do it, store it, and say in a few words what became of it."""

import json
import time
import traceback
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from orthoscope.sweep.claims import claimed
from orthoscope.sweep.environment import one_thread
from orthoscope.sweep.functions import function_named
from orthoscope.sweep.keys import run_key
from orthoscope.sweep.ledger import note
from orthoscope.sweep.plain import decoded
from orthoscope.sweep.store import Run, is_stored, run_path, versions, write_run


class Status(StrEnum):
    """What became of a run."""

    FINISHED = "finished"
    STORED = "stored"  # somebody else had done it
    BUSY = "busy"  # somebody else is doing it
    FAILED = "failed"
    DEADLY = "deadly"  # it was begun as often as allowed, and every worker died of it


@dataclass(frozen=True)
class Job:
    """A run to do; the config is encoded, so that the whole is one JSON text."""

    store: str
    function: str
    version: str
    config: dict[str, Any]
    attempts: int
    sweep: str

    @property
    def key(self) -> str:
        """What its run is known by."""
        return run_key(self.function, self.version, self.config)

    def text(self) -> str:
        """What travels to a worker."""
        return json.dumps(asdict(self), allow_nan=False)


@dataclass(frozen=True)
class Answer:
    """What travels back: never the result, which is in the store."""

    status: str
    reason: str = ""


def execute(text: str) -> str:
    """Do a job unless it is done; an exception of the function is an answer, so all that engines see is text."""
    job = Job(**json.loads(text))
    try:
        return json.dumps(asdict(_answer(job)))
    except OSError as error:
        return json.dumps(asdict(_failure(job, error, 0.0)))


def _answer(job: Job) -> Answer:
    store = Path(job.store)
    path = run_path(store, job.key)
    with claimed(store, job.key) as claim:
        # Asked under the claim: the one who held it before may just have finished.
        if is_stored(path):
            return Answer(Status.STORED)
        if claim is None:
            return Answer(Status.BUSY)
        if claim.begun >= job.attempts:
            return Answer(Status.DEADLY)
        claim.begin()
        return _performed(job, path)


def _performed(job: Job, path: Path) -> Answer:
    note(Path(job.store), "started", sweep=job.sweep, key=job.key, function=job.function, config=job.config)
    began = time.perf_counter()
    try:
        one_thread()
        config = decoded(job.config)
        result = function_named(job.function)(config)
        seconds = time.perf_counter() - began
        # Decoded once more: the function may have changed what it was given.
        write_run(path, Run(job.function, job.version, decoded(job.config), result, seconds, versions()))
    except (Exception, SystemExit) as error:
        return _failure(job, error, time.perf_counter() - began)
    note(Path(job.store), "finished", sweep=job.sweep, key=job.key, seconds=round(seconds, 3))
    return Answer(Status.FINISHED)


def _failure(job: Job, error: BaseException, seconds: float) -> Answer:
    reason = f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    row = {"sweep": job.sweep, "key": job.key, "seconds": round(seconds, 3), "reason": reason, "traceback": trace}
    note(Path(job.store), "failed", **row)
    return Answer(Status.FAILED, reason)
