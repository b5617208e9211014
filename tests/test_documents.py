"""What the documents show is what happens: every block of code runs, every link leads somewhere, every page is current.

A block that needs minutes, a cluster or the reader's own code is marked `<!-- not run: reason -->`; these are counted,
and their commands are still held to the options that exist.
"""

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from orthoscope import cli, theory
from orthoscope_papers.errata import all_errata

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = 14


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    code: str
    not_run: str | None

    @property
    def commands(self) -> list[list[str]]:
        """Lines that call orthoscope, as arguments."""
        lines = (shlex.split(line, comments=True) for line in self.code.splitlines() if line.startswith("orthoscope "))
        return [words[1:] for words in lines]


_BLOCK = re.compile(r"(?:<!-- not run: (.*?) -->\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKS = [Block(page.name, *found.group(2, 3, 1)) for page in PAGES for found in _BLOCK.finditer(page.read_text())]
CODE = [block for block in BLOCKS if block.language in ("python", "sh", "console")]


def run_python(code: str, page: str, names: dict[str, Any]) -> None:
    """In the order of the page and with its names; what calls itself a file is one, and is run as one."""
    file = re.match(r'"""(\w+\.py)"""', code)
    if file is not None:
        Path(file[1]).write_text(code)
        subprocess.run([sys.executable, file[1]], check=True, env=os.environ, capture_output=True, timeout=120)
    exec(compile(code, page, "exec"), names)


def run_command(arguments: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(io.StringIO()):
        code = cli.app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    assert code == 0, arguments
    assert shown.getvalue()


def readme(names: dict[str, Any]) -> None:
    assert names["diagnosis"].verdict in ("HEALTHY", "AT RISK", "SICK")
    assert Path("report.html").is_file()


def theory_page(names: dict[str, Any]) -> None:
    kernel = names["kernel"]
    assert round(kernel.fixed_point, 4) == 0.7604
    assert kernel.case == 4
    assert f"lists {len(all_errata())} statements" in (ROOT / "docs/theory.md").read_text()


def weights_page(names: dict[str, Any]) -> None:
    images = names["images"]
    assert float((names["isometry"](images).norm() / images.norm()).detach()) == pytest.approx(1, abs=1e-5)


def gradients_page(names: dict[str, Any]) -> None:
    assert names["groups"][0]["views"][0] == names["MatrixView"](parts=3).plain
    assert {row.weight for row in names["watched"].rows} >= {"0.weight", "3.weight"}


def residual_page(names: dict[str, Any]) -> None:
    assert names["scores"].step_cosine.shape == (2,)


def fixing_page(names: dict[str, Any]) -> None:
    assert names["comparison"].improved
    assert names["fixed"].steps


def watch_page(names: dict[str, Any]) -> None:
    assert [record.step for record in names["watched"].history] == [0, 10, 20]
    assert names["watched"].stopped == ""


def quick_start(names: dict[str, Any]) -> None:
    assert names["diagnosis"].verdict == "SICK"
    assert {path.name for path in Path().iterdir()} >= {"report.html", "report.json", "profiles.svg", "run.jsonl"}


# What a page promises of the names it leaves behind.
OUTCOMES: dict[str, Callable[[dict[str, Any]], None]] = {
    "README.md": readme,
    "index.md": quick_start,
    "theory.md": theory_page,
    "weights.md": weights_page,
    "gradients.md": gradients_page,
    "residual.md": residual_page,
    "fixing.md": fixing_page,
    "watch.md": watch_page,
}


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({block.page for block in CODE}))
@pytest.mark.filterwarnings("ignore::orthoscope.watcher.hooks.RiskWarning")
def test_the_code_of_a_page_runs_as_it_is_read(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, Any] = {"__name__": "page"}
    for block in CODE:
        if block.page != page or block.not_run is not None:
            continue
        if block.language == "python":
            run_python(block.code, page, names)
        for command in block.commands:
            run_command(command)
    if page in OUTCOMES:
        OUTCOMES[page](names)


def test_what_is_not_run_says_why_and_is_counted() -> None:
    reasons = [(block.page, block.not_run) for block in CODE if block.not_run is not None]
    assert len(reasons) == NOT_RUN, reasons
    assert all(len(reason or "") > 8 for _, reason in reasons)


def test_the_python_that_is_not_run_can_be_read() -> None:
    for block in CODE:
        if block.language == "python":
            compile(block.code, block.page, "exec")


@pytest.mark.parametrize(
    ("page", "command"), [(block.page, command) for block in CODE for command in block.commands], ids=str
)
def test_the_options_of_every_command_exist(page: str, command: list[str]) -> None:
    cli.app.parse_args(command, exit_on_error=False, print_error=False)


def test_a_command_with_an_option_that_does_not_exist_would_be_noticed() -> None:
    with pytest.raises(CycloptsError):
        cli.app.parse_args(["diagnose", "--nonsense"], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$", "", page.read_text(), flags=re.DOTALL)
    for link, anchor in re.findall(r"(?<!\\)\]\(([^)#\s]*)(#[^)\s]*)?\)", text):
        assert link.startswith("https:") or (page.parent / link).exists(), f"{page.name}: {link}"
        assert anchor == "" or link.startswith("https:") or link == "" or link.endswith(".md")


def test_the_site_shows_every_page() -> None:
    """The navigation names each page once, and nothing that is not there; `make docs` builds it strictly."""
    named = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(named) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_reference_pages_are_those_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    pages = importlib.import_module("reference_pages")
    for name, page in pages.PAGES.items():
        text = page()
        assert text == (ROOT / "docs" / name).read_text(), f"{name} is stale: make reference-pages"
    metrics = (ROOT / "docs/metrics.md").read_text()
    assert all(f"\n### {name}\n" in metrics for name in pages.metrics.__all__)
    theorems = (ROOT / "docs/theorems.md").read_text()
    assert theorems.count("; assumes ") == sum(hasattr(getattr(theory, name), "source") for name in theory.__all__)
    errata = (ROOT / "docs/errata.md").read_text()
    assert all(f"`{erratum.key}`" in errata for erratum in all_errata())
