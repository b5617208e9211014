"""Orthogonal weights beside the peers: maps, optimizer steps, penalties. Writes the page and the numbers behind it.

`make bench-weights` takes about ten minutes on two cores, which should have nothing else to do.
"""

import argparse
import json
import platform
import re
import time
from dataclasses import asdict
from pathlib import Path

import torch

import weight_maps
import weight_penalties
import weight_steps
from orthoscope.papers.results import provenance
from orthoscope.report.documents import replace
from weights_page import page

ROOT = Path(__file__).parent.parent
NUMBERS = ROOT / "results/benchmarks/weights.json"
PAGE = ROOT / "docs/weights_benchmark.md"
CPU_INFO = Path("/proc/cpuinfo")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--page-only", action="store_true", help="draw the page again from the saved numbers")
    if not arguments.parse_args().page_only:
        NUMBERS.parent.mkdir(parents=True, exist_ok=True)
        replace(NUMBERS, json.dumps(measured(), indent=1) + "\n")
    replace(PAGE, page(json.loads(NUMBERS.read_text())))
    print(PAGE.read_text())


def measured() -> dict[str, object]:
    torch.set_num_threads(2)
    start = time.perf_counter()
    found = {}
    for name, table in (("penalties", weight_penalties), ("steps", weight_steps), ("maps", weight_maps)):
        found[name] = [asdict(row) for row in table.table()]
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return {**provenance(), "processor": processor(), "seconds": round(time.perf_counter() - start, 1), **found}


def processor() -> str:
    """Its name, if the system tells: ratios differ between makes."""
    names = re.findall(r"model name\s*:\s*(.*)", CPU_INFO.read_text()) if CPU_INFO.is_file() else []
    return names[0] if names else platform.processor() or "unknown"


if __name__ == "__main__":
    main()
