"""All engines give the same results. Dask and submitit are real; Ray is a fake with the functions that are used.

submitit has a fake too, which can lose an answer: the real one takes 15 seconds to notice a dead process.
"""

import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
import psutil
import pytest

import distributed
from orthoscope.sweep import clusters, read_runs, run
from orthoscope.sweep._engines import LocalEngine, check_engine
from orthoscope.sweep.clusters import DaskEngine, SubmititEngine
from sweep.drivers import TESTS, until
from sweep.experiments import draws

SEEDS = [{"seed": seed, "scale": 0.1} for seed in range(10)]


def table(store: Path) -> list[str]:
    """All digits of all runs, but for the seconds."""
    return [repr((found.function, found.config, found.result)) for found in read_runs(store).runs]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    store = tmp_path_factory.mktemp("pool")
    run(draws, SEEDS, store, workers=2)
    return table(store)


@pytest.mark.slow
def test_dask_workers_give_the_results_of_local_processes(tmp_path: Path, expected: list[str]) -> None:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0
    ) as cluster:
        sweep = run(draws, SEEDS, tmp_path, "dask", scheduler=cluster.scheduler_address)
        assert (sweep.executed, sweep.failed) == (10, {})
    assert table(tmp_path) == expected
    assert len(expected) == 10


@pytest.mark.slow
def test_the_dask_cluster_of_a_sweep_listens_on_loopback_only() -> None:
    engine = DaskEngine(None, 1)
    try:
        assert engine.submit(str.upper, "a").result() == "A"
        here = psutil.Process()
        sockets = [
            socket
            for process in (here, *here.children(recursive=True))
            for socket in process.net_connections("inet")
            if socket.status == psutil.CONN_LISTEN
        ]
        assert len(sockets) >= 2
        assert {socket.laddr.ip for socket in sockets} <= {"127.0.0.1", "::1"}
    finally:
        engine.close(at_once=True)


@pytest.mark.slow
def test_two_dask_clusters_use_different_ports() -> None:
    first = DaskEngine(None, 1)
    try:
        DaskEngine(None, 1).close(at_once=True)  # a warning would be an error
    finally:
        first.close(at_once=True)


def test_local_workers_listen_on_nothing() -> None:
    engine = LocalEngine(1)
    try:
        assert engine.submit(str.upper, "a").result() == "A"
        [worker] = engine._idle
        [process] = worker._pool._processes
        assert not [c for c in psutil.Process(process).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    finally:
        engine.close(at_once=True)


def test_a_scheduler_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(ConnectionError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1"),
    ):
        run(draws, SEEDS, tmp_path, "dask", scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize("address", ["nonsense", "", "tcp://", "tcp://host", "host:port", "tcp://host:99999", "a b:1"])
def test_an_invalid_scheduler_address_is_refused_before_anything_starts(tmp_path: Path, address: str) -> None:
    with pytest.raises(ValueError, match=rf"scheduler='{address}' is no address .* such as tcp://host:8786"):
        run(draws, SEEDS, tmp_path / "store", "dask", scheduler=address)
    assert not (tmp_path / "store").exists()


def test_an_unknown_dask_protocol_is_refused_before_a_client_exists(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'http://127.0.0.1:1' begins with none of the protocols of Dask: .*tcp"):
        run(draws, SEEDS, tmp_path, "dask", scheduler="http://127.0.0.1:1")


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "tls://head-1.example:8786", "head:8786", "tcp://[::1]:80"]
)
def test_addresses_as_dask_prints_them_are_accepted(address: str) -> None:
    check_engine("dask", None, address)


@pytest.mark.slow
def test_a_worker_killed_while_idle_is_replaced() -> None:
    engine = LocalEngine(1)
    try:
        assert engine.submit(str.upper, "a").result() == "A"
        [worker] = engine._idle
        [process] = worker._pool._processes.values()
        process.kill()
        until(lambda: worker._pool._broken)
        assert engine.submit(str.upper, "b").result() == "B"
    finally:
        engine.close(at_once=False)


SCRIPT = """
from orthoscope.sweep import run
def double(config):
    return 2 * config["value"]
"""


@pytest.mark.slow
def test_a_function_of_a_script_is_found_by_the_name_of_its_file(tmp_path: Path) -> None:
    script = tmp_path / "doubling.py"
    script.write_text(
        SCRIPT + "if __name__ == '__main__':\n    print(run(double, [{'value': 4}], 'store', workers=1).results)"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[8]\n", done.stderr
    assert read_runs(tmp_path / "store").runs[0].function == "doubling:double"


@pytest.mark.slow
def test_a_script_without_a_main_guard_gets_an_error_that_says_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT + "run(double, [{'value': 4}] , 'store', workers=1, attempts=1)")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "a script that calls a sweep needs `if __name__ == '__main__':`" in done.stderr


@pytest.mark.slow
def test_a_function_of_an_interactive_session_is_refused(tmp_path: Path) -> None:
    code = "from orthoscope.sweep import run\ndef f(c): ...\nrun(f, [], 'store')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "a function of an interactive session has no file" in done.stderr


def test_an_engine_that_is_not_installed_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine, package in {"dask": "distributed", "ray": "ray", "slurm": "submitit"}.items():
        monkeypatch.setitem(sys.modules, package, None)
        scheduler = "auto" if engine == "ray" else None
        with pytest.raises(ModuleNotFoundError, match=f"engine='{engine}' needs {package}.*pip install"):
            run(draws, SEEDS, tmp_path, engine, scheduler=scheduler)


class FakeRay(types.ModuleType):
    """`is_initialized`, `init`, `remote(max_retries=)(function).remote(argument).future()`, `shutdown`."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.executor = ThreadPoolExecutor(2)
        self.calls: list[object] = []

    def is_initialized(self) -> bool:
        return bool(self.calls)

    def init(self, address: str, log_to_driver: bool) -> None:
        self.calls.append(address)

    def remote(self, max_retries: int) -> Callable[[Callable[[str], str]], Any]:
        self.calls.append(max_retries)

        def decorated(function: Callable[[str], str]) -> Any:
            def submit(job: str) -> Any:
                future = self.executor.submit(function, job)
                return types.SimpleNamespace(future=lambda: future)

            return types.SimpleNamespace(remote=submit)

        return decorated

    def shutdown(self) -> None:
        self.calls.append("shutdown")


def test_ray_gets_every_run_once_and_is_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[str]
) -> None:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    with fake.executor:
        sweep = run(draws, SEEDS, tmp_path, "ray", scheduler="127.0.0.1:6379")
    assert sweep.executed == 10
    assert table(tmp_path) == expected
    assert fake.calls == ["127.0.0.1:6379", 0, "shutdown"], "made remote once"


def test_ray_is_never_started(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Ray cannot be kept on the loopback interface"):
        run(draws, SEEDS, tmp_path, "ray")


class FakeJob:
    """`done`, `result`, `cancel` of a job of submitit."""

    def __init__(self, future: "Future[str]", lost: bool) -> None:
        self.future, self.lost, self.cancelled = future, lost, False

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> str:
        if self.lost:
            raise RuntimeError("job was requeued too often")
        return self.future.result()

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """submitit's `AutoExecutor(folder=, cluster=)`, `update_parameters`, `submit`; the first answer is lost."""
    seen: dict[str, Any] = {"jobs": []}
    with ThreadPoolExecutor(2) as threads:

        class AutoExecutor:
            def __init__(self, folder: Path, cluster: str | None) -> None:
                seen.update(folder=folder, cluster=cluster)

            def update_parameters(self, **parameters: Any) -> None:
                seen.update(parameters=parameters)

            def submit(self, work: Callable[[str], str], job: str) -> FakeJob:
                seen["jobs"].append(FakeJob(threads.submit(work, job), lost=not seen["jobs"]))
                return seen["jobs"][-1]

        fake = types.ModuleType("submitit")
        fake.AutoExecutor = AutoExecutor  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "submitit", fake)
        monkeypatch.setattr(clusters, "PERIOD", 0.01)
        yield seen


def test_slurm_runs_every_config_and_a_lost_answer_is_found_in_the_store(
    tmp_path: Path, queue: dict[str, Any], expected: list[str]
) -> None:
    sweep = run(draws, SEEDS, tmp_path, "slurm")
    assert (sweep.executed, sweep.failed) == (10, {})
    assert table(tmp_path) == expected
    assert len(queue["jobs"]) == 10
    assert (queue["folder"], queue["cluster"]) == (tmp_path / "slurm", "slurm")


def test_slurm_gets_the_parameters_of_its_queue(tmp_path: Path, queue: dict[str, Any]) -> None:
    engine = SubmititEngine(tmp_path / "logs", cluster="debug", timeout_min=60)
    assert run(draws, SEEDS[:2], tmp_path, engine).executed == 2
    assert (queue["cluster"], queue["parameters"]) == ("debug", {"timeout_min": 60})


@pytest.mark.slow
def test_submitit_gives_the_results_of_local_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    engine = SubmititEngine(tmp_path / "logs", cluster="local", timeout_min=5)
    sweep = run(draws, SEEDS, tmp_path / "store", engine)
    assert (sweep.executed, sweep.failed) == (10, {})
    assert table(tmp_path / "store") == expected
    assert len(list((tmp_path / "logs").glob("*_result.pkl"))) == 10, "a job a run"
    assert run(draws, SEEDS, tmp_path / "store", engine).executed == 0


def test_an_unreachable_queue_loses_the_job_but_not_the_sweep(tmp_path: Path, queue: dict[str, Any]) -> None:
    engine = SubmititEngine(tmp_path / "logs")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FakeJob, "done", lambda job: 1 / 0)
        patched.setattr(FakeJob, "result", lambda job: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.submit(str.upper, "a").result(timeout=60)
    engine.close(at_once=False)


def test_an_interrupt_cancels_queued_jobs(tmp_path: Path, queue: dict[str, Any]) -> None:
    engine = SubmititEngine(tmp_path)
    engine.close(at_once=False)
    engine.submit(str.upper, "a")
    engine.close(at_once=True)
    assert queue["jobs"][0].cancelled


@pytest.mark.slow
def test_workers_do_not_import_torch(tmp_path: Path) -> None:
    code = "import sys, orthoscope.sweep._worker, orthoscope.sweep._engines; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
