"""The loop of a sweep: submit jobs, collect answers, retry lost jobs, until every run is stored or has failed."""

import json
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from queue import Empty, SimpleQueue

from orthoscope.sweep._engines import Engine
from orthoscope.sweep._worker import Answer, Job, Status, execute
from orthoscope.sweep.claims import note, times_begun
from orthoscope.sweep.store import is_stored, run_path

# Seconds until a run that another sweep is executing is submitted again.
PAUSE = 0.5
# Losses per attempt: a job may be lost more often than its run is started, since jobs that wait for a worker die too.
LOSSES = 3


class Dispatcher:
    """The jobs of a sweep by state: waiting, submitted, resting while another sweep executes them, settled."""

    def __init__(self, engine: Engine, jobs: list[Job], show: Callable[["Dispatcher"], None]) -> None:
        self.executed = 0
        self.found: set[str] = set()  # stored, by this sweep or by another
        self.failed: dict[str, str] = {}
        self.resting: dict[str, float] = {}
        self._engine, self._show = engine, show
        self._jobs = {job.key: job for job in jobs}
        self._waiting = deque(self._jobs)
        self._submitted: dict[Future[str], str] = {}
        self._done: SimpleQueue[Future[str]] = SimpleQueue()
        self._losses: Counter[str] = Counter()
        self._any_started = False

    @property
    def settled(self) -> int:
        """Number of runs that are stored or have failed."""
        return self.executed + len(self.found) + len(self.failed)

    def finish(self) -> None:
        """Return when every job is stored or has failed."""
        while self._waiting or self._submitted or self.resting:
            self._submit_waiting()
            try:
                future = self._done.get(timeout=PAUSE if self.resting else None)
            except Empty:
                pass
            else:
                self._settle(self._submitted.pop(future), future)
            self._requeue_rested()
            self._show(self)

    def _submit_waiting(self) -> None:
        slots = self._engine.slots
        while self._waiting and (slots is None or len(self._submitted) < slots):
            key = self._waiting.popleft()
            try:
                future = self._engine.submit(execute, self._jobs[key].text())
            except Exception as error:
                raise RuntimeError(
                    f"the engine takes no more runs ({type(error).__name__}: {error}); finished runs are stored: "
                    "call again to run the others"
                ) from error
            self._submitted[future] = key
            future.add_done_callback(self._done.put)

    def _requeue_rested(self) -> None:
        now = time.monotonic()
        for key in [key for key, until in self.resting.items() if until <= now]:
            del self.resting[key]
            self._waiting.append(key)

    def _settle(self, key: str, future: "Future[str]") -> None:
        try:
            answer = Answer(**json.loads(future.result()))
        except (Exception, CancelledError) as error:  # whatever an engine raises for a worker that died
            self._lose(key, error)
            return
        self._any_started = True
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
        """Handle the death of a worker: its run was finished, is retried after the others, or has used its attempts."""
        job, store = self._jobs[key], Path(self._jobs[key].store)
        self._losses[key] += 1
        if is_stored(run_path(store, key)):
            self.found.add(key)
            return
        begun = times_begun(store, key)
        self._any_started = self._any_started or begun > 0
        note(store, "lost", key=key, begun=begun, reason=f"{type(error).__name__}: {error}")
        if begun >= job.attempts:
            self._give_up(key, begun)
        elif self._losses[key] >= LOSSES * job.attempts:
            self._fail(key, f"lost {self._losses[key]} times with its worker, begun {begun} times: {error}")
        elif not self._any_started and self._losses.total() >= job.attempts:
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
