"""`orthoscope reproduce` as a user meets it: the list, an experiment to its end, mistakes, failures, a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cli.process import orthoscope
from orthoscope import report
from orthoscope_papers.catalog import catalog
from orthoscope_papers.cli import reproduce
from orthoscope_papers.results import read_meta

pytestmark = pytest.mark.slow

FAST = "daneshmand2021/figure_2a"
SLOWER = "lu2024/low_rank_update"  # two runs, one a learning rate


def test_the_list_has_every_experiment_with_its_claim_and_time(tmp_path: Path) -> None:
    shown = orthoscope("reproduce", cwd=tmp_path, COLUMNS="250")
    assert shown.returncode == 0, shown.stderr
    for entry in catalog():
        assert f"{entry.name} " in shown.stdout
    assert "≤ 3.0 s" in shown.stdout
    assert f"{len(catalog())} experiments" in shown.stdout
    assert list(tmp_path.iterdir()) == [], "a list writes nothing"


def test_the_list_says_which_data_must_be_fetched_and_where_settings_differ(tmp_path: Path) -> None:
    lines = orthoscope("reproduce", cwd=tmp_path, COLUMNS="400").stdout.splitlines()
    below = {line.split()[0]: lines[number + 2].strip() for number, line in enumerate(lines[:-2]) if "/" in line[:40]}
    assert below["daneshmand2021/figure_4"] == "data: cifar10, fashion-mnist"
    assert below["lu2024/table_2"] == "data: cifar10, with --full cifar100"
    assert below["joudaki2024/isometry_of_normalization"] == "data: none, with --full mnist, cifar10"
    assert not below[FAST].startswith("data:")
    assert lines[-1].endswith(
        "Data is fetched by orthoscope data get NAME…; where none is named, and with --quick, none is needed."
    )


def run(tmp_path: Path, *names: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """The verb in this process, with its document."""
    target = tmp_path / "evidence.json"
    code = reproduce(*names, json=str(target), output=tmp_path / "results", engine="inline", **options)
    document = json.loads(target.read_text())
    jsonschema.validate(document, report.schema())
    return code, document


def test_one_experiment_runs_to_its_end_and_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = run(tmp_path, FAST, quick=True)
    shown = capsys.readouterr()
    (found,) = document["experiments"]
    assert code == 0
    assert (document["setting"], found["name"], found["state"]) == ("quick", FAST, "holds")
    assert all(check["holds"] for check in found["checks"])
    assert found["evidence"][0]["verdict"] in shown.out
    assert "HOLDS" in shown.out
    assert f"runs done: 1, finished before: 0; results are in {tmp_path}/results/quick\n" in shown.err
    folder = tmp_path / "results" / "quick" / FAST
    assert sorted(file.name for file in folder.iterdir()) == ["figure.svg", "meta.json", "table.csv"]
    assert read_meta(folder)["setting"] == "quick"
    assert not (tmp_path / "results" / FAST).exists(), "quick results do not stand where default ones do"
    again, same = run(tmp_path, FAST, quick=True)
    assert "runs done: 0, finished before: 1" in capsys.readouterr().err
    assert (again, same["experiments"]) == (0, document["experiments"])


def test_a_check_that_fails_makes_the_exit_code_1_and_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orthoscope_papers.daneshmand2021 import figure_2a

    monkeypatch.setattr(figure_2a, "check", lambda rows: {"it is so": len(rows) > 1, "it is not so": False})
    code, document = run(tmp_path, FAST, quick=True)
    assert code == 1
    assert document["experiments"][0]["state"] == "fails"
    shown = capsys.readouterr().out
    assert shown.startswith("FAILS")
    assert "fails: it is not so" in shown
    assert "1 of 2 checks hold" in shown


def test_a_run_that_fails_is_named_and_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orthoscope_papers.daneshmand2021 import figure_2a
    from orthoscope_papers.lu2024 import low_rank_update

    monkeypatch.setattr(figure_2a, "QUICK", replace(figure_2a.QUICK, depth=31, widths=(32, 128)))
    monkeypatch.setattr(low_rank_update, "QUICK", replace(low_rank_update.QUICK, width=-3))
    code, document = run(tmp_path, SLOWER, FAST, quick=True)
    states = {found["name"]: found["state"] for found in document["experiments"]}
    assert code == 1
    assert states[SLOWER] == "error"
    assert states[FAST] != "error"
    (failed,) = (found for found in document["experiments"] if found["state"] == "error")
    assert failed["error"].startswith("2 of 2 runs failed, the first: ")
    shown = capsys.readouterr().out
    assert shown.startswith("ERROR")
    assert "1 did not run to their end" in shown
    assert not (tmp_path / "results" / "quick" / SLOWER).exists()


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (
            ["daneshmand2021/figure_2x"],
            {},
            r"no experiment 'daneshmand2021/figure_2x': did you mean daneshmand2021/figure_2",
        ),
        (["figure_2a"], {}, r"did you mean daneshmand2021/figure_2a\?"),
        ([FAST], {"quick": True, "full": True}, r"--quick and --full are two settings"),
        ([FAST], {"page": Path("page.md")}, r"--page writes what is saved of the default setting and runs nothing"),
        ([], {"page": Path("page.md"), "quick": True}, r"give no names or setting with it"),
        ([], {"page": Path("page.md")}, r"there are no results to write a page of: 'results' is no folder"),
        ([], {"page": Path("nowhere/page.md")}, r"'nowhere/page.md' cannot be written"),
        ([FAST], {"output": Path("file/results")}, r"'file/results' cannot hold results: '.*file' is no folder"),
        ([], {"json": "-"}, r"--json holds what was found: name experiments"),
        ([FAST], {"json": "evidence.txt"}, r"does not end in .json"),
        ([FAST], {"engine": "mpi"}, r"engine='mpi' is none of local, dask"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(ValueError, match=words):
        reproduce(*arguments, **options)


def test_an_engine_that_is_not_installed_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError('ray')")
    shown = orthoscope(
        *("reproduce", FAST, "--quick", "--engine", "ray", "--scheduler", "auto"),
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith("orthoscope: engine='ray' needs ray, which is not installed here: pip install ray")
    assert shown.stderr.count("\n") == 1


def test_the_page_is_written_from_saved_results_alone(tmp_path: Path) -> None:
    code, _ = run(tmp_path, FAST, quick=True)
    assert code == 0
    os.rename(tmp_path / "results" / "quick", tmp_path / "kept")
    folder = tmp_path / "kept" / FAST
    before = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}
    # As code of yesterday would have drawn and judged the same table.
    (folder / "figure.svg").write_text("<svg/>")
    (folder / "meta.json").write_text(json.dumps({**json.loads(before["meta.json"]), "checks": {"old": False}}))
    assert reproduce(page=tmp_path / "page.md", output=tmp_path / "kept") == 0
    assert {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()} == before
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("# Results")
    assert f"### {FAST}" in page
    assert f"../results/{FAST}/figure.svg" in page
    assert page.count("###") == 1


def test_without_matplotlib_everything_but_the_figure_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, document = run(tmp_path, FAST, quick=True)
    assert code == 0
    assert document["experiments"][0]["state"] == "holds"
    assert "pip install 'orthoscope[papers]' adds it" in capsys.readouterr().err
    folder = tmp_path / "results" / "quick" / FAST
    assert sorted(file.name for file in folder.iterdir()) == ["meta.json", "table.csv"]
    os.rename(tmp_path / "results" / "quick", tmp_path / "kept")
    assert reproduce(page=tmp_path / "page.md", output=tmp_path / "kept") == 0
    assert capsys.readouterr().err.count("pip install") == 1


def test_a_page_of_quick_results_alone_is_refused(tmp_path: Path) -> None:
    run(tmp_path, FAST, quick=True)
    with pytest.raises(ValueError, match=r"no results to write a page of in '.*results', .* run orthoscope reproduce"):
        reproduce(page=tmp_path / "page.md", output=tmp_path / "results")
    assert not (tmp_path / "page.md").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nothing can be made")
def test_an_output_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    shown = orthoscope("reproduce", FAST, "--quick", "--output", "/proc/foo", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert re.fullmatch(r"orthoscope: .*/proc/foo.*: give .*\n", shown.stderr)
    assert "Errno" not in shown.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_after_its_driver_is_killed_the_same_command_goes_on(tmp_path: Path) -> None:
    arguments = ("reproduce", FAST, SLOWER, "--quick", "--workers", "1", "--output", "out")
    store = tmp_path / "out" / ".runs" / "runs"
    driver = subprocess.Popen(
        [sys.executable, "-m", "orthoscope", *arguments],
        cwd=tmp_path,
        env=os.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(store.glob("*.json")) and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    kept = {path: path.stat().st_mtime_ns for path in store.glob("*.json")}
    assert kept, "one run was finished"
    shown = orthoscope(*arguments, "--json", "-", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert f"runs done: {3 - len(kept)}, finished before: {len(kept)}" in shown.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept, "nothing finished is run again"
    document = json.loads(shown.stdout)  # nothing but the document
    jsonschema.validate(document, report.schema())
    assert [found["state"] for found in document["experiments"]] == ["holds", "holds"]
    assert "verdict" in shown.stderr
