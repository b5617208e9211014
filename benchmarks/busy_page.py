"""The page of the benchmark on a busy machine, drawn from the saved numbers alone."""

from tables import Numbers, Table, about, markdown


def page(numbers: Numbers) -> str:
    parts = [
        "# Beside a busy neighbor",
        "Written by `make bench-busy`; do not edit. Each pair in turns in one process, medians, once on a quiet\n"
        "machine and once beside another process that multiplies matrices with two threads. A ratio may fall by the\n"
        "peer's own slow-down, not by more.",
        about(numbers),
        markdown(ratios(numbers)),
    ]
    return "\n\n".join(parts) + "\n"


def ratios(numbers: Numbers) -> Table:
    lines = [["ours", "beside", "where", "quiet", "busy", "the peer slows down", "ratio falls"]]
    for row in numbers["pairs"]:
        quiet, busy = (row[state]["theirs"] / row[state]["ours"] for state in ("quiet", "busy"))
        slower, falls = row["busy"]["theirs"] / row["quiet"]["theirs"], quiet / busy
        said = f"{falls:.2f}x" + ("" if falls <= max(1.0, slower) else ", missed")
        lines.append([row["ours"], row["peer"], row["where"], f"{quiet:.3g}x", f"{busy:.3g}x", f"{slower:.2f}x", said])
    return lines
