"""The page of the chains benchmark, drawn from the saved numbers alone."""

from collections import defaultdict

from chains_growth import exponent
from tables import PROMISE_COLUMNS, Numbers, Table, about, grouped, markdown, merged, promise

FIGURE_2, FIGURE_6_1, FIGURE_6_3 = (
    "daneshmand2021, Figures 2a and 2b",
    "joudaki2024, Figure 6.1",
    "joudaki2024, Figure 6.3",
)
# Target for a whole figure: our function, the loop, the figure, and the least ratio of their times.
TARGETS = [
    ("simulate", "loop", FIGURE_2, 8),
    ("simulate", "loop, QR", FIGURE_6_1, 5),
    ("gradients_by_depth", "loop, autograd", FIGURE_6_3, 5),
]
FOUND = {
    FIGURE_2: "20 runs, 500 layers, 4 samples, the gap of every layer. *Found*: mean log V of layers 101 to 500.",
    FIGURE_6_1: "20 runs, 100 layers, the gap of every fourth layer. *Found*: mean log ψ of the last layer.",
    FIGURE_6_3: "10 runs, depths 5, 10, 20, 50, 100, 200, 500 and 1000, normal numbers for images. *Found*: the mean "
    "log-gradient at depth 1000.",
}


def page(numbers: Numbers) -> str:
    processes = 1 + max(row.get("process", 0) for row in numbers["figures"])
    parts = [
        "# Random networks at once, beside loops",
        "Written by `make bench-chains`; do not edit. Float64, candidates in turns of about\n"
        f"20 ms in one process, medians of calls; Figures 6.1 and 6.3 in {processes} processes, one after another,\n"
        "whose ratios are in brackets: the median counts.\n"
        "The loops are `benchmarks/chains_loops.py`: one network after another, one layer after another. Where only\n"
        "some of the runs were timed, as *timed* says, the time is scaled up to all. *Peak* is memory above what was\n"
        "there before the first call; *found* is a mean over the timed runs, ± its standard error, on which all\n"
        "methods must agree.",
        about(numbers),
        "## What is promised, and what was seen",
        "Of whole figures, all of their widths or laws together.",
        markdown(promises(numbers)),
    ]
    for figure, rows in grouped(numbers["figures"], "figure"):
        parts += [f"## {figure}", FOUND[figure], markdown(whole(rows))]
        parts += [f"### {case}\n\n{markdown(costs(found))}" for case, found in grouped(rows, "case")]
    parts += [
        "## How the cost grows",
        "Width 64, 200 layers and 20 networks unless varied; Haar: 20 layers; gradients: width 32. The exponent is\n"
        "the slope of log seconds against log size over all sizes, and over the last two.",
        markdown(growth(numbers["growth"])),
    ]
    return "\n\n".join(parts) + "\n"


def promises(numbers: Numbers) -> Table:
    """Every target with the measured ratio; a target that was missed is marked."""
    by_figure = dict(grouped(numbers["figures"], "figure"))
    return [PROMISE_COLUMNS] + [
        promise(totals(by_figure[figure]), ours, peer, figure, least) for ours, peer, figure, least in TARGETS
    ]


def totals(rows: list[Numbers]) -> list[Numbers]:
    """Milliseconds of every method in every process, all cases together."""
    sums: dict[tuple[str, int], float] = defaultdict(float)
    for row in rows:
        sums[row["method"], row.get("process", 0)] += row["milliseconds"]
    return [
        {"method": method, "process": process, "milliseconds": milliseconds}
        for (method, process), milliseconds in sums.items()
    ]


def whole(rows: list[Numbers]) -> Table:
    found = merged(totals(rows), "method")
    lines = [[row["method"], f"{row['milliseconds'] / 1e3:.3g}", _beside(row, found)] for row in found]
    return [["method", "s, all cases", "times ours"], *lines]


def costs(rows: list[Numbers]) -> Table:
    rows = merged(rows, "method")
    lines = [
        [
            row["method"],
            f"{row['milliseconds']:.3g}",
            _beside(row, rows),
            f"{row['timed']} of {row['runs']}",
            "" if row["peak_mebibytes"] is None else f"{row['peak_mebibytes']:.0f}",
            f"{row['found']:.3f}" + ("" if row["error"] is None else f" ± {row['error']:.3f}"),
        ]
        for row in rows
    ]
    return [["method", "ms", "times ours", "timed", "peak MiB", "found"], *lines]


def _beside(row: Numbers, rows: list[Numbers]) -> str:
    (ours,) = [other for other in rows if other["method"].startswith("orthoscope ")]
    return f"{row['milliseconds'] / ours['milliseconds']:.3g}"


def growth(rows: list[Numbers]) -> Table:
    lines = [["simulation", "varied", "sizes", "ms", "exponent", "of the last two"]]
    for what, same in grouped(rows, "what"):
        for varied, found in grouped(same, "varied"):
            points = [(row["value"], row["milliseconds"]) for row in found]
            sizes, times = ", ".join(str(x) for x, _ in points), ", ".join(f"{y:.3g}" for _, y in points)
            lines.append([what, varied, sizes, times, f"{exponent(points):.2f}", f"{exponent(points[-2:]):.2f}"])
    return lines
