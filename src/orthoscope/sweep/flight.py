"""Jobs on their way: given to an engine, answered or lost, tried again, until each is stored or failed."""

import json
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from queue import Empty, SimpleQueue

from orthoscope.sweep.claims import times_begun
from orthoscope.sweep.engines.engine import Engine
from orthoscope.sweep.ledger import note
from orthoscope.sweep.store import is_stored, run_path
from orthoscope.sweep.worker import Answer, Job, Status, execute

# How long a run that another sweep is doing is left alone before it is asked for again.
PAUSE = 0.5
# A job may be lost more often than a run may be begun: what dies with a worker is also what only waited for it.
LOSSES = 3


class Flight:
    """The state of a sweep between its first job and its last answer."""

    def __init__(self, engine: Engine, jobs: list[Job], show: Callable[["Flight"], None]) -> None:
        self.executed = 0
        self.found: set[str] = set()  # stored, but nobody said by whom
        self.failed: dict[str, str] = {}
        self.resting: dict[str, float] = {}
        self._engine, self._show = engine, show
        self._jobs = {job.key: job for job in jobs}
        self._waiting = deque(self._jobs)
        self._flying: dict[Future[str], str] = {}
        self._landed: SimpleQueue[Future[str]] = SimpleQueue()
        self._losses: Counter[str] = Counter()
        self._alive = False

    @property
    def settled(self) -> int:
        """Jobs of which nothing more will be heard."""
        return self.executed + len(self.found) + len(self.failed)

    def finish(self) -> None:
        """Return when every job is stored or has failed."""
        while self._waiting or self._flying or self.resting:
            self._launch()
            try:
                future = self._landed.get(timeout=PAUSE if self.resting else None)
            except Empty:
                pass
            else:
                self._settle(self._flying.pop(future), future)
            self._wake()
            self._show(self)

    def _launch(self) -> None:
        slots = self._engine.slots
        while self._waiting and (slots is None or len(self._flying) < slots):
            key = self._waiting.popleft()
            try:
                future = self._engine.submit(execute, self._jobs[key].text())
            except Exception as error:
                raise RuntimeError(
                    f"the engine takes no more runs ({type(error).__name__}: {error}); what is finished is stored, "
                    "and the same call goes on from there"
                ) from error
            self._flying[future] = key
            future.add_done_callback(self._landed.put)

    def _wake(self) -> None:
        now = time.monotonic()
        for key in [key for key, until in self.resting.items() if until <= now]:
            del self.resting[key]
            self._waiting.append(key)

    def _settle(self, key: str, future: "Future[str]") -> None:
        try:
            answer = Answer(**json.loads(future.result()))
        except (Exception, CancelledError) as error:  # whatever an engine says of a worker that is no more
            self._lose(key, error)
            return
        self._alive = True
        if answer.status == Status.BUSY:
            self.resting[key] = time.monotonic() + PAUSE
        elif answer.status == Status.DEADLY:
            self._give_up(key, self._jobs[key].attempts)
        elif answer.status == Status.FAILED:
            self.failed[key] = answer.reason
        elif answer.status == Status.STORED:
            self.found.add(key)
        else:
            self.executed += 1

    def _lose(self, key: str, error: BaseException) -> None:
        """A worker died: its run was finished, or is tried again after all others, or has had its attempts."""
        job, store = self._jobs[key], Path(self._jobs[key].store)
        self._losses[key] += 1
        if is_stored(run_path(store, key)):
            self.found.add(key)
            return
        begun = times_begun(store, key)
        self._alive = self._alive or begun > 0
        note(store, "lost", key=key, begun=begun, reason=f"{type(error).__name__}: {error}")
        if begun >= job.attempts:
            self._give_up(key, begun)
        elif self._losses[key] >= LOSSES * job.attempts:
            self._fail(key, f"lost {self._losses[key]} times with its worker, begun {begun} times: {error}")
        elif not self._alive and self._losses.total() >= job.attempts:
            raise RuntimeError(
                "workers die before they begin a run: (a) a script that calls a sweep needs "
                "`if __name__ == '__main__':` around the call, (b) a module that it imports ends the process, (c) the "
                f"workers cannot import orthoscope; the engine says {type(error).__name__}: {error}"
            ) from error
        else:
            self._waiting.append(key)

    def _give_up(self, key: str, begun: int) -> None:
        times = "once" if begun == 1 else f"{begun} times"
        self._fail(key, f"killed its worker {times} (a crash in compiled code, no memory left, or a kill from outside)")

    def _fail(self, key: str, reason: str) -> None:
        job = self._jobs[key]
        self.failed[key] = reason
        note(Path(job.store), "failed", key=key, config=job.config, reason=reason)
