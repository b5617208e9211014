"""kill -9 of a worker, of the driver, of a Dask worker, Ctrl-C: no run is lost, no finished run is repeated."""

import os
import signal
import threading
from pathlib import Path

import pytest

from orthoscope.sweep import Sweep, read_ledger, read_runs, run
from sweep.drivers import alive, driver, until
from sweep.experiments import HALTING, deadly, executions, grid, halting, processes, square

pytestmark = pytest.mark.slow


def kill_the_halted(marks: Path) -> threading.Thread:
    """Kills the worker that is in the middle of the run that waits for it."""

    def kill() -> None:
        until(lambda: processes(marks, HALTING))
        os.kill(processes(marks, HALTING).pop(), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def assert_complete(sweep: Sweep, store: Path) -> None:
    assert sweep.results == [{"square": number**2} for number in range(40)]
    assert sweep.failed == {}
    table = read_runs(store)
    assert len(table.runs) == 40
    assert table.problems == []
    assert not list((store / "claims").iterdir())
    assert not list((store / "runs").glob(".*"))


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_after_a_killed_worker_only_its_run_is_started_again(tmp_path: Path, engine: str) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    configs = grid(marks)
    killing = kill_the_halted(marks)
    sweep = run(halting, configs, store, engine, workers=2)
    killing.join()
    assert_complete(sweep, store)
    assert (sweep.executed, sweep.skipped) == (40, 0)
    assert executions(marks) == {number: 1 + (number == HALTING) for number in range(40)}
    assert [row["begun"] for row in read_ledger(store).rows if row["event"] == "lost"] == [1]
    until(lambda: not any(map(alive, processes(marks))))


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_killed_driver_leaves_no_worker_and_the_sweep_resumes(tmp_path: Path, engine: str) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    process = driver("halting", store, marks, engine)
    # One worker halts in the middle of a run, the other goes on.
    until(lambda: processes(marks, HALTING) and len(executions(marks)) >= 18)
    process.kill()
    process.communicate()
    assert len(processes(marks)) == 2
    until(lambda: not any(map(alive, processes(marks))))
    finished = {found.config["number"] for found in read_runs(store).runs}
    begun = executions(marks)
    assert 10 <= len(finished) < 40
    assert HALTING not in finished
    sweep = run(halting, grid(marks), store, workers=2)
    assert_complete(sweep, store)
    assert (sweep.skipped, sweep.executed) == (len(finished), 40 - len(finished))
    after = executions(marks)
    assert all(after[number] == 1 for number in finished)
    # What was not finished was begun once more, and nothing else.
    assert after - begun == {number: 1 for number in range(40) if number not in finished}


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_after_an_interrupt_the_sweep_resumes(tmp_path: Path, engine: str) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    process = driver("halting", store, marks, engine)
    until(lambda: processes(marks, HALTING) and len(executions(marks)) >= 14)
    # As a terminal does: to the driver and to all of its workers.
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=180)
    finished = {found.config["number"] for found in read_runs(store).runs}
    assert process.returncode != 0
    assert f"Interrupted: {len(finished)} of 40 runs are finished and kept in {store}" in said
    assert said.count("Traceback") == 1, "of the driver alone"
    assert not any(map(alive, processes(marks)))
    sweep = run(halting, grid(marks), store, workers=2)
    assert_complete(sweep, store)
    assert sweep.skipped == len(finished)
    assert all(executions(marks)[number] == 1 for number in finished)


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_run_that_always_kills_its_worker_is_named_while_the_rest_completes(tmp_path: Path, engine: str) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    sweep = run(deadly, grid(marks, 8), store, engine, workers=2, attempts=2)
    assert sweep.results == [None if number == 3 else {"square": number**2} for number in range(8)]
    assert sweep.executed == 7
    [(config, reason)] = sweep.failed.items()
    assert '"number":3' in config
    assert reason.startswith("killed its worker 2 times")
    assert executions(marks) == {number: 1 + (number == 3) for number in range(8)}
    assert not list((store / "claims").iterdir()), "the next sweep gives it new attempts"


def test_two_sweeps_in_one_store_share_the_work(tmp_path: Path) -> None:
    store, marks = tmp_path / "store", tmp_path / "marks"
    configs, done = grid(marks, 20), dict[int, Sweep]()
    others = [
        threading.Thread(target=lambda side=side: done.update({side: run(square, configs, store, workers=1)}))
        for side in range(2)
    ]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert all(sweep.results == [{"square": number**2} for number in range(20)] for sweep in done.values())
    assert executions(marks) == dict.fromkeys(range(20), 1)
    assert sum(sweep.executed for sweep in done.values()) == 20
    assert all(sweep.executed + sweep.skipped == 20 for sweep in done.values())
    assert read_ledger(store).problems == []
