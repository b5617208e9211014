"""Imports point one way, `import orthoscope` is light, and every public name is there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import orthoscope

SOURCE = Path(orthoscope.__file__).parent

ROOT = Path(__file__).parents[2]


def rows_of_the_diagram() -> list[set[str]]:
    """The rows of the diagram in docs/architecture.md, from the command line down to the arithmetic."""
    text = (ROOT / "docs/architecture.md").read_text()
    diagram = text.split("## Direction of imports")[1].split("```")[1]
    return [{name.strip() for name in line.split("|")} for line in diagram.strip().splitlines()]


ROWS = [{"__main__", "__init__"}, *rows_of_the_diagram()]
LEVEL = {name: level for level, row in enumerate(ROWS) for name in row}


def part(path: Path) -> str:
    inside = path.relative_to(SOURCE).parts
    return inside[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Parts of orthoscope that a file imports anywhere, also inside functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "orthoscope":
            names = [f"orthoscope.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found |= {name.split(".")[1] for name in names if name.startswith("orthoscope.")}
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.slow
def test_imports_point_down_the_diagram() -> None:
    rooms = {part(path) for path in FILES}
    assert rooms == set(LEVEL), "the diagram shows the rooms that there are"
    wrong = [
        f"{path.relative_to(SOURCE)} imports {other}"
        for path in FILES
        for other in imported(path) - {part(path)}
        if LEVEL[other] <= LEVEL[part(path)]
    ]
    assert not wrong


def test_the_table_would_catch_theory_that_looks_at_a_measurement() -> None:
    assert not LEVEL["metrics"] > LEVEL["theory"]


def files_with(*words: str, besides: tuple[str, ...] = ()) -> list[str]:
    places = ((str(path.relative_to(SOURCE)), path.read_text()) for path in FILES)
    return [f"{name}: {word}" for name, text in places if name not in besides for word in words if word in text]


def test_nothing_is_unpickled_and_nothing_assumes_a_device() -> None:
    # scipy.stats alone takes a second to import.
    forbidden = ("scipy.stats", "import pickle", "torch.load(", ".cuda(", "allow_pickle=True", " eval(", "exec(")
    assert not files_with(*forbidden)


def test_only_sweeps_know_the_processor() -> None:
    words = ("cpuinfo", "mkldnn", "onednn", "set_num_threads", "get_num_threads", "cpu_count")
    found = [place for place in files_with(*words) if not place.startswith("sweep/")]
    assert found == ["diagnosis/document.py: get_num_threads"], "a document records its environment"


def test_only_the_viewer_and_the_papers_draw() -> None:
    drawn = files_with("<svg", "import matplotlib", "from matplotlib")
    # `.plot()` makes a figure for a paper or a notebook, where the page is too much.
    assert {place.partition(":")[0] for place in drawn} == {"report/figures.py"}, "documents are drawn by viewer/"
    papers = SOURCE.parent / "orthoscope_papers"
    words = {line for path in papers.rglob("*.py") for line in path.read_text().splitlines() if "<svg" in line}
    assert not words, "figures are drawn by matplotlib"
    drawing = [path.name for path in papers.rglob("*.py") if "from matplotlib" in path.read_text()]
    assert drawing == ["drawing.py"]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_importing_orthoscope_and_its_command_line_does_not_import_torch() -> None:
    loaded = run("import sys, orthoscope, orthoscope.cli; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert loaded.split() == ["False", "False"]


def test_every_public_name_exists() -> None:
    for name in orthoscope.__all__:
        assert getattr(orthoscope, name) is not None
    assert set(orthoscope.__all__) <= set(dir(orthoscope))
    assert orthoscope.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        orthoscope.nonsense  # noqa: B018
