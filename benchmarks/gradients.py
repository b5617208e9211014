"""Orthogonalized updates beside the peers: steps, methods, the exact polar factor. Writes the page and the numbers.

`make bench-gradients` takes fifteen minutes on two cores, which should have nothing else to do, after the training
comparison, which takes about ten and whose saved table the page shows too.
"""

import os

# Before torch loads: without it products in bfloat16 die with an illegal instruction on some processors.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from dataclasses import asdict
from pathlib import Path

import gradient_methods
import gradient_steps
from gradients_page import page
from orthoscope_papers.ju2025 import optimizer_comparison
from orthoscope_papers.results import read_table
from processes import in_processes
from record import ROOT, record

PROCESSES = 5
COMPARISON: Path = ROOT / "results/ju2025/optimizer_comparison"


def main() -> None:
    parts = {
        "bfloat16_products": gradient_steps.bfloat16_products,
        "polar": lambda: in_processes("gradient_polar", PROCESSES),
        "methods": lambda: [asdict(row) for row in gradient_methods.table()],
        "steps": lambda: in_processes("gradient_steps", PROCESSES),
        "training": lambda: optimizer_comparison.summary(read_table(COMPARISON, optimizer_comparison.Row)),
    }
    record("gradients", __doc__, parts, page)


if __name__ == "__main__":
    main()
