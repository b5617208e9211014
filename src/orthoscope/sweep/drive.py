"""A grid of runs, from configurations to results."""

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orthoscope.sweep.claims import CLAIMS, forget
from orthoscope.sweep.engines.choice import checked, opened
from orthoscope.sweep.engines.engine import Engine
from orthoscope.sweep.engines.inline import InlineEngine
from orthoscope.sweep.flight import Flight
from orthoscope.sweep.functions import name_of
from orthoscope.sweep.keys import run_key
from orthoscope.sweep.ledger import note, read_ledger
from orthoscope.sweep.plain import canonical, encoded
from orthoscope.sweep.progress import bar
from orthoscope.sweep.store import RUNS, Problem, check_version, is_stored, read_run, run_path
from orthoscope.sweep.worker import Job

# A file that was being written this long ago is what a killed process left of it.
ABANDONED = 3600.0
_GRID = "write a list of dicts, one a run, such as [{'x': 1}, {'x': 2}]"


@dataclass(frozen=True)
class Sweep:
    """What became of a grid. Counts are of distinct runs: equal configurations are one run."""

    results: list[Any]
    """In the order of the grid; None where a run failed."""
    failed: dict[str, str]
    """The configuration, as JSON text, and why there is no result."""
    skipped: int
    """Runs that were finished before, or meanwhile by another sweep in the same store."""
    executed: int
    """Runs that this sweep finished."""
    seconds: float
    problems: list[Problem]
    """Files that stood where a run belongs and were not whole; those runs were done again."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; the sentence says how to go on."""


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
    """`function(config)` for every config of the grid, each once and for all: what the store holds is not done again.

    Configurations and results are plain JSON values; nan and infinities survive. `version` is that of the experiment's
    code: another one is another run. An exception of the function fails its run at once; a run whose worker dies is
    tried again, and given up after `attempts` beginnings. docs/sweeps.md has the engines and the layout of a store.
    """
    began = time.perf_counter()
    checked(engine, workers, scheduler)
    _check(version, attempts)
    folder, name = Path(store).resolve(), name_of(function)  # absolute: workers may stand elsewhere
    sweep = secrets.token_hex(4)
    keys, jobs = _jobs(grid, lambda config: Job(str(folder), name, version, config, attempts, sweep))
    _prepare(folder)
    todo, problems = _unfinished(folder, list(jobs.values()))
    note(folder, "sweep", sweep=sweep, function=name, version=version, runs=len(jobs), todo=len(todo))
    flight = _flown(folder, todo, len(jobs), lambda: opened(engine, len(todo), workers, scheduler, folder), progress)
    failed = dict(flight.failed)
    results = {key: _result(folder, key, failed) for key in jobs}
    executed = flight.executed + _executed_unheard(folder, sweep, flight.found)
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
    """Whether a store holds every run of a grid, so that `run` would execute nothing."""
    name = name_of(function)
    keys = (run_key(name, version, encoded(config, f"grid[{index}]")) for index, config in enumerate(grid))
    return all(is_stored(run_path(Path(store), key)) for key in keys)


def _check(version: object, attempts: object) -> None:
    check_version(version)
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise ValueError(f"attempts={attempts!r}: a run needs at least one, give a whole number")


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
        with contextlib.suppress(FileNotFoundError):  # just written, by another sweep
            if time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


def _jobs(grid: Sequence[dict[str, Any]], job: Callable[[Any], Job]) -> tuple[list[str], dict[str, Job]]:
    """The key of every configuration, and the jobs by key: equal configurations are one."""
    if isinstance(grid, Mapping | str):
        raise TypeError(f"the grid is a {type(grid).__name__}: {_GRID}")
    jobs = []
    for index, config in enumerate(grid):
        if not isinstance(config, dict):
            raise TypeError(f"grid[{index}] is {config!r}, not a dict: {_GRID}")
        jobs.append(job(encoded(config, f"grid[{index}]")))
    return [one.key for one in jobs], {one.key: one for one in jobs}


def _unfinished(folder: Path, jobs: list[Job]) -> tuple[list[Job], list[Problem]]:
    """Jobs that have no whole file, and the files that are there and not whole."""
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


def _flown(folder: Path, todo: list[Job], total: int, start: Callable[[], Engine], progress: bool) -> Flight:
    """All jobs through an engine, which is not even started if there are none."""
    done = total - len(todo)
    with bar(total, done, progress) as show:

        def shown(flight: Flight) -> None:
            show(done + flight.settled, len(flight.failed), len(flight.resting))

        engine = start() if todo else InlineEngine()
        flight = Flight(engine, todo, shown)
        try:
            flight.finish()
        except BaseException as end:
            engine.close(at_once=True)
            if isinstance(end, KeyboardInterrupt):
                raise _interrupted(folder, todo, total) from None
            raise
        engine.close(at_once=False)
    for job in todo:
        forget(folder, job.key)
    return flight


def _interrupted(folder: Path, todo: list[Job], total: int) -> Interrupted:
    kept = total - sum(not is_stored(run_path(folder, job.key)) for job in todo)
    note(folder, "interrupted", finished=kept)
    return Interrupted(f"{kept} of {total} runs are finished and kept in {folder}; the same call goes on from there")


def _executed_unheard(folder: Path, sweep: str, found: set[str]) -> int:
    """How many of the runs found stored this sweep did: a worker may die after its work and before its word."""
    rows = read_ledger(folder).rows if found else []
    return len({row["key"] for row in rows if row["event"] == "finished" and row.get("sweep") == sweep} & found)


def _result(folder: Path, key: str, failed: dict[str, str]) -> Any:
    """What a file says; a run that should have one and has none has failed."""
    try:
        return read_run(run_path(folder, key)).result
    except FileNotFoundError:
        failed.setdefault(key, f"was done, but its file is not in {folder}: all workers must share this folder")
    except ValueError as error:
        failed.setdefault(key, f"its file {error}")
    return None
