r"""Joudaki (2024), table 5.1: Hermite polynomials, and the two properties they are used for.

The printed coefficients of $\mathrm{He}_0, \dots, \mathrm{He}_4$ and factors $1/\sqrt{k!}$ are compared with the
recursion, and (5.5) and Lemma 5.6, $E\,\mathrm{he}_k(X)\mathrm{he}_l(Y) = \rho^k\delta_{kl}$ for Gaussians of
covariance $\rho$, with sampled means. Table and lemma are right; Mehler's formula in the proof lacks a factor (erratum
joudaki2024-lemma-5.6).
"""

import math
import statistics
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch

from orthoscope.theory import hermite_polynomials, hermite_table
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.panels import Math, Panel, Series, averaged

CLAIM = "Table 5.1 is right, and normalized Hermite polynomials of Gaussians of covariance ρ have covariances ρ^k δ_kl."
KIND = "simulation"
# As printed: the coefficients of He_k, lowest power first, and the number under the root of 1/√k!.
PRINTED: tuple[tuple[tuple[int, ...], int], ...] = (
    ((1,), 1),
    ((0, 1), 1),
    ((-1, 0, 1), 2),
    ((0, -3, 0, 1), 6),
    ((3, 0, -6, 0, 1), 24),
)
MOST_ERRORS = 4.5  # standard errors that one of all the sampled means may be off


@dataclass(frozen=True)
class Config:
    overlaps: tuple[float, ...] = (0.0, 0.5, 0.9, 1.0)
    draws: int = 200_000
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(overlaps=(0.5, 1.0), draws=50_000)


class Row(NamedTuple):
    """A coefficient of He_k (`other` is the power), the root of k! (`other` is 0), or a mean of he_k(X) he_l(Y)."""

    quantity: str  # "coefficient", "factor" or "covariance"
    order: int
    other: int
    overlap: float
    seed: int
    printed: float
    ours: float


def run(config: Config) -> list[Row]:
    rows = []
    for order, (coefficients, factor) in enumerate(hermite_table(len(PRINTED))):
        printed, radicand = PRINTED[order]
        for power, (theirs, own) in enumerate(zip(printed, coefficients, strict=True)):
            rows.append(Row("coefficient", order, power, 1.0, 0, float(theirs), float(own)))
        rows.append(Row("factor", order, 0, 1.0, 0, 1 / math.sqrt(radicand), factor))
    for overlap, seed in product(config.overlaps, config.seeds):
        rows += _covariances(overlap, seed, config.draws)
    return rows


def _covariances(overlap: float, seed: int, draws: int) -> list[Row]:
    generator, orders = torch.Generator().manual_seed(seed), len(PRINTED)
    first, own = torch.randn(2, draws, generator=generator, dtype=torch.float64)
    second = overlap * first + math.sqrt(1 - overlap**2) * own
    means = hermite_polynomials(first, orders) @ hermite_polynomials(second, orders).mT / draws
    return [
        Row("covariance", k, other, overlap, seed, overlap**k if k == other else 0.0, float(means[k, other]))
        for k, other in product(range(orders), repeat=2)
    ]


def groups(rows: list[Row]) -> dict[tuple[int, int, float], list[Row]]:
    """Sampled covariances by orders and overlap."""
    found: dict[tuple[int, int, float], list[Row]] = {}
    for row in rows:
        if row.quantity == "covariance":
            found.setdefault((row.order, row.other, row.overlap), []).append(row)
    return found


def errors(group: list[Row]) -> float:
    """How many standard errors the mean over seeds is away from what the lemma says; 0 for two equal numbers."""
    values = [row.ours for row in group]
    distance = abs(statistics.fmean(values) - group[0].printed)
    if distance < 1e-12:
        return 0.0
    error = statistics.stdev(values) / math.sqrt(len(values))
    return distance / error if error > 0 else math.inf


def check(rows: list[Row]) -> dict[str, bool]:
    printed = [row for row in rows if row.quantity != "covariance"]
    diagonal = [group for (k, other, overlap), group in groups(rows).items() if k == other > 0 and overlap > 0]
    return {
        "every printed coefficient and factor is that of the recursion": all(
            abs(row.printed - row.ours) < 1e-12 for row in printed
        ),
        "sampled covariances are ρ^k for equal orders and 0 for others, within 4.5 standard errors each": all(
            errors(group) < MOST_ERRORS for group in groups(rows).values()
        ),
        "and could tell: those of equal orders are not 0, by 10 standard errors": all(
            errors([row._replace(printed=0.0) for row in group]) > 10 for group in diagonal
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    printed = [row for row in rows if row.quantity != "covariance"]
    wrong = float(sum(abs(row.printed - row.ours) > 1e-12 for row in printed))
    right: Verdict = "agrees" if wrong == 0 else "differs"
    name, why = f"entries of table 5.1 that are wrong, of {len(printed)}", "by the recursion of Hermite polynomials"
    found = [Evidence(name, 0.0, wrong, wrong, wrong, right, why)]
    overlap = min(row.overlap for row in rows if row.quantity == "covariance" and row.overlap > 0)
    for order in range(1, len(PRINTED)):
        group = groups(rows)[order, order, overlap]
        ends = interval([row.ours for row in group], MOST_ERRORS)
        name = f"E he_{order}(X) he_{order}(Y), ρ = {overlap:g}"
        inside: Verdict = "agrees" if errors(group) < MOST_ERRORS else "differs"
        found.append(Evidence(name, overlap**order, *ends, inside, f"the interval is of {MOST_ERRORS} standard errors"))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    orders = list(range(len(PRINTED)))
    overlaps = sorted({row.overlap for row in rows if row.quantity == "covariance"} - {0.0})[:2]
    series = []
    for overlap in overlaps:
        points = {k: [row.ours for row in groups(rows)[k, k, overlap]] for k in orders}
        series += [
            averaged(Math(rf"$E\,he_k(X)\,he_k(Y)$, ρ = {overlap:g}"), points),
            Series(Math(rf"$\rho^k$, ρ = {overlap:g}"), orders, [overlap**k for k in orders]),
        ]
    seeds = len({row.seed for row in rows if row.quantity == "covariance"})
    measure = f"mean ± 2 s.e. of {seeds} samples"
    return [Panel("Hermite polynomials of two Gaussians", measure, "order k", series, y_range=(0, 1.2))]
