"""Engines for clusters: Dask, Ray, and Slurm by submitit. Their packages are imported when an engine is opened."""

import importlib
import logging
import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

from orthoscope.sweep._worker import Work, interrupts_held

LOOPBACK = "127.0.0.1"
# Seconds between checks of the queue; submitit asks Slurm for all jobs together, at its own rate.
PERIOD = 1.0


def _required(package: str, engine: str, install: str) -> ModuleType:
    """Import a package that only one engine needs; ModuleNotFoundError says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"engine={engine!r} needs {package}, which is not installed here: pip install {install}"
        ) from error


class DaskEngine:
    """Workers of a Dask cluster; without an address, of a cluster on the loopback interface, without a dashboard."""

    def __init__(self, scheduler: str | None, workers: int) -> None:
        distributed = _required("distributed", "dask", "'orthoscope[cluster]'")
        if scheduler is not None:
            protocol, separator, _ = scheduler.partition("://")
            known = list(distributed.comm.registry.backends)
            if separator and protocol not in known:  # before a client exists: closing that client would take a minute
                names = ", ".join(known)
                raise ValueError(f"scheduler={scheduler!r} begins with none of the protocols of Dask: {names}")
        self.slots: int | None = None if scheduler else workers
        self._cluster = None if scheduler else _loopback_cluster(workers)
        try:
            self._client = distributed.Client(scheduler or self._cluster, set_as_default=False)
        except OSError as error:
            raise ConnectionError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        self._executor = self._client.get_executor(pure=False)

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Submit the job to the scheduler."""
        future: Future[str] = self._executor.submit(work, job)
        return future

    def close(self, *, at_once: bool) -> None:
        """Disconnect; runs that have started on a cluster of the caller finish there and are stored."""
        self._executor.shutdown(wait=not at_once)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _loopback_cluster(workers: int) -> Any:
    distributed = _required("distributed", "dask", "'orthoscope[cluster]'")
    dask = _required("dask", "dask", "'orthoscope[cluster]'")
    # No retries by Dask: the sweep counts the deaths of workers. Its workers would print a traceback at Ctrl-C.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), interrupts_held():
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=None,
            # Even without a dashboard Dask serves its health; a fixed port would collide with a second sweep's.
            scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
            memory_limit=0,  # otherwise Dask pauses or kills workers that exceed their share of the memory
            silence_logs=logging.CRITICAL,
        )


class RayEngine:
    """Tasks of a running Ray. None is started here, because Ray listens on all interfaces."""

    slots: int | None = None

    def __init__(self, scheduler: str | None) -> None:
        if scheduler is None:
            raise ValueError(
                "engine='ray' joins a Ray that is running, and starts none, since Ray cannot be kept on the loopback "
                "interface: pass scheduler='auto' or 'host:6379'"
            )
        self._ray = _required("ray", "ray", "ray")
        self._joined = not self._ray.is_initialized()
        if self._joined:
            self._ray.init(address=scheduler, log_to_driver=False)
        self._remote: dict[Work, Any] = {}

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Submit the job as a task."""
        if work not in self._remote:  # once, since Ray sends a function to the cluster each time it is made remote
            # No retries by Ray: the sweep counts the deaths of workers.
            self._remote[work] = self._ray.remote(max_retries=0)(work)
        future: Future[str] = self._remote[work].remote(job).future()
        return future

    def close(self, *, at_once: bool) -> None:
        """Disconnect; Ray ends the tasks of a driver that has left."""
        if self._joined:
            self._ray.shutdown()


class SubmititEngine:
    """Jobs of a Slurm queue, by submitit.

    Queued jobs stay queued when the driver is killed, and store their results; a sweep that is called again waits for
    those that have started.

    Args:
        folder: Where submitit keeps its files.
        cluster: "slurm", or "local" for processes of this machine, at most one per core at a time.
        parameters: Those of `submitit.AutoExecutor.update_parameters`.
    """

    def __init__(self, folder: Path, cluster: str | None = "slurm", **parameters: Any) -> None:
        submitit = _required("submitit", "slurm", "'orthoscope[cluster]'")
        self.slots: int | None = os.cpu_count() or 1 if cluster == "local" else None
        self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        self._executor.update_parameters(**parameters)
        self._jobs: dict[Future[str], Any] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def submit(self, work: Work, job: str) -> "Future[str]":
        """Add the job to the queue."""
        future: Future[str] = Future()
        with self._lock:
            self._jobs[future] = self._executor.submit(work, job)
        return future

    def close(self, *, at_once: bool) -> None:
        """Cancel jobs that are queued or running, if `at_once`."""
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
                except Exception as error:  # whatever happened to the job in the queue
                    future.set_exception(error)
            time.sleep(PERIOD)


def _is_done(job: Any) -> bool:
    try:
        return bool(job.done())
    except Exception:  # `result` raises the reason
        return True
