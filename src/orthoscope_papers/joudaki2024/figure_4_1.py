r"""Joudaki (2024), figure 4.1: isometry as a volume, for two and for three vectors.

The figure shows parallelepipeds: of given lengths, the more volume the more isometry. For two vectors of lengths $a,
b$ at the angle $\theta$ the text gives the ratio $ab\sin\theta/(a^2+b^2)$; that is half of $\mathcal{I}(G) =
\det(G)^{1/n}/(\operatorname{tr}G/n)$ of Definition 4.1, whose largest value is 1. Here the vectors are drawn, turned
at random into a larger space and measured; beside them is the isometry of the Gram matrix they must have.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.metrics import isometry
from orthoscope.theory import gram_isometry
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "Isometry, the n-th root of a squared volume over the mean squared length, is 1 for equal lengths at right angles "
    "and falls with the volume: for two vectors it is 2ab sin θ/(a² + b²), twice the ratio in the text."
)
KIND = "simulation"
ROUNDING = 1e-9


@dataclass(frozen=True)
class Config:
    vectors: tuple[int, ...] = (2, 3)
    lengths: tuple[float, ...] = (1.0, 2.0, 4.0)  # of the last vector, the others have 1
    degrees: tuple[int, ...] = (10, 20, 30, 45, 60, 75, 90, 100, 110)  # of all pairs; three vectors end at 120
    units: int = 8
    seeds: tuple[int, ...] = tuple(range(5))


QUICK = Config(seeds=(0, 1))


class Row(NamedTuple):
    vectors: int
    length: float
    degrees: int
    seed: int
    volume: float  # √det G
    isometry: float


def gram_of(vectors: int, length: float, degrees: int) -> Float[Tensor, "vectors vectors"]:
    """Vectors of length 1 but for the last, all pairs at one angle."""
    cosine = math.cos(math.radians(degrees))
    cosines = torch.full((vectors, vectors), cosine, dtype=torch.float64).fill_diagonal_(1.0)
    lengths = torch.ones(vectors, dtype=torch.float64)
    lengths[-1] = length
    return lengths[:, None] * cosines * lengths


def run(config: Config) -> list[Row]:
    """Such vectors in coordinates, by Cholesky, turned into a larger space."""
    rows = []
    for vectors, length, degrees, seed in product(config.vectors, config.lengths, config.degrees, config.seeds):
        turn = haar(config.units, vectors, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        drawn = torch.linalg.cholesky(gram_of(vectors, length, degrees)) @ turn.mT
        volume = float(torch.linalg.svdvals(drawn).prod())
        rows.append(Row(vectors, length, degrees, seed, volume, float(isometry(drawn))))
    return rows


def text_ratio(length: float, degrees: int) -> float:
    r"""$ab\sin\theta/(a^2+b^2)$ as printed."""
    return length * math.sin(math.radians(degrees)) / (1 + length**2)


def values(rows: list[Row], vectors: int, length: float, degrees: int) -> list[float]:
    """Isometries, seed by seed."""
    return [row.isometry for row in rows if (row.vectors, row.length, row.degrees) == (vectors, length, degrees)]


def check(rows: list[Row]) -> dict[str, bool]:
    exact = {key: float(gram_isometry(gram_of(*key))) for key in {row[:3] for row in rows}}
    best = {
        count: max((row for row in rows if row.vectors == count), key=lambda row: row.isometry)
        for count in counts(rows)
    }
    return {
        "the isometry of the vectors is that of their Gram matrix": all(
            abs(row.isometry - exact[row[:3]]) < ROUNDING for row in rows
        ),
        "it is the n-th root of the squared volume over the mean squared length": all(
            abs(row.isometry - row.volume ** (2 / row.vectors) * row.vectors / (row.vectors - 1 + row.length**2))
            < ROUNDING
            for row in rows
        ),
        "it is largest, and 1, for equal lengths at right angles": all(
            (row.length, row.degrees) == (1.0, 90) and abs(row.isometry - 1) < ROUNDING for row in best.values()
        ),
        "for two vectors it is twice the ratio in the text": all(
            abs(row.isometry - 2 * text_ratio(row.length, row.degrees)) < ROUNDING for row in rows if row.vectors == 2
        ),
    }


def counts(rows: list[Row]) -> list[int]:
    return sorted({row.vectors for row in rows})


def compare(rows: list[Row]) -> list[Evidence]:
    mean, low, high = interval(values(rows, 2, 1.0, 90))
    why = (
        "Definition 4.1 divides by the mean of the squared lengths, the text by their sum; the maximum is where it was"
    )
    printed = text_ratio(1.0, 90)
    verdict: Verdict = "agrees" if abs(mean - printed) < ROUNDING else "corrected"
    found = [Evidence("largest ratio, two vectors", printed, mean, low, high, verdict, why)]
    best = max(rows, key=lambda row: row.isometry)
    ends = interval(values(rows, best.vectors, best.length, best.degrees))
    lemma: Verdict = "agrees" if abs(ends[0] - 1) < ROUNDING else "differs"
    why = f"{best.vectors} vectors, the last {best.length:g} times as long, at {best.degrees} degrees"
    return [*found, Evidence("largest isometry (Lemma 4.2)", 1.0, *ends, lemma, why)]


def plot(rows: list[Row]) -> list[Panel]:
    degrees, seeds, panels = sorted({row.degrees for row in rows}), len({row.seed for row in rows}), []
    for count in counts(rows):
        series = []
        for length in sorted({row.length for row in rows})[:2]:
            points = {angle: values(rows, count, length, angle) for angle in degrees}
            exact = [float(gram_isometry(gram_of(count, length, angle))) for angle in degrees]
            series += [
                averaged(f"last vector {length:g} times as long", points),
                Series(f"of its Gram matrix, {length:g}", degrees, exact),
            ]
        title, measure = f"{count} vectors, all pairs at one angle", f"isometry, mean ± 2 s.e. of {seeds} rotations"
        panels.append(Panel(title, measure, "angle in degrees", series, [("isometric", 1.0)], y_range=(0, 1)))
    return panels
