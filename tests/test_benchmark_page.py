"""The benchmark page of the documentation is the one its saved numbers give."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_weights_page_is_drawn_from_the_saved_numbers() -> None:
    specification = importlib.util.spec_from_file_location("weights_page", ROOT / "benchmarks/weights_page.py")
    assert specification is not None
    assert specification.loader is not None
    drawing = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(drawing)
    numbers = json.loads((ROOT / "results/benchmarks/weights.json").read_text())
    assert drawing.page(numbers) == (ROOT / "docs/weights_benchmark.md").read_text()
    assert set(numbers) >= {"commit", "versions", "threads", "processor", "seconds", "maps", "steps", "penalties"}
