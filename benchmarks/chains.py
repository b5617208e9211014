"""Benchmark of batched random networks against loops over networks and layers; writes the page and its numbers.

`make bench-chains` takes about seven minutes on an idle machine with two cores.
"""

from dataclasses import asdict

import chains_figures
import chains_growth
from chains_page import page
from processes import in_processes
from record import record
from tables import Numbers

PROCESSES = 5


def figures() -> list[Numbers]:
    return [asdict(row) for row in chains_figures.figure_2()] + in_processes("chains_figures", PROCESSES)


def main() -> None:
    parts = {"figures": figures, "growth": lambda: [asdict(row) for row in chains_growth.table()]}
    record("chains", __doc__, parts, page)


if __name__ == "__main__":
    main()
