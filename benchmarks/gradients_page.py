"""The page of the gradients benchmark, drawn from the saved numbers alone: what was promised, and every cost."""

from itertools import groupby

from tables import (
    LIMIT_COLUMNS,
    PROMISE_COLUMNS,
    Numbers,
    Table,
    about,
    costs,
    grouped,
    limit,
    markdown,
    merged,
    promise,
)

MIXED, SMALL = "12 of 512x512, 4 of 2048x512, 2 of 1024x1024", "200 of 32x32"
# What is measured to say how fast a step could be.
FLOOR = "no method, two products in float32"
# What is promised: method, peer, where, and how many times faster at least.
STEP_TARGETS = [("Muon", "the quintic loop in float32", MIXED, 1.8)]
POLAR_CASE = ("size", "dtype", "condition", "method")
# The most that the polar factor may be wrong by.
POLAR_LIMITS = {"float32": 1e-6, "float64": 1e-10}
# The spectra whose time and whose range of singular values are shown.
TIMED, RANGED = "Gaussian", "i^-1"
# Where the default must come closer than five steps of Polar Express; on i^-2 nothing but the exact ways is right.
CLOSER_ON = ("Gaussian", "i^-1", "condition 1e3", "half rank")


def page(numbers: Numbers) -> str:
    parts = [
        "# Orthogonalized updates beside the peers",
        "Written by `make bench-gradients`; do not edit. Float32 unless said, candidates in turns of about\n"
        "20 ms in one process, medians of calls; steps and polar factors in five processes, one after another, whose\n"
        "ratios are in brackets: the median counts. *Products* are times of one plain float32 product of the same\n"
        "size in the same process; *peak* is memory above what was there before the first call; *error* is the\n"
        "distance from UVᵀ over the norm of UVᵀ.",
        about(numbers),
        peers(numbers),
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        floor(numbers),
        markdown(limits(numbers)),
        "## One step",
        *[f"{name}\n\n{markdown(costs(rows))}" for name, rows in grouped(numbers["steps"], "matrices")],
        "## Error against time",
        "Errors on five spectra, in the directions in which the matrix is not zero: singular values i^-1 and i^-2\n"
        "fall with their number i, condition 1e3 geometrically, half rank are ones and zeros. Time and products are\n"
        "of the Gaussian matrix, the range is that of the singular values reached from i^-1.",
        *[
            f"### {rows} x {columns}\n\n{markdown(errors(list(found)))}"
            for (rows, columns), found in groupby(numbers["methods"], lambda row: (row["rows"], row["columns"]))
        ],
        "## The exact polar factor",
        "Singular values fall geometrically. Errors are from a result in float64, or in extended precision where that\n"
        "takes less than minutes.",
        markdown(polar(numbers["polar"])),
        "## Training",
        "Cross-entropy on held-out data at the end of equally many steps, mean and 95% interval over seeds, each\n"
        "optimizer at the best of five learning rates, tried from another seed and judged on other data. Differences\n"
        "are paired by seed. `orthoscope reproduce ju2025/optimizer_comparison` trains again.",
        "![Loss along training](../results/ju2025/optimizer_comparison/figure.svg)",
        *[f"{name}\n\n{markdown(training(rows))}" for name, rows in grouped(numbers["training"], "task")],
    ]
    return "\n\n".join(parts) + "\n"


def peers(numbers: Numbers) -> str:
    """What was compared with, and what was not."""
    text = (
        "Peers: `torch.optim.Muon` as shipped, muon-optimizer and pytorch-optimizer, which all multiply in bfloat16,\n"
        "and the same loop in float32. On this processor a product in bfloat16 takes as long as "
        f"{numbers['bfloat16_products']:.3g} in float32;\nwhere that is large the loop in float32 is the fair peer"
    )
    if not _has(numbers, "pytorch-optimizer", MIXED):
        text += ", and on the large matrices only torch's of\nthe three was waited for"
    return text + ". Dion is not on the package index: its code was read, not measured."


def floor(numbers: Numbers) -> str:
    """What a step on the mixed set would have to be, and the least that it can be in float32."""
    steps = [row for row in numbers["steps"] if row["matrices"] == MIXED]
    taken = {row["method"]: row["milliseconds"] for row in merged(steps, "method")}
    _, peer, _, times = STEP_TARGETS[0]
    return (
        f"On the mixed set {times} times as fast as {peer} is {taken[peer] / times:.3g} ms a step.\n"
        "Momentum, one Gram matrix and one product with it, the least that any known method does, take\n"
        f"{taken[FLOOR]:.3g} ms in float32 here: what is left would have to do for the inverse root of every Gram\n"
        "matrix, closer than Polar Express comes in five steps."
    )


def _has(numbers: Numbers, method: str, matrices: str) -> bool:
    return any((row["method"], row["matrices"]) == (method, matrices) for row in numbers["steps"])


def promises(numbers: Numbers) -> Table:
    """Every promise with the ratio seen; one that was missed says so."""
    lines = [PROMISE_COLUMNS]
    for ours, peer, matrices, least in STEP_TARGETS:
        here = [row for row in numbers["steps"] if row["matrices"] == matrices]
        lines.append(promise(here, ours, peer, matrices, least))
    return lines


def limits(numbers: Numbers) -> Table:
    """Every limit with what was seen; those of the default method are the errors of five steps of Polar Express."""
    lines = [LIMIT_COLUMNS]
    errors_of = {
        (row["rows"], row["columns"], row["spectrum"], row["method"]): row["error"] for row in numbers["methods"]
    }
    for (rows, columns, spectrum, method), error in errors_of.items():
        if method == "orthoscope auto" and spectrum in CLOSER_ON:
            most = errors_of[rows, columns, spectrum, "orthoscope polar_express"]
            lines.append(limit("auto", f"{rows} x {columns}, {spectrum}", "error", most, error))
    for row in merged(numbers["polar"], *POLAR_CASE):
        if row["method"] == "orthoscope polar_factor" and row["error"] is not None:
            where = f"{row['size']} x {row['size']}, {row['dtype']}, condition {row['condition']:.0e}"
            lines.append(limit("polar_factor", where, "error", POLAR_LIMITS[row["dtype"]], row["error"]))
    return lines


def errors(rows: list[Numbers]) -> Table:
    spectra = [name for name, _ in grouped(rows, "spectrum")]
    found = {(row["method"], row["spectrum"]): row for row in rows}
    lines = [["method", "ms", "products", *spectra, "range"]]
    for method in dict.fromkeys(row["method"] for row in rows):
        timed, ranged = found[method, TIMED], found[method, RANGED]
        cost = [f"{timed['milliseconds']:.3g}", f"{timed['products']:.3g}"]
        reached = f"{ranged['lowest']:.2f} to {ranged['highest']:.2f}"
        lines.append([method, *cost, *(f"{found[method, name]['error']:.1e}" for name in spectra), reached])
    return lines


def polar(rows: list[Numbers]) -> Table:
    header = ["size", "type", "condition", "method", "ms", "products", "error"]
    return [header] + [
        [
            str(row["size"]),
            row["dtype"],
            f"{row['condition']:.0e}",
            row["method"],
            f"{row['milliseconds']:.3g}",
            f"{row['products']:.3g}",
            "" if row["error"] is None else f"{row['error']:.1e}",
        ]
        for row in merged(rows, *POLAR_CASE)
    ]


def training(rows: list[Numbers]) -> Table:
    header = ["optimizer", "learning rate", "loss", "minus AdamW's", "worst seed", "seeds"]
    return [header] + [
        [
            row["optimizer"],
            f"{row['learning_rate']:g}",
            _interval(row["loss"]),
            "" if row["optimizer"] == "AdamW" else _interval(row["difference"]),
            f"{row['worst']:.4f}",
            str(row["seeds"]),
        ]
        for row in rows
    ]


def _interval(ends: list[float]) -> str:
    low, high = ends
    return f"{(low + high) / 2:.4f} ({low:.4f} to {high:.4f})"
