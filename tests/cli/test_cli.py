"""The command line as a user meets it: in a process of its own, with exit codes and one sentence for every mistake."""

import json
import time
from pathlib import Path

import jsonschema
import pytest

from cli.process import orthoscope
from orthoscope import report

pytestmark = pytest.mark.slow

HEALTHY = "mlp(depth=10, activation=tanh, init=orthogonal)"
EXPLODING = "mlp(depth=60, norm=batch)"


def test_help_names_the_verbs_and_answers_at_once() -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        shown = orthoscope("--help", started_anew=True)
        seconds.append(time.perf_counter() - start)
    assert shown.returncode == 0
    assert all(verb in shown.stdout for verb in ("diagnose", "predict", "errata", "data"))
    # 0.2 s on a quiet machine; the limit leaves room for a neighbor. Importing torch alone takes longer.
    assert min(seconds) < 1.0


def test_a_healthy_network_exits_with_0_and_the_verdict_comes_first() -> None:
    shown = orthoscope("diagnose", HEALTHY, "--fail-on", "any")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split()[:2] == ["VERDICT", "HEALTHY"]


def test_a_symptom_that_is_watched_for_exits_with_1_and_others_do_not() -> None:
    assert orthoscope("diagnose", EXPLODING, "--fail-on", "collapse,explode").returncode == 1
    assert orthoscope("diagnose", EXPLODING, "--fail-on", "collapse").returncode == 0
    assert orthoscope("diagnose", EXPLODING).returncode == 0


def test_json_on_standard_output_is_nothing_but_the_report() -> None:
    shown = orthoscope("diagnose", HEALTHY, EXPLODING, "--json", "-", "--samples", "16")
    document = json.loads(shown.stdout)
    jsonschema.validate(document, report.schema())
    assert [d["verdict"] for d in document["diagnoses"]] == ["HEALTHY", "SICK"]
    assert document["diagnoses"][0]["samples"] == 16
    assert "HEALTHY" in shown.stderr


def test_files_are_written_where_asked(tmp_path: Path) -> None:
    shown = orthoscope("diagnose", HEALTHY, "--html", "page.html", "--json", "page.json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    jsonschema.validate(json.loads((tmp_path / "page.json").read_text()), report.schema())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "page.json"]


NETWORK = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Linear(12, 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 2))

def batch():
    return torch.randn(20, 12), torch.zeros(20)

class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 12)
    def forward(self, inputs):
        raise KeyError("no such key")

def number():
    return 3
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NETWORK)
    return tmp_path


@pytest.mark.parametrize("target", ["net:build", "net.py::build"])
@pytest.mark.parametrize("batch", [[], ["--batch", "net:batch"]])
def test_user_code_is_found_in_the_current_folder(project: Path, target: str, batch: list[str]) -> None:
    shown = orthoscope("diagnose", target, *batch, cwd=project)
    assert shown.returncode == 0, shown.stderr
    assert "VERDICT" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["diagnose", "net:missing"], ["net", "missing"]),
        (["diagnose", "nowhere:build"], ["nowhere"]),
        (["diagnose", "net:number"], ["int", "nn.Module"]),
        (["diagnose", "net.py:build"], ["net.py::build"]),
        (["diagnose", HEALTHY, "--seed", "-1"], ["seed", "-1"]),
        (["diagnose", "net:Broken"], ["KeyError", "no such key"]),
        (["diagnose", "mlpp(depth=3)"], ["mlpp", "mlp"]),
        (["diagnose", "mlp(deepth=3)"], ["deepth", "depth"]),
        (["diagnose", "mlp(activation=rilu)"], ["rilu", "relu"]),
        (["diagnose", "timm:resnet19"], ["resnet19"]),
        (["diagnose", HEALTHY, "--fail-on", "rot"], ["rot", "collapse"]),
        (["diagnose", HEALTHY, "--html", "page.pdf"], ["page.pdf", ".html"]),
        (["diagnose", HEALTHY, "--json", "missing/page.json"], ["missing/page.json"]),
        (["diagnose", HEALTHY, "--samples", "many"], ["many"]),
        (["diagnose", HEALTHY, "--samples", "0"], ["0"]),
        (["diagnose", HEALTHY, "--nonsense"], ["--nonsense"]),
        (["data", "get", "imagenet"], ["imagenet", "cifar10"]),
        (["data", "get"], ["mnist"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(project: Path, arguments: list[str], words: list[str]) -> None:
    shown = orthoscope(*arguments, cwd=project)
    assert shown.returncode == 2, shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr
    complaint = [line for line in shown.stderr.splitlines() if line.startswith("orthoscope: ")]
    assert len(complaint) == 1, shown.stderr
    assert all(word in complaint[0] for word in words), complaint[0]
    assert sorted(path.name for path in project.iterdir() if path.name != "__pycache__") == ["net.py"], (
        "no partial file"
    )


def test_one_bad_network_does_not_lose_the_others(project: Path) -> None:
    shown = orthoscope("diagnose", "net:Broken", HEALTHY, "--json", "kept.json", cwd=project)
    assert shown.returncode == 2
    kept = json.loads((project / "kept.json").read_text())["diagnoses"]
    assert [d["name"] for d in kept] == [HEALTHY]


def test_a_traceback_is_shown_only_when_asked_for(project: Path) -> None:
    assert "Traceback" in orthoscope("diagnose", "net:Broken", "--traceback", cwd=project).stderr


def test_data_lists_what_there_is_and_where() -> None:
    shown = orthoscope("data", ORTHOSCOPE_DATA="/nonexistent")
    assert shown.returncode == 0
    for name in ("digits", "mnist", "fashion-mnist", "cifar10", "orthoscope data get NAME", "/nonexistent"):
        assert name in " ".join(shown.stdout.split()), shown.stdout


def test_the_version_is_the_packages() -> None:
    from orthoscope.version import VERSION

    assert VERSION in orthoscope("--version").stdout
