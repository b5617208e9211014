"""Engines, which transport jobs to workers: the interface, the choice by name, and those that need no cluster."""

import multiprocessing
import os
import re
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from orthoscope.sweep._worker import Work, interrupts_held, prepare, restored
from orthoscope.sweep.clusters import DaskEngine, RayEngine, SubmititEngine

NAMES = ("local", "dask", "ray", "slurm", "inline")
WITH_SCHEDULER = ("dask", "ray")
_LAST_PORT = 65535


@runtime_checkable
class Engine(Protocol):
    """Accepts jobs and answers them; a future that ends in an exception means that its worker was lost."""

    slots: int | None
    """How many jobs it accepts at a time; None: all."""

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Start a job, or queue it."""
        ...

    def close(self, *, at_once: bool) -> None:
        """Stop everything that this engine started; `at_once`: also jobs in progress."""
        ...


def check_engine(engine: object, workers: int | None, scheduler: str | None) -> None:
    """Raise ValueError for arguments that `open_engine` does not understand."""
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


def open_engine(engine: Any, runs: int, workers: int | None, scheduler: str | None, store: Path) -> Engine:
    """Return an engine for so many runs.

    Args:
        engine: One of `NAMES`, an engine, or an executor of the caller.
        runs: Number of runs: no more local processes are started.
        workers: Number of local processes; None: one per core that this process may use.
        scheduler: Address of a cluster.
        store: Folder of the sweep.
    """
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
    """Dask hangs for a minute on an address without a port."""
    found = re.fullmatch(r"(?:\w+://)?(?:\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})", scheduler)
    if found is None or not 1 <= int(found[1]) <= _LAST_PORT:
        raise ValueError(
            f"scheduler={scheduler!r} is no address of a Dask scheduler: write protocol, host and port, such as "
            "tcp://host:8786"
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InlineEngine:
    """Executes jobs in this process, for debugging; a run that kills its process kills this one."""

    slots: int | None = 1

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Execute the job before returning."""
        future: Future[str] = Future()
        with restored():
            future.set_result(work(job))
        return future

    def close(self, *, at_once: bool) -> None:
        """Do nothing."""


class AdoptedEngine:
    """An executor of the caller, which is left open: any object with the `submit` of `concurrent.futures`."""

    slots: int | None = None

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: list[Future[str]] = []

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Submit the job to the executor."""
        self._futures.append(self._executor.submit(work, job))
        return self._futures[-1]

    def close(self, *, at_once: bool) -> None:
        """Cancel jobs that have not started, if `at_once`."""
        if at_once:
            for future in self._futures:
                future.cancel()


class LocalEngine:
    """Spawned processes of this machine, each in a pool of its own.

    When a process of a pool is killed, the pool breaks: all of its processes end, and the job that was responsible is
    not known. A pool of one process loses exactly the job that it executed, and is replaced.
    """

    def __init__(self, workers: int) -> None:
        self.slots: int | None = workers
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._dead: list[_Worker] = []
        self._lock = threading.Lock()  # jobs end in threads of their pools

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Start the job in an idle worker, or in a new one."""
        self._close_dead()
        worker = self._idle.pop() if self._idle else _Worker()
        try:
            future = worker.submit(work, job)
        except BrokenProcessPool:  # killed while idle
            self._dead.append(worker)
            return self.submit(work, job)
        self._busy.add(worker)
        future.add_done_callback(lambda done: self._release(worker, done))
        return future

    def close(self, *, at_once: bool) -> None:
        """Wait for the workers to finish, or stop them `at_once`."""
        with self._lock:
            workers = (*self._idle, *self._busy)
        for worker in workers:
            worker.close(at_once=at_once)
        self._close_dead()

    def _close_dead(self) -> None:
        # Not in `_release`, which runs in the pool's own thread: that thread would wait for itself.
        while self._dead:
            self._dead.pop().close(at_once=True)

    def _release(self, worker: "_Worker", done: "Future[str]") -> None:
        lost = done.cancelled() or done.exception() is not None
        with self._lock:
            self._busy.discard(worker)
            (self._dead if lost else self._idle).append(worker)


class _Worker:
    """One process, and a pipe: the process exits when the other end of the pipe is closed."""

    def __init__(self) -> None:
        fresh = multiprocessing.get_context("spawn")
        self._reader, self._writer = fresh.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, fresh, prepare, (self._reader, os.getpid()))

    def submit(self, work: Work, job: str) -> "Future[str]":
        with interrupts_held():
            return self._pool.submit(work, job)

    def close(self, *, at_once: bool) -> None:
        if at_once:
            self._writer.close()
        self._pool.shutdown()
        self._writer.close()
        self._reader.close()
