"""Slurm, by submitit: every run is a job of the queue."""

import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from orthoscope.sweep.engines.engine import Work, required

# submitit asks Slurm for all jobs together and not more often than it likes; this is how often it is asked.
PERIOD = 1.0


class SubmititEngine:
    """Jobs of a queue; `parameters` are those of `submitit.AutoExecutor.update_parameters`.

    Jobs that are queued stay so when the driver is killed, and store what they do; a sweep called again waits for those
    that have begun. `cluster="local"` starts processes of this machine, as many at a time as it has cores: there is no
    queue that would make them wait.
    """

    def __init__(self, folder: Path, cluster: str | None = "slurm", **parameters: Any) -> None:
        submitit = required("submitit", "slurm", "'orthoscope[cluster]'")
        self.slots: int | None = os.cpu_count() or 1 if cluster == "local" else None
        self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        self._executor.update_parameters(**parameters)
        self._jobs: dict[Future[str], Any] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, work: Work, job: str) -> "Future[str]":
        future: Future[str] = Future()
        with self._lock:
            self._jobs[future] = self._executor.submit(work, job)
        return future

    def close(self, *, at_once: bool) -> None:
        """Cancel what is still queued or under way, if asked to."""
        self._closed.set()
        if at_once:
            with self._lock:
                for job in self._jobs.values():
                    job.cancel()

    def _watch(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                done = [(future, job) for future, job in self._jobs.items() if _is_done(job)]
                for future, _ in done:
                    del self._jobs[future]
            for future, job in done:
                try:
                    future.set_result(job.result())
                except Exception as error:  # whatever the queue did to the job
                    future.set_exception(error)
            time.sleep(PERIOD)


def _is_done(job: Any) -> bool:
    try:
        return bool(job.done())
    except Exception:  # its result says why
        return True
