"""An executor that the user made: any object with the `submit` of `concurrent.futures`."""

from concurrent.futures import Executor, Future

from orthoscope.sweep.engines.engine import Work


class AdoptedEngine:
    """Gives it all jobs, and leaves it open: it belongs to the user."""

    slots: int | None = None

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: list[Future[str]] = []

    def submit(self, work: Work, job: str) -> "Future[str]":
        self._futures.append(self._executor.submit(work, job))
        return self._futures[-1]

    def close(self, *, at_once: bool) -> None:
        """Take back what has not begun."""
        if at_once:
            for future in self._futures:
                future.cancel()
