"""The benchmark pages of the documentation are those that their saved numbers give."""

import importlib
import json
from pathlib import Path

import pytest

from orthoscope.papers.ju2025.optimizer_comparison import Row, summary
from orthoscope.papers.results import read_table

ROOT = Path(__file__).parent.parent
ABOUT = {"commit", "versions", "threads", "processor", "seconds"}
PAGES = {
    "weights": {"maps", "steps", "penalties"},
    "gradients": {"bfloat16_products", "steps", "methods", "polar", "training"},
    "chains": {"figures", "growth"},
    "residual": {"blocks", "large", "twins"},
    "watch": {"idle", "looks", "every"},
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
    assert numbers["training"] == json.loads(json.dumps(saved))


def test_a_promise_that_was_missed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables")
    rows = [{"method": "orthoscope it", "milliseconds": 2.0}, {"method": "peer", "milliseconds": 5.0}]
    assert tables.promise(rows, "it", "peer", "here", 2.5) == ["it", "peer", "here", "2.5x", "2.5x"]
    assert tables.promise(rows, "it", "peer", "here", 2.6)[-1] == "2.5x, missed"
    assert tables.limit("it", "here", "error", 1e-6, 1e-6)[-2:] == ["1e-06", "1e-06"]
    assert tables.limit("it", "here", "error", 1e-6, 2e-6)[-1] == "2e-06, missed"
