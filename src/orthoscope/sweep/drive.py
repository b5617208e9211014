"""Run a grid of configurations: what is missing in the store is executed, and all results are read from it.

Jobs are submitted, answers collected and lost jobs retried, until every run is stored or has failed.
"""

import contextlib
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from orthoscope.sweep._engines import Engine, InlineEngine, check_engine, open_engine
from orthoscope.sweep._worker import Answer, Job, Status, execute
from orthoscope.sweep.claims import CLAIMS, forget, note, read_ledger, times_begun
from orthoscope.sweep.store import (
    RUNS,
    Problem,
    canonical,
    check_version,
    encoded,
    is_stored,
    name_of,
    read_run,
    run_key,
    run_path,
)

Show = Callable[[int, int, int], None]

# Seconds after which a temporary file counts as left behind by a killed process.
ABANDONED = 3600.0
# Seconds until a run that another sweep is executing is submitted again.
PAUSE = 0.5
# Losses per attempt: a job may be lost more often than its run is started, since jobs that wait for a worker die too.
LOSSES = 3
_GRID = "write a list of dicts, one a run, such as [{'x': 1}, {'x': 2}]"


@dataclass(frozen=True)
class Sweep:
    """Results of a grid; counts are of distinct runs, and equal configurations are one run.

    Attributes:
        results: In the order of the grid; None where a run failed.
        failed: The reason of every failure, by configuration as JSON text.
        skipped: Number of runs that were already stored, or were finished meanwhile by another sweep in the same store.
        executed: Number of runs that this sweep finished.
        seconds: Duration.
        problems: Damaged files of runs of this grid; those runs were executed again.
    """

    results: list[Any]
    failed: dict[str, str]
    skipped: int
    executed: int
    seconds: float
    problems: list[Problem]


class Interrupted(KeyboardInterrupt):
    """Raised at Ctrl-C; the message says how to resume."""


def run(
    function: Callable[[dict[str, Any]], Any],
    grid: Sequence[dict[str, Any]],
    store: str | Path,
    engine: str | Executor | Engine = "local",
    *,
    version: str = "1",
    workers: int | None = None,
    attempts: int = 3,
    progress: bool = True,
    scheduler: str | None = None,
) -> Sweep:
    """Execute `function(config)` for every config of the grid that the store does not hold yet.

    Args:
        function: A function at the top of a module; workers import it by name. An exception fails its run at once.
        grid: Configurations: dicts of JSON values, nan and infinities included, as for results.
        store: Folder of the finished runs; docs/sweep.md describes its layout.
        engine: "local" (processes), "dask", "ray", "slurm", "inline" (this process), an executor or an engine.
        version: Version of the experiment's code; another version is another run.
        workers: Number of local processes, one per core by default; 0 computes in this process.
        attempts: How often a run is started before it fails, if its worker dies each time.
        progress: Show a progress bar on a terminal.
        scheduler: Address of a Dask or Ray cluster.

    Returns:
        The results in the order of the grid, and what was executed, found stored, or failed.

    Raises:
        Interrupted: At Ctrl-C; finished runs are stored.
    """
    began = time.perf_counter()
    check_engine(engine, workers, scheduler)
    check_version(version)
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ValueError(f"attempts={attempts!r}: a run needs at least one, give a whole number")
    folder, name = Path(store).resolve(), name_of(function)  # absolute: workers may have another working directory
    sweep = secrets.token_hex(4)
    keys, jobs = _jobs(grid, lambda config: Job(str(folder), name, version, config, attempts, sweep))
    _prepare(folder)
    todo, problems = _unfinished(folder, list(jobs.values()))
    note(folder, "sweep", sweep=sweep, function=name, version=version, runs=len(jobs), todo=len(todo))
    start = partial(open_engine, engine, len(todo), workers, scheduler, folder)
    dispatcher = _dispatched(folder, todo, len(jobs), start, progress)
    failed = dict(dispatcher.failed)
    results = {key: _result(folder, key, failed) for key in jobs}
    executed = dispatcher.executed + _executed_unanswered(folder, sweep, dispatcher.found)
    seconds = time.perf_counter() - began
    note(folder, "ended", sweep=sweep, executed=executed, failed=len(failed), seconds=round(seconds, 3))
    return Sweep(
        results=[results[key] for key in keys],
        failed={canonical(jobs[key].config): failed[key] for key in jobs if key in failed},
        skipped=len(jobs) - len(failed) - executed,
        executed=executed,
        seconds=seconds,
        problems=problems,
    )


def is_finished(
    function: Callable[[dict[str, Any]], Any], grid: Sequence[dict[str, Any]], store: str | Path, *, version: str = "1"
) -> bool:
    """Return whether a store holds every run of a grid, so that `run` would execute nothing.

    Args:
        function: As for `run`.
        grid: As for `run`.
        store: Folder of the finished runs.
        version: Version of the experiment's code.
    """
    name = name_of(function)
    keys = (run_key(name, version, encoded(config, f"grid[{index}]")) for index, config in enumerate(grid))
    return all(is_stored(run_path(Path(store), key)) for key in keys)


@contextmanager
def bar(total: int, done: int, wanted: bool, console: Console | None = None) -> Iterator[Show]:
    """Draw a progress bar on standard error, if that is a terminal, and remove it at the end.

    Yields a function of (runs finished, runs failed, runs that another sweep is executing). Runs that were found in the
    store do not count as speed for the remaining time.
    """
    console = console or Console(stderr=True)
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    columns = BarColumn(), MofNCompleteColumn(), *times, TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not (wanted and console.is_terminal)) as progress:
        task = progress.add_task("", total=total, completed=done)

        def show(done: int, failed: int, elsewhere: int) -> None:
            remarks = [f"{failed} failed"] * (failed > 0) + [f"{elsewhere} run by another sweep"] * (elsewhere > 0)
            progress.update(task, completed=done, description=", ".join(remarks))

        yield show


def _prepare(folder: Path) -> None:
    try:
        for part in (RUNS, CLAIMS):
            (folder / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"no sweep can be kept in {str(folder)!r} ({error.strerror}): give a folder, or a name under which one "
            "can be made"
        ) from error
    for path in (folder / RUNS).glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile by another sweep
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


def _jobs(grid: Sequence[dict[str, Any]], job: Callable[[Any], Job]) -> tuple[list[str], dict[str, Job]]:
    """Return the key of every configuration, and the jobs by key: equal configurations are one job."""
    if isinstance(grid, Mapping | str):
        raise TypeError(f"the grid is a {type(grid).__name__}: {_GRID}")
    jobs = []
    for index, config in enumerate(grid):
        if not isinstance(config, dict):
            raise TypeError(f"grid[{index}] is {config!r}, not a dict: {_GRID}")
        jobs.append(job(encoded(config, f"grid[{index}]")))
    return [one.key for one in jobs], {one.key: one for one in jobs}


def _unfinished(folder: Path, jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
    """Return the jobs without an intact file, and the damaged files; claims of killed workers are removed."""
    todo, problems = [], []
    for job in jobs:
        path = run_path(folder, job.key)
        try:
            read_run(path)
        except FileNotFoundError:
            todo.append(job)
        except ValueError as error:
            todo.append(job)
            problems.append(Problem(path, str(error)))
            note(folder, "damaged", key=job.key, reason=str(error))
    for job in todo:
        forget(folder, job.key)
    return todo, problems


def _dispatched(folder: Path, todo: list[Job], total: int, start: Callable[[], Engine], progress: bool) -> "Dispatcher":
    """Execute all jobs with an engine, which is not started if there are none."""
    done = total - len(todo)
    with bar(total, done, progress) as show:

        def shown(jobs: "Dispatcher") -> None:
            show(done + jobs.settled, len(jobs.failed), len(jobs.resting))

        engine = start() if todo else InlineEngine()
        dispatcher = Dispatcher(engine, todo, shown)
        try:
            dispatcher.finish()
        except BaseException as end:
            engine.close(at_once=True)
            if isinstance(end, KeyboardInterrupt):
                raise _interrupted(folder, todo, total) from None
            raise
        engine.close(at_once=False)
    for job in todo:
        forget(folder, job.key)
    return dispatcher


def _interrupted(folder: Path, todo: list[Job], total: int) -> Interrupted:
    kept = total - sum(not is_stored(run_path(folder, job.key)) for job in todo)
    note(folder, "interrupted", finished=kept)
    return Interrupted(f"{kept} of {total} runs are finished and kept in {folder}; call again to run the others")


def _executed_unanswered(folder: Path, sweep: str, found: set[str]) -> int:
    """Return how many of the runs found stored this sweep executed: a worker may die between storing and answering."""
    rows = read_ledger(folder).rows if found else []
    return len({row["key"] for row in rows if row["event"] == "finished" and row.get("sweep") == sweep} & found)


def _result(folder: Path, key: str, failed: dict[str, str]) -> Any:
    """Return the stored result; a run whose file is missing or damaged is added to `failed`."""
    try:
        return read_run(run_path(folder, key)).result
    except FileNotFoundError:
        failed.setdefault(key, f"was done, but its file is not in {folder}: all workers must share this folder")
    except ValueError as error:
        failed.setdefault(key, f"its file {error}")
    return None


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
