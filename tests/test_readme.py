"""What the README shows is what happens: its Python runs, its commands are real, its first two are as promised."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orthoscope import theory

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_commands_are_make_demo_and_make_test() -> None:
    language, first = BLOCKS[0]
    assert language == "sh"
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


def test_the_python_examples_run_in_the_order_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, code in BLOCKS:
        if language == "python":
            exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "report.html").is_file()
    assert names["diagnosis"].verdict in ("HEALTHY", "AT RISK", "SICK")  # type: ignore[attr-defined]


def test_the_python_of_the_page_on_residual_alignment_runs() -> None:
    names: dict[str, object] = {}
    for language, code in re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/residual.md").read_text(), flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "residual.md", "exec"), names)
    assert names["scores"].step_cosine.shape == (2,)  # type: ignore[attr-defined]


def test_the_python_of_the_theory_page_runs_and_gives_what_it_says() -> None:
    names: dict[str, object] = {}
    for language, code in re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/theory.md").read_text(), flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "theory.md", "exec"), names)
    kernel = names["kernel"]
    assert round(kernel.fixed_point, 4) == 0.7604  # type: ignore[attr-defined]
    assert kernel.case == 4  # type: ignore[attr-defined]
    assert f"lists {len(theory.errata)} statements" in (ROOT / "docs/theory.md").read_text()


def test_the_python_of_the_weights_page_runs() -> None:
    names: dict[str, object] = {}
    for language, code in re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/weights.md").read_text(), flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "weights.md", "exec"), names)
    images, isometry = names["images"], names["isometry"]
    assert float((isometry(images).norm() / images.norm()).detach()) == pytest.approx(1, abs=1e-5)  # type: ignore[operator, attr-defined]


def test_the_python_of_the_gradients_page_runs() -> None:
    names: dict[str, object] = {}
    for language, code in re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/gradients.md").read_text(), flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "gradients.md", "exec"), names)
    assert names["groups"][0]["views"][0] == names["MatrixView"](parts=3).plain  # type: ignore[index, operator]
    assert {row.weight for row in names["watched"].rows} >= {"0.weight", "3.weight"}  # type: ignore[attr-defined]


def test_the_python_of_the_page_on_fixing_runs() -> None:
    names: dict[str, object] = {}
    for language, code in re.findall(r"```(\w*)\n(.*?)```", (ROOT / "docs/fixing.md").read_text(), flags=re.DOTALL):
        if language == "python":
            exec(compile(code, "fixing.md", "exec"), names)
    assert names["comparison"].improved  # type: ignore[attr-defined]
    assert names["fixed"].steps  # type: ignore[attr-defined]


COMMANDS = [
    line.split("#")[0].strip()
    for language, code in BLOCKS
    if language == "sh"
    for line in code.splitlines()
    if line.startswith(("orthoscope diagnose ", "orthoscope predict ", "orthoscope errata", "orthoscope plan-muon "))
    if "mypkg" not in line and "timm" not in line
]
# What the first line of the answer begins with.
ANSWERS = {
    "diagnose": ("VERDICT",),
    "predict": ("DEEPEST", "network"),
    "errata": ("lu2024",),
    "plan-muon": ("MUON",),
}


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.split("#")[0].strip() != "orthoscope diagnose"])
def test_the_commands_of_the_readme_run(command: str, tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", *re.findall(r'"[^"]*"|\S+', command)]
    arguments = [argument.strip('"') for argument in arguments]
    shown = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, env=os.environ, timeout=120)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(ANSWERS[arguments[3]])
    if arguments[3] == "plan-muon":
        table = [line.rstrip() for line in shown.stdout.splitlines()[2:9]]
        assert table == next(code for language, code in BLOCKS if "momentum  temporary" in code).splitlines()


def test_every_file_the_documents_link_to_exists() -> None:
    for document in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs/architecture.md",
        ROOT / "docs/method.md",
        ROOT / "docs/theory.md",
        ROOT / "docs/weights.md",
        ROOT / "docs/weights_benchmark.md",
        ROOT / "docs/gradients.md",
        ROOT / "docs/gradients_benchmark.md",
    ):
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert link.startswith("https:") or (document.parent / link).exists(), f"{document.name}: {link}"
