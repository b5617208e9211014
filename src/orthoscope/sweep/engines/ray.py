"""Ray: a cluster that is already there."""

from concurrent.futures import Future
from typing import Any

from orthoscope.sweep.engines.engine import Work, required


class RayEngine:
    """Tasks of a running Ray, never started here: it listens on all interfaces, whatever address it is given."""

    slots: int | None = None

    def __init__(self, scheduler: str | None) -> None:
        if scheduler is None:
            raise ValueError(
                "engine='ray' joins a Ray that is running, and starts none, since Ray cannot be kept on the loopback "
                "interface: pass scheduler='auto' or 'host:6379'"
            )
        self._ray = required("ray", "ray", "ray")
        self._joined = not self._ray.is_initialized()
        if self._joined:
            self._ray.init(address=scheduler, log_to_driver=False)
        self._remote: dict[Work, Any] = {}

    def submit(self, work: Work, job: str) -> "Future[str]":
        if work not in self._remote:  # once, since Ray sends a function to the cluster each time it is made remote
            # The sweep counts how often a run killed its worker, so Ray does not try again by itself.
            self._remote[work] = self._ray.remote(max_retries=0)(work)
        future: Future[str] = self._remote[work].remote(job).future()
        return future

    def close(self, *, at_once: bool) -> None:
        """Leave; the tasks of a driver that has left are ended by Ray."""
        if self._joined:
            self._ray.shutdown()
