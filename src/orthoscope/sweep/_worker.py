"""A worker: a process that computes on one thread, and executes one job at a time.

A job claims its run, computes it and stores the result; only a status travels back. With one thread a result depends
neither on the number of cores nor on the engine.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from orthoscope.sweep.claims import claimed, note
from orthoscope.sweep.store import Run, decoded, function_named, is_stored, run_key, run_path, versions, write_run

# What an engine transports: from the text of a job to the text of its answer.
Work = Callable[[str], str]

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# Without this limit, products in bfloat16 (as in torch.optim.Muon) end with an illegal instruction on some processors.
INSTRUCTIONS, ENOUGH = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"
# Seconds between checks that the driver is still alive, in case the pipe does not report its death.
PERIOD = 1.0


class Status(StrEnum):
    """How a job ended."""

    FINISHED = "finished"
    STORED = "stored"  # another worker had finished the run
    BUSY = "busy"  # another worker is executing the run
    FAILED = "failed"
    DEADLY = "deadly"  # every allowed attempt ended with the death of its worker


@dataclass(frozen=True)
class Job:
    """A run to execute; the config is encoded, so that the job is one JSON text."""

    store: str
    function: str
    version: str
    config: dict[str, Any]
    attempts: int
    sweep: str

    @property
    def key(self) -> str:
        """The key of its run."""
        return run_key(self.function, self.version, self.config)

    def text(self) -> str:
        """The job as JSON, as it is sent to a worker."""
        return json.dumps(asdict(self), allow_nan=False)


@dataclass(frozen=True)
class Answer:
    """What a worker sends back: never the result, which is in the store."""

    status: str
    reason: str = ""


def execute(text: str) -> str:
    """Execute a job, as JSON, unless its run is stored, and return an `Answer` as JSON.

    An exception of the function is an answer too, so engines transport nothing but text.
    """
    job = Job(**json.loads(text))
    try:
        return json.dumps(asdict(_answer(job)))
    except OSError as error:
        return json.dumps(asdict(_failure(job, error, 0.0)))


def _answer(job: Job) -> Answer:
    store = Path(job.store)
    path = run_path(store, job.key)
    with claimed(store, job.key) as claim:
        # Checked while the claim is held: its previous holder may just have finished.
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
        result = function_named(job.function)(decoded(job.config))
        seconds = time.perf_counter() - began
        # The config is decoded again, since the function may have modified its argument.
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


def one_thread() -> None:
    """Set one thread for torch, whether it is already imported or not; torch is not imported for this."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ.setdefault(INSTRUCTIONS, ENOUGH)
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@contextmanager
def restored() -> Iterator[None]:
    """Restore threads and environment variables afterwards, for a job that runs in the caller's process."""
    names = (*THREADS, INSTRUCTIONS)
    before = {name: os.environ.get(name) for name in names}
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else None
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        if torch is not None and threads is not None:
            torch.set_num_threads(threads)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block SIGINT for processes and threads started in this block, and for all that these start.

    Ctrl-C reaches every process of a terminal; a worker that is still starting would print a traceback.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Started here, because starting it unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare(driver: Connection, process: int) -> None:
    """Initialize a worker process: ignore Ctrl-C, compute on one thread, and exit when the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    one_thread()
    threading.Thread(target=_exit_with, args=(driver, process), daemon=True).start()


def _exit_with(driver: Connection, process: int) -> None:
    # Nothing is ever sent: the pipe becomes readable when its other end is closed, by the driver or by its death. A
    # child that the driver forked may hold that end open, hence the check of the parent.
    while not driver.poll(PERIOD) and (sys.platform == "win32" or os.getppid() == process):
        pass
    os._exit(1)
