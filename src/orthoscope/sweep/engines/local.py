"""Processes of this machine, spawned, one job at a time each."""

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from orthoscope.sweep.engines.engine import Work
from orthoscope.sweep.engines.interrupts import interrupts_held
from orthoscope.sweep.environment import one_thread

# How long a worker may take to notice that its driver is gone, should the pipe not tell it at once.
PERIOD = 1.0


class LocalEngine:
    """Several pools of one process instead of one pool of several.

    When a process of a pool is killed, the pool breaks: all of its processes end, and nobody knows whose job was to
    blame. A pool of one loses one job, which is the one, and is replaced.
    """

    def __init__(self, workers: int) -> None:
        self.slots: int | None = workers
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._dead: list[_Worker] = []
        self._lock = threading.Lock()  # jobs end in threads of their pools

    def submit(self, work: Work, job: str) -> "Future[str]":
        self._bury()
        worker = self._idle.pop() if self._idle else _Worker()
        try:
            future = worker.submit(work, job)
        except BrokenProcessPool:  # killed while it had nothing to do
            self._dead.append(worker)
            return self.submit(work, job)
        self._busy.add(worker)
        future.add_done_callback(lambda done: self._release(worker, done))
        return future

    def close(self, *, at_once: bool) -> None:
        """Wait for the workers to leave, or send them away."""
        with self._lock:
            workers = (*self._idle, *self._busy)
        for worker in workers:
            worker.close(at_once=at_once)
        self._bury()

    def _bury(self) -> None:
        # Not in `_release`, which the pool's own thread calls: that thread would wait for itself.
        while self._dead:
            self._dead.pop().close(at_once=True)

    def _release(self, worker: "_Worker", done: "Future[str]") -> None:
        lost = done.cancelled() or done.exception() is not None
        with self._lock:
            self._busy.discard(worker)
            (self._dead if lost else self._idle).append(worker)


class _Worker:
    """One process, and the pipe by whose end it knows that it is no longer wanted."""

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


def prepare(driver: Connection, process: int) -> None:
    """What a worker does first: leave Ctrl-C to its driver, compute on one thread, and never outlive the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    one_thread()
    threading.Thread(target=_leave_with, args=(driver, process), daemon=True).start()


def _leave_with(driver: Connection, process: int) -> None:
    # Nothing is ever sent: the pipe becomes readable when its other end is closed, by the driver or by its death. A
    # child that the driver forked may hold that end open, hence the second question.
    while not driver.poll(PERIOD) and (sys.platform == "win32" or os.getppid() == process):
        pass
    os._exit(1)
