"""Dask: a scheduler somewhere, or two processes of this machine that behave like one."""

import logging
from concurrent.futures import Future
from typing import Any

from orthoscope.sweep.engines.engine import Work, required

LOOPBACK = "127.0.0.1"


class DaskEngine:
    """Workers of a Dask cluster; without an address, a cluster on the loopback interface and without a dashboard."""

    def __init__(self, scheduler: str | None, workers: int) -> None:
        distributed = required("distributed", "dask", "'orthoscope[cluster]'")
        self.slots: int | None = None if scheduler else workers
        self._cluster = None if scheduler else _loopback_cluster(workers)
        try:
            self._client = distributed.Client(scheduler or self._cluster, set_as_default=False)
        except OSError as error:
            raise ConnectionError(f"no Dask scheduler answers at {scheduler}: {error}") from error
        self._executor = self._client.get_executor(pure=False)

    def submit(self, work: Work, job: str) -> "Future[str]":
        future: Future[str] = self._executor.submit(work, job)
        return future

    def close(self, *, at_once: bool) -> None:
        """Leave the scheduler; runs that have begun on somebody's cluster end there and are stored."""
        self._executor.shutdown(wait=not at_once)
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _loopback_cluster(workers: int) -> Any:
    distributed = required("distributed", "dask", "'orthoscope[cluster]'")
    dask = required("dask", "dask", "'orthoscope[cluster]'")
    # Dask would try the run of a killed worker again by itself; the sweep counts, so it shall hear of every death.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=None,
            memory_limit=0,  # else workers are paused or killed by what Dask takes for their share
            silence_logs=logging.CRITICAL,
        )
