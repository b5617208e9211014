"""The benchmark pages of the documentation are those that their saved numbers give."""

import importlib
import json
import math
import os
from pathlib import Path

import pytest

from orthoscope_papers.ju2025.optimizer_comparison import Row, summary
from orthoscope_papers.results import read_table

ROOT = Path(__file__).parent.parent
ABOUT = {"commit", "versions", "threads", "processor", "seconds"}
PAGES = {
    "weights": {"maps", "steps", "penalties"},
    "gradients": {"bfloat16_products", "steps", "methods", "polar", "training"},
    "chains": {"figures", "growth"},
    "residual": {"blocks", "large", "twins"},
    "watch": {"idle", "looks", "every"},
    "diagnosis": {"networks", "growth"},
    "busy": {"pairs"},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_from_the_saved_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    drawing = importlib.import_module(f"{name}_page")
    saved = ROOT / f"results/benchmarks/{name}.json"
    numbers = json.loads(saved.read_text())
    assert drawing.page(numbers) == (ROOT / f"docs/{name}_benchmark.md").read_text()
    assert set(numbers) >= ABOUT | PAGES[name]


def test_the_gradients_page_shows_the_saved_training_comparison() -> None:
    numbers = json.loads((ROOT / "results/benchmarks/gradients.json").read_text())
    saved = summary(read_table(ROOT / "results/ju2025/optimizer_comparison", Row))
    assert len(numbers["training"]) == len(saved)
    for shown, row in zip(numbers["training"], json.loads(json.dumps(saved)), strict=True):
        assert shown.keys() == row.keys()
        for name, value in row.items():
            # The last digit of an interval depends on the order of a sum.
            assert shown[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9, nan_ok=True)), (
                name
            )


def test_a_promise_that_was_missed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    rows = [{"method": "orthoscope it", "milliseconds": 2.0}, {"method": "peer", "milliseconds": 5.0}]
    assert tables.promise(rows, "it", "peer", "here", 2.5) == ["it", "peer", "here", "2.5x", "2.5x"]
    assert tables.promise(rows, "it", "peer", "here", 2.6)[-1] == "2.5x, missed"
    again = [{**row, "milliseconds": row["milliseconds"] * by} for row, by in zip(rows, (1.0, 1.2), strict=True)]
    slow = [{**row, "milliseconds": row["milliseconds"] * by} for row, by in zip(rows, (1.0, 0.8), strict=True)]
    both = [{**row, "process": place} for place, found in enumerate([again, rows, slow]) for row in found]
    assert tables.promise(both, "it", "peer", "here", 2.5)[-1] == "2.5x (2, 2.5, 3)", "the median counts"
    assert tables.promise(both, "it", "peer", "here", 2.6)[-1] == "2.5x, missed (2, 2.5, 3)"
    assert tables.limit("it", "here", "error", 1e-6, 1e-6)[-2:] == ["1e-06", "1e-06"]
    assert tables.limit("it", "here", "error", 1e-6, 2e-6)[-1] == "2e-06, missed"


def test_processes_are_merged_by_medians_and_the_largest_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    seen = [(3.0, 30.0, 1e-7), (1.0, 10.0, 3e-7), (2.0, 20.0, None)]
    rows = [
        {"method": "it", "milliseconds": time, "products": products, "error": error, "process": place}
        for place, (time, products, error) in enumerate(seen)
    ]
    (row,) = tables.merged(rows, "method")
    assert (row["milliseconds"], row["products"], row["error"]) == (2.0, 20.0, 3e-7)
    rows[1]["error"] = float("nan")
    assert math.isnan(tables.merged(rows, "method")[0]["error"]), "one that diverged is not hidden by the others"
    assert len(tables.merged(rows, "method", "process")) == 3


@pytest.mark.slow
def test_a_table_is_measured_in_processes_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    processes = importlib.import_module("processes")
    (tmp_path / "some_table.py").write_text(
        "import dataclasses, os\n\n\n@dataclasses.dataclass\nclass Row:\n    pid: int\n    told: str = ''\n\n\n"
        "def table():\n    return [Row(os.getpid())]\n\n\n"
        "def other():\n    return [Row(os.getpid(), os.environ['SOMETHING'])]\n"
    )
    monkeypatch.setattr(processes, "__file__", str(tmp_path / "processes.py"))
    rows = processes.in_processes("some_table", 2)
    assert [row["process"] for row in rows] == [0, 1]
    assert rows[0]["pid"] != rows[1]["pid"]
    (row,) = processes.in_processes("some_table", 1, table="other", environment={"SOMETHING": "else"})
    assert row["told"] == "else"
    assert "SOMETHING" not in os.environ
