"""Daneshmand, Joudaki & Bach (2021), Figure 2a (joudaki2024, Figure 2.2 left): the orthogonality gap over depth.

Shown there: log V of 4 samples, of which one is a million times as long as the others, in networks of width 32 and 512;
20 runs. It falls for about 20 layers and then stays. Here the same, with the level at which theory says that it stays.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.metrics.representations import orthogonality_gap
from orthoscope.theory.chain.batch_norm import stationary_log_gap
from orthoscope.theory.chain.spectrum import collapsed_gap
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "The orthogonality gap of a batch-norm network falls exponentially over about 20 layers, from any start, to a "
    "floor that is lower in wider networks."
)
KIND = "simulation"
SETTLED = 30  # from here on the paper's curves are flat
READ = {32: -1.6, 512: -3.0}  # the level of these, read off the picture to a tenth
READING = 0.1


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (32, 512)
    batch: int = 4
    depth: int = 50
    smallest: float = 1e-6  # length of all samples but the first
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(widths=(32, 256), seeds=tuple(range(12)))


class Row(NamedTuple):
    width: int
    batch: int
    seed: int
    layer: int  # 0 is the input
    gap: float


def run(config: Config) -> list[Row]:
    rows = []
    for width in config.widths:
        recording = simulate(
            uneven_input(config.batch, width, config.smallest),
            Chain(width, norm="batch_uncentered"),
            config.depth,
            seeds=config.seeds,
            record={"gap": orthogonality_gap},
        )
        for seed, gaps in zip(config.seeds, recording.values["gap"].tolist(), strict=True):
            rows += [
                Row(width, config.batch, seed, layer, gap) for layer, gap in zip(recording.layers, gaps, strict=True)
            ]
    return rows


def uneven_input(batch: int, width: int, smallest: float) -> Float[Tensor, "samples units"]:
    """Orthogonal samples, the first of length 1 and the others as short as `smallest`: nearly the largest gap."""
    samples = smallest * torch.eye(batch, width, dtype=torch.float64)
    samples[0, 0] = 1
    return samples


def plateaus(rows: list[Row], width: int) -> list[float]:
    """Mean log-gap of the settled layers, seed by seed."""
    settled = [row for row in rows if row.width == width and row.layer >= SETTLED]
    return [
        statistics.fmean(math.log(row.gap) for row in settled if row.seed == seed)
        for seed in sorted({row.seed for row in settled})
    ]


def log_gaps(rows: list[Row], width: int, layer: int) -> float:
    """Mean over the seeds."""
    return statistics.fmean(math.log(row.gap) for row in rows if (row.width, row.layer) == (width, layer))


def check(rows: list[Row]) -> dict[str, bool]:
    widths, batch = sorted({row.width for row in rows}), rows[0].batch
    start = math.log(collapsed_gap(batch))
    return {
        "every run starts at the largest gap there is": all(
            abs(math.log(row.gap) - start) < 1e-6 for row in rows if row.layer == 0
        ),
        "after 20 layers the gap is near its floor, in every width": all(
            log_gaps(rows, width, 20)
            < statistics.fmean(plateaus(rows, width)) + 0.2 * abs(start - _floor(width, batch))
            for width in widths
        ),
        "the floor is that of theory, within 0.15": all(
            abs(statistics.fmean(plateaus(rows, width)) - _floor(width, batch)) < 0.15 for width in widths
        ),
        "the wider network is lower, by the root of the width within 0.15": (
            abs(
                statistics.fmean(plateaus(rows, widths[0]))
                - statistics.fmean(plateaus(rows, widths[-1]))
                - math.log(widths[-1] / widths[0]) / 2
            )
            < 0.15
        ),
    }


def _floor(width: int, batch: int) -> float:
    return stationary_log_gap(batch, width)


def compare(rows: list[Row]) -> list[Evidence]:
    """The levels, with those of the picture where it has the width."""
    evidence = []
    for width in sorted({row.width for row in rows}):
        ours, low, high = interval(plateaus(rows, width))
        theory, read = _floor(width, rows[0].batch), READ.get(width)
        evidence.append(
            Evidence(
                f"log V of layers {SETTLED} to {max(row.layer for row in rows)}, width {width}",
                read,
                ours,
                low,
                high,
                "agrees" if abs(ours - (theory if read is None else read)) < READING else "differs",
                f"the printed number is read off the picture to a tenth; theory {theory:.2f}",
            )
        )
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    widths, batch, seeds = sorted({row.width for row in rows}), rows[0].batch, len({row.seed for row in rows})
    curves = [
        averaged(f"width {width}", ((row.layer, math.log(row.gap)) for row in rows if row.width == width))
        for width in widths
    ]
    panel = Panel(
        f"Orthogonality gap, {batch} samples",
        f"log V, mean ± 2 s.e. of {seeds} runs",
        "layer (0 is the input)",
        curves,
        [(f"floor of width {width}, theory", _floor(width, batch)) for width in widths],
        y_range=(_floor(widths[-1], batch) - 0.5, 0.2),
    )
    return [panel]
