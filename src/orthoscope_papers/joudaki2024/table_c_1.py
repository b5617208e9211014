r"""Joudaki (2024), Table C.1: ranks of the Gram matrices of random batches of images.

The table was made by `torch.linalg.matrix_rank` of the Gram matrix of raw pixels in [0, 1], in single precision, and
reads as if batches of 256 and 512 images were linearly dependent, the larger ones of CIFAR-10 more than the smaller.
The rank of a batch cannot be less than that of a part of it: `matrix_rank` counts eigenvalues above
$n \cdot 2^{-23} \lambda_{\max}$, and $\lambda_{\max}$ of images, which share a mean, grows as $n$. In double precision,
from singular values of the pixels, all batches have full rank. Here both are counted, of 20 batches instead of 100.
CIFAR-100 is left out.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from orthoscope.metrics import mean_overlap, numerical_rank
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.shaped_network import dataset
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "Batches of images are linearly independent. The printed ranks below n are those of a float32 Gram matrix under "
    "matrix_rank's tolerance, which grows as n²; in float64 the rank is full."
)
KIND = "simulation"
DATA = ("cifar10", "mnist", "fashion-mnist")

# Mean, standard deviation over 100 batches.
PRINTED = {
    ("cifar10", 256): (221.06, 2.89),
    ("cifar10", 512): (203.70, 3.58),
    ("mnist", 256): (250.48, 1.53),
    ("mnist", 512): (318.04, 2.82),
    ("fashion-mnist", 256): (238.19, 3.27),
    ("fashion-mnist", 512): (275.37, 4.20),
}
PRINTED_OVERLAPS = {"cifar10": 0.81, "mnist": 0.40, "fashion-mnist": 0.58}  # at n = 512
PRINTED_BATCHES = 100


@dataclass(frozen=True)
class Config:
    data: tuple[str, ...] = ("cifar10", "mnist", "fashion-mnist")
    batches: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    seeds: tuple[int, ...] = tuple(range(20))


# The digits have 64 pixels, some of them hardly ever lit: of more than 51 images some are dependent indeed.
QUICK = Config(data=("digits",), batches=(16, 32, 50), seeds=tuple(range(10)))
FULL = Config(seeds=tuple(range(PRINTED_BATCHES)))


class Row(NamedTuple):
    data: str
    samples: int
    pixels: int
    seed: int
    single: int  # matrix_rank of the Gram matrix in float32, as printed
    rule: int  # float32's tolerance, on singular values in float64: the tolerance without the rounding
    double: int  # float64's tolerance
    overlap: float  # mean cosine of two images


def cells(config: Config) -> list[Config]:
    """One dataset and batch size each."""
    return [replace(config, data=(name,), batches=(size,)) for name in config.data for size in config.batches]


def run(config: Config) -> list[Row]:
    """Every dataset, batch size and batch."""
    rows = []
    for name in config.data:
        images = dataset(name)
        for samples in config.batches:
            for seed in config.seeds:
                pixels = images.batch(samples, torch.Generator().manual_seed(seed))[0].flatten(1)
                ranks = (
                    torch.linalg.matrix_rank(pixels @ pixels.T),
                    numerical_rank(pixels, precision=torch.float32),
                    numerical_rank(pixels, precision=torch.float64),
                )
                single, rule, double = (int(rank) for rank in ranks)
                overlap = float(mean_overlap(pixels))
                rows.append(Row(name, samples, pixels.shape[1], seed, single, rule, double, overlap))
    return rows


def column(rows: Sequence[Row], data: str, samples: int, name: str) -> list[float]:
    """One column of a dataset and batch size, batch by batch."""
    return [float(getattr(row, name)) for row in rows if (row.data, row.samples) == (data, samples)]


def check(rows: list[Row]) -> dict[str, bool]:
    """Full rank in double precision, what single precision makes of it, and why."""
    datasets = sorted({row.data for row in rows})
    sizes = sorted({row.samples for row in rows})
    large = [row for row in rows if row.data == "cifar10" and row.samples >= 256]
    counted = {
        "in float64 every batch has full rank": all(row.double == row.samples for row in rows),
        "up to 32 images float32 agrees": all(row.single == row.samples for row in rows if row.samples <= 32),
        "the largest batches are short of it in float32": all(
            row.single < row.samples for row in rows if row.samples == sizes[-1]
        ),
        "float32 never finds more than there is": all(row.single <= row.double for row in rows),
        "it is the tolerance, not the rounding: counted on exact values it gives the same mean to 1 %": all(
            abs(
                statistics.fmean(column(rows, data, size, "rule"))
                / statistics.fmean(column(rows, data, size, "single"))
                - 1
            )
            < 0.01
            for data in datasets
            for size in sizes
        ),
        "images are far from orthogonal: the mean cosine of two is above 0.3": all(row.overlap > 0.3 for row in rows),
    }
    if large:
        means = [
            statistics.fmean(column(rows, "cifar10", size, "single")) for size in sorted({r.samples for r in large})
        ]
        counted["in float32 CIFAR-10 loses rank as the batch grows, which no rank can"] = means[0] > means[-1]
    return counted


def compare(rows: list[Row]) -> list[Evidence]:
    """Every printed rank below n, the overlaps, and the rank in double precision."""
    found = []
    for (data, samples), (printed, spread) in PRINTED.items():
        if ranks := column(rows, data, samples, "single"):
            mean, low, high = interval(ranks)
            error = math.hypot((high - mean) / 2, spread / math.sqrt(PRINTED_BATCHES))
            close = abs(mean - printed) < 3 * error
            found.append(
                Evidence(
                    f"float32 rank, {data}, n = {samples}",
                    printed,
                    mean,
                    low,
                    high,
                    "agrees" if close else "differs",
                    "within 3 standard errors of both means"
                    if close
                    else "the reason is not known: batches, and the library that counts, are others",
                )
            )
            full = interval(column(rows, data, samples, "double"))
            why = "the printed rank is short by float32's tolerance (erratum joudaki2024-table-c.1)"
            rank: Verdict = "corrected" if full[0] == samples else "differs"
            found.append(Evidence(f"rank, {data}, n = {samples}", printed, *full, rank, why))
    for data, printed in PRINTED_OVERLAPS.items():
        if overlaps := column(rows, data, 512, "overlap"):
            mean, low, high = interval(overlaps)
            close = abs(mean - printed) < high - mean + 0.005
            why = "" if close else "more than its two digits and our error explain; the reason is not known"
            verdict: Verdict = "agrees" if close else "differs"
            found.append(Evidence(f"mean cosine, {data}, n = 512", printed, mean, low, high, verdict, why))
    if not found:
        share = interval([row.double / row.samples for row in rows])
        why = "these images are not in the table; full rank, as it finds for small batches"
        found.append(
            Evidence(f"rank over n, {rows[0].data}", 1.0, *share, "agrees" if share[0] == 1 else "differs", why)
        )
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """A panel a dataset: rank over batch size in single and double precision."""
    seeds = len({row.seed for row in rows})
    panels = []
    for data in sorted({row.data for row in rows}):
        sizes = sorted({row.samples for row in rows if row.data == data})
        names = {"single": "float32 Gram matrix, as printed", "double": "float64"}
        series = [averaged(text, {n: column(rows, data, n, name) for n in sizes}) for name, text in names.items()]
        series.append(Series("full rank", sizes, sizes))
        panels.append(
            Panel(
                data,
                f"rank of a batch, mean ± 2 s.e. of {seeds} batches",
                "images in the batch",
                series,
                y_range=(sizes[0] / 2, 2 * sizes[-1]),
                log_x=True,
                log_y=True,
            )
        )
    return panels
