"""Imports point one way, `import orthoscope` is light, and every public name is there."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import orthoscope

SOURCE = Path(orthoscope.__file__).parent

# From the verbs down to the arithmetic; names in one row are strangers. docs/architecture.md says why.
ROWS = [
    {"__main__", "__init__"},
    {"cli"},
    {"papers"},
    {"sweep", "live"},
    {"prescriptions", "callbacks"},
    {"diagnosis"},
    {"report", "training"},
    {"models"},
    {"init", "optim", "shaping"},
    {"data", "layers", "probe", "chains"},
    {"manifolds", "metrics", "theory"},
    {"linalg", "findings", "version"},
]
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_the_table(path: Path) -> None:
    here = part(path)
    assert here in LEVEL, f"{here} has no place in the table"
    for other in imported(path) - {here}:
        assert LEVEL[other] > LEVEL[here], f"{here} may not import {other}"


def test_the_table_would_catch_theory_that_looks_at_a_measurement() -> None:
    assert not LEVEL["metrics"] > LEVEL["theory"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_unpickled_and_nothing_assumes_a_device(path: Path) -> None:
    text = path.read_text()
    # scipy.stats alone takes a second to import.
    for forbidden in ("scipy.stats", "import pickle", "torch.load(", ".cuda(", "allow_pickle=True", " eval(", "exec("):
        assert forbidden not in text, forbidden


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


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
