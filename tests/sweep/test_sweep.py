"""A sweep executes every distinct run once, stores results exactly, and reports failures."""

import json
import math
import os
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from orthoscope.sweep import read_ledger, read_runs, run
from sweep.drivers import TESTS
from sweep.experiments import draws, echo, executions, faulty, grid, square, threads, unplain

SEEDS = [{"seed": seed, "scale": scale} for seed in range(6) for scale in (0.1, 1.0)]


def bits(value: Any) -> Any:
    """Floats as bits, so that nan equals itself and 0.0 differs from -0.0."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return [bits(item) for item in value]
    return {name: bits(item) for name, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.slow
def test_finished_runs_are_not_executed_again(tmp_path: Path) -> None:
    configs = grid(tmp_path / "marks", 6)
    first = run(square, configs[:4], tmp_path / "store", "inline")
    again = run(square, configs, tmp_path / "store", "inline")
    assert (first.executed, first.skipped) == (4, 0)
    assert (again.executed, again.skipped) == (2, 4)
    assert executions(tmp_path / "marks") == dict.fromkeys(range(6), 1)
    assert again.results == [{"square": number**2} for number in range(6)]
    assert again.seconds >= 0.1


def test_equal_configurations_are_one_run_whatever_the_order_of_their_keys(tmp_path: Path) -> None:
    config = grid(tmp_path / "marks", 1)[0]
    sweep = run(square, [config, dict(reversed(config.items())), config], tmp_path / "store", "inline")
    assert sweep.executed == 1
    assert sweep.results == [{"square": 0}] * 3
    assert executions(tmp_path / "marks") == {0: 1}


def test_another_version_or_function_is_another_run(tmp_path: Path) -> None:
    configs = grid(tmp_path / "marks", 2)
    run(square, configs, tmp_path / "store", "inline")
    assert run(square, configs, tmp_path / "store", "inline", version="2").executed == 2
    assert run(faulty, configs[:1], tmp_path / "store", "inline").results == [0]
    assert len(read_runs(tmp_path / "store").runs) == 5
    assert len(read_runs(tmp_path / "store", square, version="2").runs) == 2
    assert [found.result for found in read_runs(tmp_path / "store", faulty).runs] == [0]


def test_one_and_one_point_zero_and_true_are_three_configurations(tmp_path: Path) -> None:
    sweep = run(echo, [{"value": 1}, {"value": 1.0}, {"value": True}], tmp_path, "inline")
    assert sweep.executed == 3
    assert list(map(type, sweep.results)) == [int, float, bool]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_results_are_restored_bit_by_bit(tmp_path: Path, workers: int) -> None:
    sweep = run(draws, SEEDS, tmp_path, workers=workers)
    assert bits(sweep.results) == bits([draws(config) for config in SEEDS])
    assert math.isnan(sweep.results[0]["beyond"][2])
    assert bits(run(draws, SEEDS, tmp_path, workers=0).results) == bits(sweep.results)
    for path in (tmp_path / "runs").iterdir():
        assert "NaN" not in path.read_text(), "strict JSON"


def test_configurations_reach_the_function_unchanged_except_tuples(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, True, "text"], "b": math.inf, "c": (1, (2,))}
    assert run(echo, [{"value": value}], tmp_path, "inline").results == [{**value, "c": [1, [2]]}]


def test_an_exception_fails_its_run_and_no_other(tmp_path: Path) -> None:
    sweep = run(faulty, grid(tmp_path / "marks", 4), tmp_path / "store", workers=1)
    assert sweep.results == [0, None, None, 3]
    assert [json.loads(config)["number"] for config in sweep.failed] == [1, 2]
    assert list(sweep.failed.values()) == ["ZeroDivisionError: no inverse of [zero]", "SystemExit: enough"]
    assert executions(tmp_path / "marks") == dict.fromkeys(range(4), 1), "what fails by itself is not tried again"
    rows = read_ledger(tmp_path / "store").rows
    assert [row["event"] for row in rows].count("started") == 4
    [row, _] = [row for row in rows if row["event"] == "failed"]
    assert "in faulty" in row["traceback"]
    assert row["seconds"] >= 0


def test_a_result_that_is_not_json_fails_and_the_error_says_where(tmp_path: Path) -> None:
    [reason] = run(unplain, [{}], tmp_path, "inline").failed.values()
    assert reason.startswith("TypeError: the result['rows'][1] is a set, which JSON cannot carry")
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": [torch.ones(1)]}, r"grid\[1\]\['a'\]\[0\] is a Tensor"),
        ({"a": {1: 2}}, r"grid\[1\]\['a'\] has the key 1"),
        ({"$float": "nan"}, "marks nan"),
    ],
)
def test_a_configuration_that_is_not_json_is_refused_before_anything_starts(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        run(echo, ({"value": 0}, config), tmp_path / "store", "inline")
    assert not (tmp_path / "store").exists()


def test_functions_without_a_lasting_name_are_refused(tmp_path: Path) -> None:
    def local(config: dict[str, Any]) -> None: ...

    for function in (local, lambda config: None):
        with pytest.raises(TypeError, match="define it with `def` at the top of a module"):
            run(function, [], tmp_path, "inline")
    with pytest.raises(TypeError, match="is not the function that was given"):
        run(tmp_path.match, [], tmp_path, "inline")  # type: ignore[arg-type]


def test_invalid_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="engine='loca' is none of local, dask"):
        run(echo, [], tmp_path, "loca")
    with pytest.raises(ValueError, match="belongs to dask or ray"):
        run(echo, [], tmp_path, scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="attempts=0"):
        run(echo, [], tmp_path, attempts=0)
    with pytest.raises(ValueError, match="workers=-1"):
        run(echo, [], tmp_path, workers=-1)


MISTAKES = {
    "run(echo, {'x': [1, 2]}, 'store')": "the grid is a dict: ",
    "run(echo, 'x', 'store')": "the grid is a str: ",
    "run(echo, [1, 2], 'store')": "grid[0] is 1, not a dict: ",
    "run(echo, [], 'store', version=1)": "version=1 is not text: ",
    "read_runs('.', version=1)": "version=1 is not text: ",
    "run(echo, [], 'store', workers=1.5)": "workers=1.5: ",
    "run(echo, [], 'store', workers='2')": "workers='2': ",
    "run(echo, [], 'store', attempts='3')": "attempts='3': ",
}


def test_arguments_of_wrong_type_are_refused_and_leave_no_files(tmp_path: Path) -> None:
    calls = "\n".join(
        f"try:\n    {call}\nexcept (TypeError, ValueError) as error:\n    print(error)" for call in MISTAKES
    )
    code = f"from orthoscope.sweep import read_runs, run\nfrom sweep.experiments import echo\n{calls}"
    # In a process of its own, where no shapes and types are checked, as at the user's.
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    shown = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = shown.stdout.splitlines()
    assert len(said) == len(MISTAKES), shown.stderr
    for sentence, words in zip(said, MISTAKES.values(), strict=True):
        assert sentence.startswith(words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "file/store"])
def test_a_store_that_cannot_be_a_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=rf"no sweep can be kept in '.*{place}' \(.*\): give a folder") as refused:
        run(echo, [], tmp_path / place)
    assert "Errno" not in str(refused.value)


def test_workers_use_one_thread_and_the_caller_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        here = run(threads, [{}], tmp_path / "here", "inline")
        there = run(threads, [{}], tmp_path / "there", workers=1)
        assert here.results == there.results == [{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


def test_an_executor_of_the_caller_is_used_and_left_open(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as executor:
        sweep = run(draws, SEEDS, tmp_path, executor)
        assert executor.submit(int).result() == 0
    assert bits(sweep.results) == bits([draws(config) for config in SEEDS])


def test_a_closed_executor_ends_the_sweep_with_an_error(tmp_path: Path) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(RuntimeError, match=r"the engine takes no more runs .* call again to run the others"):
        run(draws, SEEDS, tmp_path, executor)


def test_an_empty_grid_is_an_empty_sweep(tmp_path: Path) -> None:
    sweep = run(echo, [], tmp_path)
    assert (sweep.results, sweep.failed, sweep.executed, sweep.skipped) == ([], {}, 0, 0)
    assert read_runs(tmp_path).runs == []
