"""No engine: runs happen in this process, one after the other, for debugging."""

from concurrent.futures import Future

from orthoscope.sweep.engines.engine import Work
from orthoscope.sweep.environment import restored


class InlineEngine:
    """Answers before `submit` returns; a run that kills its process kills this one."""

    slots: int | None = 1

    def submit(self, work: Work, job: str) -> "Future[str]":
        future: Future[str] = Future()
        with restored():
            future.set_result(work(job))
        return future

    def close(self, *, at_once: bool) -> None:
        """There is nothing to end."""
