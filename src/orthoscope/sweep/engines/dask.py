"""Dask: a scheduler somewhere, or two processes of this machine that behave like one."""

import logging
from concurrent.futures import Future
from typing import Any

from orthoscope.sweep.engines.engine import Work, required
from orthoscope.sweep.engines.interrupts import interrupts_held

LOOPBACK = "127.0.0.1"


class DaskEngine:
    """Workers of a Dask cluster; without an address, a cluster on the loopback interface and without a dashboard."""

    def __init__(self, scheduler: str | None, workers: int) -> None:
        distributed = required("distributed", "dask", "'orthoscope[cluster]'")
        if scheduler is not None:
            _check_protocol(scheduler, list(distributed.comm.registry.backends))
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


def _check_protocol(scheduler: str, known: list[str]) -> None:
    """A client that fails of an address is closed by Dask only if nobody answers there; else its end takes a minute."""
    protocol, separator, _ = scheduler.partition("://")
    if separator and protocol not in known:
        raise ValueError(f"scheduler={scheduler!r} begins with none of the protocols of Dask: {', '.join(known)}")


def _loopback_cluster(workers: int) -> Any:
    distributed = required("distributed", "dask", "'orthoscope[cluster]'")
    dask = required("dask", "dask", "'orthoscope[cluster]'")
    # Dask would try the run of a killed worker again by itself; the sweep counts, so it shall hear of every death.
    # Its workers would print where Ctrl-C found them.
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), interrupts_held():
        return distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=None,
            # Without a dashboard too Dask serves its health, at a port that a second sweep would find taken, and warn.
            scheduler_kwargs={"dashboard_address": f"{LOOPBACK}:0"},
            memory_limit=0,  # else workers are paused or killed by what Dask takes for their share
            silence_logs=logging.CRITICAL,
        )
