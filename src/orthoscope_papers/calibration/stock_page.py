"""docs/stock_architectures.md, from the table of results: stock architectures and their verdicts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orthoscope.findings import Verdict
from orthoscope_papers.calibration.stock import Row, by_check, share
from orthoscope_papers.calibration.stock_list import MOST_PARAMETERS, SIZES, Architecture, covered, listed
from orthoscope_papers.calibration.stock_trainings import BATCH, RATES, SAMPLES, STEPS
from orthoscope_papers.evidence import wilson
from orthoscope_papers.results import read_table

_VERDICTS = (Verdict.SICK, Verdict.AT_RISK, Verdict.HEALTHY)


def page(results: Path) -> str:
    """Return the page, from the committed table and the list of the package."""
    rows = read_table(results / "calibration" / "stock", Row)
    return "\n".join(
        [
            *_beginning(rows),
            *_counts(rows),
            *_alarms(rows),
            *_trainings(rows),
            *_architectures(rows),
            *_omitted(listed()),
        ]
    )


def _beginning(rows: Sequence[Row]) -> list[str]:
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    return [
        "# Stock architectures",
        "",
        "<!-- written by `make stock` from results/calibration/stock; do not edit -->",
        "",
        "People train these every day, so a verdict that calls them sick is wrong. Every architecture is built as its "
        "package builds it, at its own initialization, and diagnosed on one batch of real data: `orthoscope reproduce "
        "calibration/stock` does all of it again.",
        "",
        "- **timm**: of every module, and in it of every word with which names begin, the architecture with the "
        f"fewest parameters that takes images of {', '.join(map(str, SIZES[:-1]))} or {SIZES[-1]} pixels, the smallest "
        "that works. CIFAR-10, ten classes, cross entropy.",
        "- **transformers**: every model type with a head for text, images or sound, or a base model, from a "
        "configuration of the same structure with two to four layers of width 64. Text is the manual that Python "
        "carries, a character a token, with the loss of the next token or of masked ones; images are of CIFAR-10; a "
        "spectrogram is such an image, and a waveform is that image played, a sinusoid a row. A base model has no "
        "loss: a random direction at its output is differentiated.",
        "",
        f"An architecture that is called sick is trained: {STEPS} steps of AdamW at learning rates {rates}, on "
        f"{SAMPLES} samples in batches of {BATCH}. It *trains* if its best loss shows at least half of what a "
        "well-known architecture of the same task learns, beyond the best constant prediction.",
        "",
    ]


def _counts(rows: Sequence[Row]) -> list[str]:
    packages = [*dict.fromkeys(row.package for row in rows)]
    parts = {name: [row for row in rows if row.package == name] for name in packages} | {"both": list(rows)}
    lines = []
    for name, part in parts.items():
        seen = [row for row in part if not row.error]
        cells = [f"{sum(row.verdict == verdict for row in seen)} ({share(part, verdict):.1%})" for verdict in _VERDICTS]
        lines.append(f"| {name} | {len(part)} | {len(part) - len(seen)} | {' | '.join(cells)} |")
    low, high = wilson(share(rows, Verdict.SICK), len(rows))
    open_ = len(covered()) - len(rows)
    return [
        "## Counts",
        "",
        "| package | architectures | errors | SICK | AT RISK | HEALTHY |",
        "|---|---|---|---|---|---|",
        *lines,
        "",
        f"95 % interval of the share called sick: {low:.1%} to {high:.1%}."
        + (f" {open_} architectures of the list are not in the table yet." if open_ else ""),
        "",
    ]


def _alarms(rows: Sequence[Row]) -> list[str]:
    found = by_check(rows)
    lines = [
        f"| {check} | {len(names)} | {', '.join(f'`{name}`' for name in names)} |" for check, names in found.items()
    ]
    return ["## Alarms by check", "", "| check | architectures | which |", "|---|---|---|", *lines, ""]


def _trainings(rows: Sequence[Row]) -> list[str]:
    sick = [row for row in rows if row.verdict == Verdict.SICK]
    if not sick:
        return ["## Trainings", "", "None is called sick.", ""]
    ends = Counter(row.trains for row in sick)
    words = {1: "trains", 0: "does not", -1: "not known"}
    lines = [
        f"| `{row.name}` | {row.alarms} | {row.guessing:.2f} | {row.reference:.2f} | "
        f"{row.loss_low:.2f}, {row.loss_middle:.2f}, {row.loss_high:.2f} | {words[row.trains]} |"
        for row in sick
    ]
    return [
        "## Trainings of those called sick",
        "",
        f"{ends[1]} train, {ends[0]} do not, of {ends[-1]} nothing can be said (no loss, or no reference that learns).",
        "",
        "| architecture | found | best constant | reference | losses by learning rate | outcome |",
        "|---|---|---|---|---|---|",
        *lines,
        "",
    ]


def _architectures(rows: Sequence[Row]) -> list[str]:
    lines = [
        f"| {row.package} | `{row.name}` | {row.task or '-'} | {row.parameters / 1e6:.2f} | {row.weight_layers} | "
        f"{row.verdict or 'error'} | {row.risk:.2f} | {row.error or row.alarms or '-'} |"
        for row in rows
    ]
    return [
        "## Every architecture",
        "",
        "| package | architecture | loss | million parameters | weight layers | verdict | risk | found |",
        "|---|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]


def _omitted(listing: Sequence[Architecture]) -> list[str]:
    omitted = [one for one in listing if one.reason]
    lines = [f"| {one.package} | `{one.family}` | {_cell(one.reason)} |" for one in omitted]
    return [
        "## Not covered",
        "",
        f"{len(omitted)} families: the rule finds no network of fewer than {MOST_PARAMETERS // 10**6} million "
        "parameters, or no batch, for the reason given. Most are parts of other types, or need several inputs of "
        "their own kind.",
        "",
        "| package | family | reason |",
        "|---|---|---|",
        *lines,
        "",
    ]


def _cell(text: str) -> str:
    """Text that cannot break a table of Markdown."""
    return text.replace("|", "/").replace("<", "(").replace(">", ")").replace("`", "'")
