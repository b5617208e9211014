"""What makes a finished run stale, and what does not."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from orthoscope_papers import code_version as versions
from orthoscope_papers.code_version import code_version

MODULE = '''"""A docstring."""
from orthoscope_papers.drawing import figure
from orthoscope.linalg.rule import rule
from orthoscope.report.shade import shade
from orthoscope_papers.experiments import Figure
LIMIT = 3
LEVEL = 4
class Config: ...
class Row: ...
def run(config):
    """Says what it does."""
    return [step(config)]
def step(config):
    return rule(LIMIT)  # why
def check(rows):
    return LEVEL
def plot(rows):
    return figure(rows)
figure_1 = Figure(claim="It is so.", quick=Config())
'''
RULE = "def rule(limit):\n    return limit\n"


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The version of a small experiment after its text, or that of what it imports, was changed."""
    monkeypatch.setattr(versions, "_SOURCE", tmp_path)

    def of(old: str = "", new: str = "", rule: str = RULE, drawing: str = "figure = str\n") -> str:
        assert old in MODULE
        files = {
            "orthoscope_papers/some/figure_1": MODULE.replace(old, new) if old else MODULE,
            "orthoscope_papers/drawing": drawing,
            "orthoscope_papers/experiments": "Figure = dict\n",
            "orthoscope_papers/__init__": "",
            "orthoscope/linalg/rule": rule,
            "orthoscope/linalg/__init__": "",
            "orthoscope/report/shade": "shade = 1\n",
        }
        for name, text in files.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        versions._imported_by.cache_clear()
        versions._hash.cache_clear()
        return code_version("some/figure_1")

    return of


def test_what_run_reaches_counts_also_in_other_modules(version: Callable[..., str]) -> None:
    same = version()
    assert version() == same
    assert version("LIMIT = 3", "LIMIT = 5") != same
    assert version("return rule(LIMIT)", "return rule(LIMIT) + 1") != same
    assert version("class Row: ...", "class Row:\n    size: int") != same
    assert version(rule=RULE + "\nSIZE = 2\n") != same


def test_comments_docstrings_checks_and_drawing_do_not_count(version: Callable[..., str]) -> None:
    same = version()
    assert version("  # why", "  # because") == same
    assert version("Says what it does.", "Does it.") == same
    assert version('"""A docstring."""', '"""Another."""') == same
    assert version("return LEVEL", "return LEVEL + 1") == same
    assert version("LEVEL = 4", "LEVEL = 5") == same
    assert version("It is so.", "It is not so.") == same
    assert version("return figure(rows)", "return figure(rows[1:])") == same
    assert version(drawing="figure = repr\n") == same


def test_the_version_of_a_real_experiment_follows_its_imports_down_to_the_arithmetic() -> None:
    module = "orthoscope_papers.lu2024.low_rank_update"
    tree = ast.parse(versions._file(module).read_text())
    reached = versions._closure(versions._imports(tree, module))
    parts = ("models", "training", "metrics.weights", "linalg", "data", "theory")
    assert {f"orthoscope.{part}" for part in parts} <= reached
    assert not any(name.startswith(("orthoscope.report", "orthoscope_papers.drawing")) for name in reached)
    assert code_version("lu2024/low_rank_update") != code_version("lu2024/optimizer_updates")
