"""Damaged files are reported and their runs repeated; a full disk loses no other run."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from orthoscope.files import replace
from orthoscope.sweep import read_ledger, read_runs, run, store
from orthoscope.sweep.claims import LEDGER, claimed, forget, note, times_begun
from sweep.drivers import TESTS
from sweep.experiments import draws, executions, grid, square

SEEDS = [{"seed": seed, "scale": 1.0} for seed in range(3)]


def edited(text: str, **changes: Any) -> str:
    return json.dumps({**json.loads(text), **changes})


DAMAGES = {
    "half-written": (lambda text: text[: len(text) // 2], "is not whole"),
    "empty": (lambda text: "", "is not whole"),
    "bits": (lambda text: "\ufffd" + text, "is not whole"),
    "nan": (lambda text: text.replace('"seconds": ', '"seconds": NaN, "x": '), "NaN is not JSON"),
    "result": (lambda text: edited(text, result=[1.0]), "its checksum is another"),
    "config": (lambda text: edited(text, config={"seed": 7}), "its checksum is another"),
    "seconds": (lambda text: edited(text, seconds=0.0), "its checksum is another"),
    "nested": (lambda text: "[" * 100_000, "is not whole: its brackets are nested deeper"),
    "list": (lambda text: "[1]", "is not a run of a sweep"),
    "schema": (lambda text: edited(text, schema="orthoscope.run/9"), "its schema is 'orthoscope.run/9'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_its_run_done_again(tmp_path: Path, damage: str) -> None:
    whole = run(draws, SEEDS, tmp_path, "inline").results
    path = sorted((tmp_path / "runs").iterdir())[1]
    change, reason = DAMAGES[damage]
    path.write_text(change(path.read_text()))
    table = read_runs(tmp_path)
    assert len(table.runs) == 2
    assert [problem.path for problem in table.problems] == [path]
    assert reason in table.problems[0].reason
    again = run(draws, SEEDS, tmp_path, "inline")
    assert (again.executed, again.skipped) == (1, 2)
    assert [problem.path for problem in again.problems] == [path]
    assert str(again.results) == str(whole)
    assert read_runs(tmp_path).problems == []
    assert [row["event"] for row in read_ledger(tmp_path).rows].count("damaged") == 1


def test_foreign_files_are_named_and_left_alone(tmp_path: Path) -> None:
    run(draws, SEEDS, tmp_path, "inline")
    folder = tmp_path / "runs"
    shutil.copy(min(folder.iterdir()), folder / "copy.json")
    (folder / "notes.txt").write_text("mine")
    (folder / "old").mkdir()
    (folder / ".orthoscope-1.tmp").write_text("{")
    table = read_runs(tmp_path)
    assert len(table.runs) == 3
    reasons = {problem.path.name: problem.reason for problem in table.problems}
    assert set(reasons) == {"copy.json", "notes.txt", "old"}
    assert reasons["copy.json"] == "has another name than its contents give: it was renamed or copied"
    assert reasons["old"] == "cannot be read: Is a directory"


def test_old_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    run(draws, [], tmp_path, "inline")
    old, new = tmp_path / "runs" / ".orthoscope-1.tmp", tmp_path / "runs" / ".orthoscope-2.tmp"
    for path in (old, new):
        path.write_text("{")
    os.utime(old, (time.time() - 7200,) * 2)
    run(draws, [], tmp_path, "inline")
    assert (old.exists(), new.exists()) == (False, True)


def test_a_folder_without_a_sweep_is_not_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no sweep in"):
        read_runs(tmp_path)


def test_a_stored_run_does_not_depend_on_where_it_was_executed(tmp_path: Path) -> None:
    run(draws, SEEDS[:1], tmp_path, "inline", version="3")
    [path] = (tmp_path / "runs").iterdir()
    content = json.loads(path.read_text())
    assert list(content) == ["schema", "function", "version", "config", "result", "seconds", "versions", "checksum"]
    assert (content["schema"], content["function"], content["version"]) == (
        "orthoscope.run/1",
        "sweep.experiments:draws",
        "3",
    )
    assert set(content["versions"]) == {"python", "orthoscope", "torch", "numpy"}
    assert len(path.stem) == 32


def test_a_write_error_fails_one_run_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(target: Path, content: str) -> None:
        if '"number": 1,' in content:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(target, content)

    configs = grid(tmp_path / "marks", 4)
    with monkeypatch.context() as patched:
        patched.setattr(store, "replace", full)
        sweep = run(square, configs, tmp_path / "store", "inline")
    assert sweep.results == [{"square": 0}, None, {"square": 4}, {"square": 9}]
    assert list(sweep.failed.values()) == ["OSError: [Errno 28] No space left on device"]
    assert len(list((tmp_path / "store" / "runs").iterdir())) == 3
    again = run(square, configs, tmp_path / "store", "inline")
    assert (again.executed, again.failed) == (1, {})
    assert executions(tmp_path / "marks") == {0: 1, 1: 2, 2: 1, 3: 1}


FULL = """
import json, os, shutil, sys
from pathlib import Path
from orthoscope.sweep import read_runs, run
from sweep.experiments import heavy
store = Path(sys.argv[1])
sweep = run(heavy, [{"number": number} for number in range(8)], store, workers=int(sys.argv[2]), progress=False)
hidden = [path.name for path in store.rglob(".*")]
table = read_runs(store)
print(json.dumps([sweep.executed, list(sweep.failed.values()), len(table.runs), len(table.problems), hidden]))
"""


def test_a_full_disk_keeps_intact_runs_only(tmp_path: Path) -> None:
    """A file system of 64 kB for runs of 12 kB, mounted in a namespace where that needs no rights."""
    inside = f"mount -t tmpfs -o size=64k tmpfs {tmp_path} && exec {sys.executable} -c '{FULL}' {tmp_path} 0"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*command, f"mount -t tmpfs tmpfs {tmp_path}"]).returncode:
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*command, inside], env={**os.environ, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=True
    )
    executed, reasons, whole, problems, hidden = json.loads(done.stdout)
    assert 1 <= executed == whole <= 4
    assert len(reasons) == 8 - executed
    assert all(reason.startswith("OSError: [Errno 28] No space left on device") for reason in reasons)
    assert (problems, hidden) == (0, [])


def test_a_claim_counts_unfinished_starts_and_is_exclusive(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    with claimed(tmp_path, "key") as mine:
        assert mine is not None
        mine.begin()
        with claimed(tmp_path, "key") as other:
            assert other is None
        forget(tmp_path, "key")
        assert times_begun(tmp_path, "key") == 1
    assert times_begun(tmp_path, "key") == 0
    # What a killed process leaves behind: a file with a byte for each beginning, and no lock.
    (tmp_path / "claims" / "key").write_bytes(b"..")
    with claimed(tmp_path, "key") as mine:
        assert mine is not None
        assert mine.begun == 2
    (tmp_path / "claims" / "key").write_bytes(b"..")
    forget(tmp_path, "key")
    assert not list((tmp_path / "claims").iterdir())


def test_torn_lines_of_the_ledger_are_reported_and_skipped(tmp_path: Path) -> None:
    note(tmp_path, "first")
    with (tmp_path / LEDGER).open("a") as file:
        file.write("[" * 100_000 + '\n[2026]\n{"time": "2026')
    note(tmp_path, "last")
    ledger = read_ledger(tmp_path)
    assert [row["event"] for row in ledger.rows] == ["first", "last"]
    assert [problem.split(" of ")[0] for problem in ledger.problems] == ["line 2", "line 3", "line 4"]


def test_the_ledger_has_every_run_with_its_duration(tmp_path: Path) -> None:
    run(square, grid(tmp_path / "marks", 3), tmp_path / "store", "inline")
    rows = read_ledger(tmp_path / "store").rows
    assert [row["event"] for row in rows] == ["sweep", *["started", "finished"] * 3, "ended"]
    assert all(row["seconds"] >= 0.05 for row in rows if row["event"] == "finished")
    assert [row["config"]["number"] for row in rows if row["event"] == "started"] == [0, 1, 2]
