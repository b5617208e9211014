"""The page of the watch benchmark, drawn from the saved numbers alone: what was promised, and every cost."""

from tables import LIMIT_COLUMNS, Numbers, Table, about, limit, markdown

MOST_PERCENT = 1.0


def page(numbers: Numbers) -> str:
    parts = [
        "# Watching a training",
        "Written by `make bench-watch`; do not edit. One thread; seconds of the processor, medians of steps in turns.\n"
        "A *plain* step is forward, backward and SGD with momentum; one that is *looked at* has the diagnosis of\n"
        "`orthoscope.watch` in it and its line in the log; *updates* is a plain step with `updates=True` alone. The\n"
        f"share is what looking once in {numbers['every']} steps adds to a training, with\n"
        f"{numbers['idle'] * 1e6:.0f} microseconds for every step at which nothing is looked at. *Spread* is the\n"
        "longest plain step over the shortest: the noise.",
        about(numbers),
        "## What is promised, and what was seen",
        markdown(promises(numbers)),
        "## Costs",
        markdown(costs(numbers)),
        "Updates take a singular value decomposition of every matrix, so they are not recorded unless asked for.",
    ]
    return "\n\n".join(parts) + "\n"


def share(numbers: Numbers, row: Numbers, column: str = "looked_at") -> float:
    """Percent that is added to a training."""
    extra = (row[column] - row["plain"]) / numbers["every"] + numbers["idle"]
    return 100 * extra / row["plain"]


def promises(numbers: Numbers) -> Table:
    rows = [row for row in numbers["looks"] if row["network"].startswith("ResNet-18")]
    where = f"every {numbers['every']} steps"
    return [LIMIT_COLUMNS] + [
        limit("watch", f"{row['network']}, {where}", "percent", MOST_PERCENT, share(numbers, row)) for row in rows
    ]


def costs(numbers: Numbers) -> Table:
    header = [
        "network",
        "plain s",
        "spread",
        "looked at s",
        "share %",
        "updates s",
        "with updates, share %",
        "kB a line",
    ]
    return [header] + [
        [
            row["network"],
            f"{row['plain']:.3g}",
            f"{row['plain_spread']:.2f}",
            f"{row['looked_at']:.3g}",
            f"{share(numbers, row):.2f}",
            f"{row['updates']:.3g}",
            f"{share(numbers, row) + share(numbers, row, 'updates'):.2f}",
            f"{row['kilobytes']:.0f}",
        ]
        for row in numbers["looks"]
    ]
