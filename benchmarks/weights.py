"""Orthogonal weights beside the peers: maps, optimizer steps, penalties. Writes the page and the numbers behind it.

`make bench-weights` takes about ten minutes on two cores, which should have nothing else to do.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import torch

import weight_maps
import weight_penalties
import weight_steps
from orthoscope.papers.results import environment, write_text

ROOT = Path(__file__).parent.parent
NUMBERS = ROOT / "results/benchmarks/weights.json"
PAGE = ROOT / "docs/weights_benchmark.md"

# What is promised: method, peer, where, and how many times faster at least.
MAP_TARGETS = [
    ("householder", "torch householder", (512, 512), 12),
    ("householder", "torch householder", (1024, 1024), 25),
    ("householder", "torch householder", (2048, 2048), 35),
    ("householder", "torch householder", (2048, 256), 200),
    ("householder", "FastH", (512, 512), 2.5),
    ("householder", "FastH", (1024, 1024), 2.5),
    ("cayley", "torch cayley", (128, 128), 1.5),
    ("cayley", "torch cayley", (512, 512), 1.5),
    ("cayley", "torch cayley", (1024, 1024), 1.5),
    ("cayley", "torch cayley", (2048, 2048), 1.5),
    ("cayley", "torch cayley", (2048, 256), 30),
    ("exponential", "torch matrix_exp", (512, 512), 8),
    ("exponential", "torch matrix_exp", (1024, 1024), 8),
    ("exponential", "torch matrix_exp", (2048, 2048), 8),
    ("exponential", "torch matrix_exp", (2048, 256), 150),
    ("givens", "Givens, one at a time", (128, 128), 150),
]
STEP_TARGETS = [
    ("RiemannianSGD", "POGO SGD", 1.7),
    ("RiemannianSGD", "geoopt SGD, Euclidean", 2.3),
    ("RiemannianAdam", "POGO VectorAdam", 1.2),
    ("RiemannianAdam", "geoopt Adam, Euclidean", 1.6),
]
Table = list[list[str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--page-only", action="store_true", help="draw the page again from the saved numbers")
    if not arguments.parse_args().page_only:
        write_text(NUMBERS, json.dumps(measured(), indent=1) + "\n")
    write_text(PAGE, page(json.loads(NUMBERS.read_text())))
    print(PAGE.read_text())


def measured() -> dict[str, object]:
    torch.set_num_threads(2)
    start = time.perf_counter()
    found = {
        "maps": [asdict(row) for row in weight_maps.table()],
        "steps": [asdict(row) for row in weight_steps.table()],
        "penalties": [asdict(row) for row in weight_penalties.table()],
    }
    about = {**environment(), "threads": torch.get_num_threads(), "seconds": round(time.perf_counter() - start, 1)}
    return {"about": about, **found}


def page(numbers: dict) -> str:
    about = ", ".join(f"{name} {value}" for name, value in numbers["about"].items())
    parts = [
        "# Orthogonal weights beside the peers",
        "Written by `make bench-weights`; do not edit. Float32, candidates in turns in one process, medians. *Products* are "
        "times of one plain product of the same size in the same process; *peak* is memory above what was there, which "
        "includes some of the libraries' own buffers; *error* is max |WᵀW − I|.",
        f"{about}.",
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        "## Producing a weight, forward and backward",
        *[section(*shape, list(rows)) for shape, rows in groupby(numbers["maps"], lambda r: (r["rows"], r["columns"]))],
        "## One step on the Stiefel manifold",
        *[f"{name}\n\n{markdown(costs(rows))}" for name, rows in grouped(numbers["steps"], "matrices")],
        "## Penalties, value and gradient",
        *[f"{name}\n\n{markdown(costs(rows))}" for name, rows in grouped(numbers["penalties"], "kernel")],
    ]
    return "\n\n".join(parts) + "\n"


def grouped(rows: Sequence[dict], field: str) -> list[tuple[str, list[dict]]]:
    return [(name, list(found)) for name, found in groupby(rows, lambda row: row[field])]


def section(rows: int, columns: int, found: list[dict]) -> str:
    return f"### {rows} x {columns}\n\n{markdown(costs(found))}"


def costs(rows: list[dict]) -> Table:
    header = ["method", "ms", "products", "peak MiB", "error"]
    return [header] + [
        [
            row["method"],
            f"{row['milliseconds']:.3g}",
            f"{row['products']:.3g}",
            "" if row["peak_mebibytes"] is None else f"{row['peak_mebibytes']:.0f}",
            "" if row["error"] is None else f"{row['error']:.1e}",
        ]
        for row in rows
    ]


def promises(numbers: dict) -> Table:
    lines = [["ours", "beside", "where", "promised", "seen"]]
    for name, peer, (rows, columns), least in MAP_TARGETS:
        here = [row for row in numbers["maps"] if (row["rows"], row["columns"]) == (rows, columns)]
        seen = ratio(here, f"orthoscope {name}", peer)
        lines.append([name, peer, f"{rows} x {columns}", f"{least}x", f"{seen:.3g}x"])
    for name, peer, least in STEP_TARGETS:
        first = numbers["steps"][0]["matrices"]
        here = [row for row in numbers["steps"] if row["matrices"] == first]
        lines.append([name, peer, first, f"{least}x", f"{ratio(here, f'orthoscope {name}', peer):.3g}x"])
    for name, peer, kernel, least in weight_penalties.TARGETS:
        here = [row for row in numbers["penalties"] if row["kernel"] == kernel]
        lines.append([name, peer, kernel, f"{least}x", f"{ratio(here, f'orthoscope {name}', peer):.3g}x"])
    return lines


def ratio(rows: list[dict], ours: str, peer: str) -> float:
    by_name = {row["method"]: row["milliseconds"] for row in rows}
    return by_name[peer] / by_name[ours]


def markdown(table: Table) -> str:
    header, *lines = table
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *lines))


if __name__ == "__main__":
    main()
