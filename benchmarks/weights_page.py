"""The page of the weights benchmark, drawn from the saved numbers alone: what was promised, and every cost."""

from itertools import groupby

from tables import (
    LIMIT_COLUMNS,
    PROMISE_COLUMNS,
    Numbers,
    Table,
    about,
    costs,
    grouped,
    largest,
    limit,
    markdown,
    promise,
)

# What is promised: method, peer, where, and how many times faster at least.
MAP_TARGETS = [
    ("householder", "torch householder", (512, 512), 10),
    ("householder", "torch householder", (2048, 256), 100),
    ("cayley", "torch cayley", (512, 512), 1.3),
    ("cayley", "torch cayley", (2048, 256), 15),
    ("exponential", "torch matrix_exp", (512, 512), 5),
]
STEP_TARGETS = [("RiemannianSGD", "geoopt SGD, Euclidean", 1.7)]
PENALTY_TARGETS = [
    ("DSO", "published DSO", "512x512x3x3", 20),
    ("SRIP", "published SRIP", "512x512x3x3", 100),
]
# What is promised of our own numbers: table, method, where, column, and the most it may be.
LIMITS = [
    ("maps", "givens", "1024 x 1024", "products", 30),
    ("maps", "exponential", "512 x 512", "error", 3e-6),
    ("maps", "exponential", "1024 x 1024", "error", 3e-6),
    ("maps", "exponential", "2048 x 2048", "error", 3e-6),
    *(("maps", name, "1024 x 1024", "error", 1e-5) for name in ("householder", "cayley", "givens")),
    *(
        ("steps", name, "12 of 512x512, 4 of 2048x512, 2 of 1024x1024", "error", 1e-6)
        for name in ("RiemannianSGD", "RiemannianSGD, momentum", "RiemannianAdam", "Landing")
    ),
    *(("penalties", name, "512x512x3x3", "error", 1e-6) for name in ("DSO", "SRIP")),
]

# The lengths are tested in tests/optim/test_short_step.py.
STEP_LENGTHS = (
    "Entries of the gradients have variance 1 and the learning rate is 1e-4. What `RiemannianSGD` without momentum\n"
    "costs depends on the length of a step: a short one, as here, takes three products; a longer one is retracted,\n"
    "which takes four and, if it is very long, some more, as with momentum. For these gradients steps are short up to\n"
    "a learning rate of 1e-3 at 512 x 512, 7e-4 at 1024 x 1024 and 4e-4 at 2048 x 512. geoopt factorizes, which costs\n"
    "the same at any length, so that longer steps have smaller ratios than these."
)


def page(numbers: Numbers) -> str:
    parts = [
        "# Orthogonal weights beside the peers",
        "Written by `make bench-weights`; do not edit. Float32, candidates in turns of about\n"
        "20 ms in one process, medians of calls; steps in five processes, one after another, whose ratios are in\n"
        "brackets: the median counts.\n"
        "*Products* are times of one plain product of the same size in the same process; *peak* is memory above what\n"
        "was there before the first call, which includes some of the libraries' own buffers; *error* is max |WᵀW − I|\n"
        "or, of penalties, the relative error of value and gradient.",
        about(numbers),
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        markdown(limits(numbers)),
        "## Producing a weight, forward and backward",
        *[section(*shape, list(rows)) for shape, rows in groupby(numbers["maps"], lambda r: (r["rows"], r["columns"]))],
        "## One step on the Stiefel manifold",
        STEP_LENGTHS,
        *[f"{name}\n\n{markdown(costs(rows))}" for name, rows in grouped(numbers["steps"], "matrices")],
        "## Penalties, value and gradient",
        *[f"{name}\n\n{markdown(costs(rows))}" for name, rows in grouped(numbers["penalties"], "kernel")],
    ]
    return "\n\n".join(parts) + "\n"


def section(rows: int, columns: int, found: list[Numbers]) -> str:
    return f"### {rows} x {columns}\n\n{markdown(costs(found))}"


def promises(numbers: Numbers) -> Table:
    """Every promise with the ratio seen; one that was missed says so."""
    lines = [PROMISE_COLUMNS]
    for ours, peer, (rows, columns), least in MAP_TARGETS:
        here = [row for row in numbers["maps"] if (row["rows"], row["columns"]) == (rows, columns)]
        lines.append(promise(here, ours, peer, f"{rows} x {columns}", least))
    for ours, peer, least in STEP_TARGETS:
        first = numbers["steps"][0]["matrices"]
        lines.append(promise([row for row in numbers["steps"] if row["matrices"] == first], ours, peer, first, least))
    for ours, peer, kernel, least in PENALTY_TARGETS:
        here = [row for row in numbers["penalties"] if row["kernel"] == kernel]
        lines.append(promise(here, ours, peer, kernel, least))
    return lines


def limits(numbers: Numbers) -> Table:
    """Every limit with the largest that was seen; one that was missed says so."""
    lines = [LIMIT_COLUMNS]
    for table, ours, where, column, most in LIMITS:
        found = [r[column] for r in numbers[table] if r["method"] == f"orthoscope {ours}" and _where(r) == where]
        lines.append(limit(ours, where, column, most, largest(found)))
    return lines


def _where(row: Numbers) -> str:
    return f"{row['rows']} x {row['columns']}" if "rows" in row else row.get("matrices") or row["kernel"]
