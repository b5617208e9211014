"""A benchmark as a command: measure, save the numbers with what they depend on, draw the page from what was saved."""

import argparse
import json
import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from orthoscope.files import replace
from orthoscope_papers.results import provenance
from tables import Numbers

ROOT = Path(__file__).parent.parent
CPU_INFO = Path("/proc/cpuinfo")


def record(
    name: str, description: str | None, parts: Mapping[str, Callable[[], Any]], page: Callable[[Numbers], str]
) -> None:
    """Write `results/benchmarks/<name>.json` and `docs/<name>_benchmark.md`, each whole or not at all."""
    numbers, document = ROOT / f"results/benchmarks/{name}.json", ROOT / f"docs/{name}_benchmark.md"
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--page-only", action="store_true", help="draw the page again from the saved numbers")
    if not arguments.parse_args().page_only:
        numbers.parent.mkdir(parents=True, exist_ok=True)
        replace(numbers, json.dumps(measured(parts), indent=1) + "\n")
    replace(document, page(json.loads(numbers.read_text())))
    print(document.read_text())


def measured(parts: Mapping[str, Callable[[], Any]]) -> Numbers:
    torch.set_num_threads(2)
    start = time.perf_counter()
    found = {}
    for name, part in parts.items():
        found[name] = part()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return {**provenance(), "processor": processor(), "seconds": round(time.perf_counter() - start, 1), **found}


def processor() -> str:
    """Its name, if the system tells: ratios differ between makes."""
    names = re.findall(r"model name\s*:\s*(.*)", CPU_INFO.read_text()) if CPU_INFO.is_file() else []
    return names[0] if names else platform.processor() or "unknown"
