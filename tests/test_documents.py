"""What the documents show is what happens: every block of code runs, every link leads somewhere, every page is current.

A block that needs minutes, a cluster or the reader's own code is marked `<!-- not run: reason -->`; these are counted,
and their commands are still held to the options that exist.
"""

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from orthoscope import cli, theory
from orthoscope.findings import Symptom, Verdict
from orthoscope.report.document.quantities import QUANTITIES
from orthoscope_papers.errata import all_errata

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
page_code = importlib.import_module("page_code")
api_pages = importlib.import_module("api_pages")
reference_pages = importlib.import_module("reference_pages")
PAGES: list[Path] = page_code.PAGES
NOT_RUN = 12


BLOCKS = {page: page_code.blocks(page) for page in PAGES}
CODE = [block for page in PAGES for block in BLOCKS[page] if block.language in ("python", "sh", "console")]


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


def tutorial(names: dict[str, Any]) -> None:
    assert names["diagnosis"].verdict == "SICK"
    assert names["fixed"].after.verdict == "HEALTHY"
    assert {path.name for path in Path().iterdir()} >= {"report.html", "before.json", "layers.csv", "profiles.svg"}


def ci_page(names: dict[str, Any]) -> None:
    assert "SICK" in Path("comment.md").read_text()


# What a page promises of the names it leaves behind.
OUTCOMES: dict[str, Callable[[dict[str, Any]], None]] = {
    "README.md": readme,
    "tutorial.md": tutorial,
    "ci.md": ci_page,
    "theory.md": theory_page,
    "orthogonal_layers.md": weights_page,
    "muon.md": gradients_page,
    "residual.md": residual_page,
    "fix.md": fixing_page,
    "watch.md": watch_page,
}


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=lambda page: page.name)
@pytest.mark.filterwarnings("ignore::orthoscope.watcher.hooks.RiskWarning")
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, Any] = {"__name__": "page"}
    for block, printed in page_code.run(page, names):
        if block.output is not None:
            assert page_code.same(block.output, printed), (
                f"make page-outputs: {page.name} shows another output\n{printed}"
            )
    if page.name in OUTCOMES:
        OUTCOMES[page.name](names)


def test_an_output_with_other_words_or_numbers_would_be_noticed() -> None:
    shown = "VERDICT  SICK  by ×20,000 at layer 9, 1.5e-3 in 2.9 s"
    assert page_code.same(shown, "VERDICT SICK by ×20,100 at layer 9, 1.6e-3 in 17 s")
    assert not page_code.same(shown, shown.replace("SICK", "HEALTHY"))
    assert not page_code.same(shown, shown.replace("20,000", "30,000"))
    assert not page_code.same(shown, shown.replace("9,", "15,"))


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
def test_the_options_of_every_command_exist(page: str, command: Any) -> None:
    cli.app.parse_args(command.arguments, exit_on_error=False, print_error=False)


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
    """The navigation names each page once, and nothing that is not there."""
    named = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(named) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_the_reference_pages_are_those_of_the_source() -> None:
    for name, page in reference_pages.PAGES.items():
        assert page() == (ROOT / "docs" / name).read_text(), f"{name} is stale: make reference-pages"
    metrics = (ROOT / "docs/metrics.md").read_text()
    assert all(f"\n### {name}\n" in metrics for name in reference_pages.metrics.__all__)
    theorems = (ROOT / "docs/theorems.md").read_text()
    assert theorems.count("; assumes ") == sum(hasattr(getattr(theory, name), "source") for name in theory.__all__)
    errata = (ROOT / "docs/errata.md").read_text()
    assert all(f"`{erratum.key}`" in errata for erratum in all_errata())


def test_the_glossary_has_every_quantity_and_every_verdict_at_a_stable_anchor() -> None:
    headings = re.findall(r"^### (.+)$", (ROOT / "docs/glossary.md").read_text(), flags=re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert len(set(anchors)) == len(anchors)
    assert {quantity.anchor for quantity in QUANTITIES} <= set(anchors)
    words = {*Verdict, *Symptom} - {Symptom.DEGENERATE_INPUT}
    assert {str(word).lower().replace(" ", "-") for word in words} <= set(anchors)
    keys = {(quantity.group, quantity.key) for quantity in QUANTITIES}
    assert set(reference_pages.FORMULAS) <= keys, "a formula of a quantity that is not shown"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link, anchor or reference ends the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("package", api_pages.packages())
def test_every_public_name_has_an_entry_in_the_api_reference(package: str, site: Path) -> None:
    page = (site / f"api/{package}.html").read_text()
    names = api_pages.public_names(package)
    assert names
    assert [name for name in names if f'id="{package}.{name}"' not in page] == []


@pytest.mark.slow
def test_every_verb_of_the_command_line_has_an_entry(site: Path) -> None:
    page = (site / api_pages.COMMAND_LINE).with_suffix(".html").read_text()
    verbs = [name for name in cli.app if not name.startswith("-")]
    assert len(verbs) >= 10
    assert [verb for verb in verbs if f'id="orthoscope-{verb}"' not in page] == []


@pytest.mark.slow
def test_the_site_asks_no_other_host_for_anything_and_draws_its_formulas(site: Path) -> None:
    for file in site.rglob("*.html"):
        text = file.read_text()
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\s\">]+)", text)
        assert loaded == [], file.name
        assert "arithmatex" not in text, f"{file.name}: a formula was left as TeX"
    assert "<math" in (site / "glossary.html").read_text()
