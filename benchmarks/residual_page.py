"""The page of the residual benchmark, drawn from the saved numbers alone: what was promised, and every cost."""

from tables import LIMIT_COLUMNS, Numbers, Table, about, limit, markdown

MOST_ERROR, MOST_MEBIBYTES = 1e-4, 2048


def page(numbers: Numbers) -> str:
    parts = [
        "# Jacobians of residual blocks",
        "Written by `make bench-residual`; do not edit. ResNet-18 of timm with random weights, statistics of a batch\n"
        "of 8 in its batch norms, one image, the 10 largest singular triplets of every block, float32. *Products* is\n"
        "`orthoscope.probe.residual_jacobians`: the forward pass, the search for branches, all products; *dense* is\n"
        "autograd's whole Jacobian of the same block and its SVD. *Peak* is memory above what was there before the\n"
        "call. *Estimate* is the error that the method states, *error* the one seen, both over the largest value.",
        about(numbers),
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        "## All blocks at 64 x 64",
        markdown(blocks(numbers["blocks"])),
        "The error of a dense row is that of the products beside it. Dense Jacobians of larger blocks were left out:\n"
        "that of the first, of 16384 dimensions, takes 1 GiB, and an SVD grows with the third power, so that it would\n"
        "take hundreds of times as long as that of 2048.",
        "## One block at 224 x 224",
        markdown(large(numbers["large"])),
        "## The same block on smaller images, beside a dense SVD in float64",
        markdown(twins(numbers["twins"])),
    ]
    return "\n\n".join(parts) + "\n"


def promises(numbers: Numbers) -> Table:
    error = max(row["error"] for row in numbers["twins"])
    (block,) = numbers["large"]
    found = [limit("products", "twins of one block", "error", MOST_ERROR, error)]
    if block["peak_mebibytes"] is not None:
        where = f"one block of {block['dimensions']} dimensions"
        found.append(limit("products", where, "peak MiB", MOST_MEBIBYTES, block["peak_mebibytes"]))
    return [LIMIT_COLUMNS, *found]


def blocks(rows: list[Numbers]) -> Table:
    header = ["block", "dimensions", "method", "seconds", "peak MiB", "estimate", "error"]
    return [header] + [
        [row["block"], row["size"], row["method"], f"{row['seconds']:.3g}", _peak(row), *_errors(row)] for row in rows
    ]


def large(rows: list[Numbers]) -> Table:
    header = ["dimensions", "seconds", "peak MiB", "estimate"]
    return [header] + [[str(row["dimensions"]), f"{row['seconds']:.3g}", _peak(row), _errors(row)[0]] for row in rows]


def twins(rows: list[Numbers]) -> Table:
    return [["dimensions", "estimate", "error"]] + [[str(row["dimensions"]), *_errors(row)] for row in rows]


def _peak(row: Numbers) -> str:
    return "" if row["peak_mebibytes"] is None else f"{row['peak_mebibytes']:.0f}"


def _errors(row: Numbers) -> list[str]:
    return ["" if row.get(name) is None else f"{row[name]:.1e}" for name in ("estimate", "error")]
