r"""Daneshmand, Joudaki & Bach (2021), Figure 2b (joudaki2024, Figure 2.2 right): the orthogonality gap over width.

Shown there: the mean of V over 500 layers against the width, on logarithmic axes, and the slope $-0.46$. The paper
averages layers 1 to 500, the thesis 100 to 600; both are here. The first has the fall from the largest gap in it, which
is much the same in all networks and so makes the slope smaller; without it the slope is that of $d^{-1/2}$, a little
more because of narrow networks. The authors' notebook divides every gap by the number of runs before the logarithm: its
curve lies $\log 20$ too low, its slope is not changed.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

from orthoscope.chains import Chain, simulate
from orthoscope.metrics.representations import orthogonality_gap
from orthoscope.theory.chain.batch_norm import stationary_gap
from orthoscope_papers.daneshmand2021.figure_2a import uneven_input
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = "The floor of the orthogonality gap falls with the width as width^(-1/2)."
KIND = "simulation"
PRINTED, PRINTED_RUNS, DIGITS = -0.46, 20, 0.005  # printed with two digits
LAW, NEAR = -0.5, 0.03  # of wide networks; these are not all wide
PAPER, THESIS = "1 to 500", "100 to 600"
RANGES = {PAPER: (1, 500), THESIS: (100, 600)}


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    batch: int = 4
    smallest: float = 1e-6  # length of all samples but the first
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(seeds=tuple(range(4)))


class Row(NamedTuple):
    width: int
    batch: int
    seed: int
    layers: str
    mean_gap: float


def run(config: Config) -> list[Row]:
    rows = []
    depth = max(last for _, last in RANGES.values())
    for width in config.widths:
        recording = simulate(
            uneven_input(config.batch, width, config.smallest),
            Chain(width, norm="batch_uncentered"),
            depth,
            seeds=config.seeds,
            record={"gap": orthogonality_gap},
        )
        gaps = recording.values["gap"]
        for layers, (first, last) in RANGES.items():
            means = gaps[:, first : last + 1].mean(1).tolist()
            rows += [
                Row(width, config.batch, seed, layers, mean) for seed, mean in zip(config.seeds, means, strict=True)
            ]
    return rows


def slopes(rows: list[Row], layers: str) -> list[float]:
    """Slope of log mean gap against log width, by least squares, seed by seed."""
    found = []
    for seed in sorted({row.seed for row in rows}):
        own = [row for row in rows if (row.seed, row.layers) == (seed, layers)]
        line = statistics.linear_regression([math.log(r.width) for r in own], [math.log(r.mean_gap) for r in own])
        found.append(line.slope)
    return found


def check(rows: list[Row]) -> dict[str, bool]:
    of_paper, of_thesis = (statistics.fmean(slopes(rows, layers)) for layers in (PAPER, THESIS))
    widest = max(row.width for row in rows)
    settled = [row.mean_gap for row in rows if (row.width, row.layers) == (widest, THESIS)]
    theory = stationary_gap(rows[0].batch, widest)
    return {
        "slope over layers 1 to 500 is -0.47 ± 0.02": abs(of_paper + 0.47) <= 0.02,
        "slope over layers 100 to 600 is -0.51 ± 0.02": abs(of_thesis + 0.51) <= 0.02,
        "leaving out the fall from the start makes the slope steeper": of_thesis < of_paper,
        "the level of the widest network is that of theory, within 3 %": (
            abs(statistics.fmean(settled) / theory - 1) < 0.03
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The printed slope is of 20 runs too: the interval beside it has its error in it."""
    of_paper, of_thesis = slopes(rows, PAPER), interval(slopes(rows, THESIS))
    mean = statistics.fmean(of_paper)
    error = DIGITS + 2 * statistics.stdev(of_paper) * math.sqrt(1 / len(of_paper) + 1 / PRINTED_RUNS)
    agrees, settled = abs(mean - PRINTED) <= error, abs(of_thesis[0] - LAW) < NEAR
    quantity = "slope of log mean V against log width, layers"
    return [
        Evidence(
            f"{quantity} {PAPER}",
            PRINTED,
            mean,
            mean - error,
            mean + error,
            "agrees" if agrees else "differs",
            f"the interval has the error of a mean of {PRINTED_RUNS} runs and of two digits in it",
        ),
        Evidence(
            f"{quantity} {THESIS}",
            None,
            *of_thesis,
            "agrees" if settled else "differs",
            f"the thesis draws this range without printing a slope; theory has -1/2 in wide networks, ± {NEAR} is near",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    widths, batch = sorted({row.width for row in rows}), rows[0].batch
    seeds = len({row.seed for row in rows})
    curves = [
        averaged(f"layers {layers}", ((row.width, row.mean_gap) for row in rows if row.layers == layers))
        for layers in RANGES
    ]
    theory = [stationary_gap(batch, width) for width in widths]
    panel = Panel(
        f"Orthogonality gap and width, {batch} samples",
        f"mean of V over the layers, mean ± 2 s.e. of {seeds} runs",
        "width",
        [*curves, Series("stationary gap, theory", widths, theory, theory=True)],
        log_x=True,
        log_y=True,
    )
    return [panel]
