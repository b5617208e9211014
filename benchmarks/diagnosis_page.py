"""The page of the diagnosis benchmark, drawn from the saved numbers alone: what was promised, and every cost."""

from tables import LIMIT_COLUMNS, Numbers, Table, about, limit, markdown

# At most so many times a plain forward and backward pass.
LIMITS = {
    "ResNet-18, 3 x 64 x 64, batch 16": 1.8,
    "ResNet-50, 3 x 224 x 224, batch 16": 1.5,
    "GPT-2 124M, 8 x 128 tokens": 1.15,
    "MLP 50 x 100, batch 100": 9.0,
}
NETWORKS = tuple(LIMITS)
GROWTH = "MLP {} x {}, batch {}"


def page(numbers: Numbers) -> str:
    parts = [
        "# What a diagnosis costs",
        "Written by `make benchmark`; do not edit. A *plain* pass is forward and backward through the network.\n"
        "Medians of alternating turns in one process. A diagnosis is one such pass with hooks that reduce outputs to\n"
        "small matrices, and a few batched factorizations after it; a page's details are computed when written.",
        about(numbers),
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        "## Growth with depth, width and batch",
        "The extra cost grows linearly with the number of modules and with width; of a batch, at most 64 samples are\n"
        "compared.",
        markdown(costs(numbers["growth"])),
    ]
    return "\n\n".join(parts) + "\n"


def ratio(row: Numbers) -> float:
    return row["diagnose"] / row["plain"]


def promises(numbers: Numbers) -> Table:
    return [LIMIT_COLUMNS] + [
        limit("diagnose", row["network"], "plain passes", LIMITS[row["network"]], ratio(row))
        for row in numbers["networks"]
    ]


def costs(rows: list[Numbers]) -> Table:
    return [["network", "plain ms", "diagnose ms", "ratio"]] + [
        [row["network"], f"{1e3 * row['plain']:.3g}", f"{1e3 * row['diagnose']:.3g}", f"{ratio(row):.2f}"]
        for row in rows
    ]
