r"""Joudaki (2024), table 5.2: centered, stable and non-linear, of an activation, its coefficients and its kernel map.

The table states three equivalences. Each number is found by three routes that share nothing: means over samples of a
Gaussian, sums of squared Hermite coefficients cut at $K$ terms, and the exact quadrature of the kernel map:

| | activation | coefficients | kernel map |
|---|---|---|---|
| centered | $(E\phi)^2$ | $c_0^2$ | $\kappa(0)$ |
| stable | $E\phi^2$ | $\sum_{k<K} c_k^2$ | $\kappa(1)$ |
| non-linear | $E\phi^2 - (E\phi)^2 - (E X\phi)^2$ | $\sum_{2\le k<K} c_k^2$ | $\kappa(1) - \kappa(0) - \kappa'(0)$ |
| slope at 1 | $E\phi'^2$ | $\sum_{k<K} k c_k^2$ | $\kappa'(1)$ |

all of $\phi$ itself, not of $\phi/C$. The last line is not in the table: a series cut at 25 terms has it wrong where
$\phi$ has a kink, and so puts ReLU into the wrong case (erratum joudaki2024-figure-5.2).
"""

import statistics
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch

from orthoscope.activations import nonlinearity
from orthoscope.theory import hermite_coefficients, kernel_map
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.panels import Panel, Series, side_by_side

CLAIM = (
    "Centered, stable and non-linear mean the same in terms of the activation, its Hermite coefficients and its kernel "
    "map; but κ′(1) cannot be read off a series cut at 25 terms, which gives 0.948 for ReLU instead of 1."
)
KIND = "simulation"
PROPERTIES = ("centered", "stable", "non-linear", "slope at 1")
SMOOTH_ERROR = 1e-3  # of a series cut at 25 terms, relative to the energy of φ, where φ is smooth


@dataclass(frozen=True)
class Config:
    activations: tuple[str, ...] = ("identity", "tanh", "sin", "selu", "sigmoid", "softplus", "relu", "gelu", "silu")
    terms: int = 25
    draws: int = 200_000
    seeds: tuple[int, ...] = tuple(range(10))


QUICK = Config(draws=40_000)


class Row(NamedTuple):
    activation: str
    property: str
    route: str  # "activation" (sampled), "coefficients" (cut) or "kernel" (exact)
    terms: int
    seed: int  # 0 where nothing is random
    value: float


def run(config: Config) -> list[Row]:
    rows = []
    for name in config.activations:
        exact = [("coefficients", 0, _of_coefficients(name, config.terms)), ("kernel", 0, _of_kernel(name))]
        sampled = [("activation", seed, _of_samples(name, config.draws, seed)) for seed in config.seeds]
        rows += [
            Row(name, kind, route, config.terms, seed, value)
            for route, seed, values in [*sampled, *exact]
            for kind, value in zip(PROPERTIES, values, strict=True)
        ]
    return rows


def _of_samples(name: str, draws: int, seed: int) -> tuple[float, ...]:
    phi = nonlinearity(name)
    points = torch.randn(draws, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = phi(points)
    # Antithetic: an odd activation has a mean of exactly 0, an affine one no non-linear part but rounding.
    mirrored = phi(-points)
    mean = float((values + mirrored).mean()) / 2
    energy = float((values.square() + mirrored.square()).mean()) / 2
    linear = float((points * (values - mirrored)).mean() / points.square().mean()) / 2
    slopes = (phi.derivative(points).square() + phi.derivative(-points).square()).mean() / 2
    return mean**2, energy, energy - mean**2 - linear**2 * float(points.square().mean()), float(slopes)


def _of_coefficients(name: str, terms: int) -> tuple[float, ...]:
    squares = hermite_coefficients(name, terms).square()
    weighted = squares * torch.arange(terms, dtype=torch.float64)
    return float(squares[0]), float(squares.sum()), float(squares[2:].sum()), float(weighted.sum())


def _of_kernel(name: str) -> tuple[float, ...]:
    kernel = kernel_map(name)
    energy = kernel.scale**2
    bent = 1 - kernel.at_zero - kernel.slope_at_zero
    return energy * kernel.at_zero, energy * kernel(1.0), energy * bent, energy * kernel.slope_at_one


def values(rows: list[Row], name: str, kind: str, route: str) -> list[float]:
    """Seed by seed, or the one value of a route that is not random."""
    return [row.value for row in rows if (row.activation, row.property, row.route) == (name, kind, route)]


def names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.activation for row in rows))


def relative_error(rows: list[Row], name: str, kind: str, route: str) -> float:
    """Distance of the mean from the exact value, over the energy of the activation."""
    exact = values(rows, name, kind, "kernel")[0]
    return abs(statistics.fmean(values(rows, name, kind, route)) - exact) / values(rows, name, "stable", "kernel")[0]


def slope_at_one(rows: list[Row], name: str, route: str) -> float:
    r"""$\kappa'(1)$ of $\phi/C$."""
    return statistics.fmean(values(rows, name, "slope at 1", route)) / values(rows, name, "stable", "kernel")[0]


def check(rows: list[Row]) -> dict[str, bool]:
    table = PROPERTIES[:3]
    # A kink beyond ten deviations, as the one that softplus has in torch, is none to a Gaussian.
    smooth = [name for name in names(rows) if all(abs(kink) > 10 for kink in nonlinearity(name).kinks)]
    return {
        "the three properties are the same by samples and by the kernel map, to 1 % of the energy": all(
            relative_error(rows, name, kind, "activation") < 0.01 for name, kind in product(names(rows), table)
        ),
        "and by Hermite coefficients, to 0.1 % with 25 terms": all(
            relative_error(rows, name, kind, "coefficients") < SMOOTH_ERROR
            for name, kind in product(names(rows), table)
        ),
        "zero is zero by all routes: odd activations are centered, linear ones have no non-linear part": all(
            max(values(rows, name, kind, route)) < 1e-6
            for name, kind in (("tanh", "centered"), ("identity", "non-linear"))
            for route in ("activation", "coefficients", "kernel")
        ),
        "and what is not zero is not: sigmoid is not centered, tanh is not linear": all(
            min(values(rows, name, kind, route)) > 0.01
            for name, kind in (("sigmoid", "centered"), ("tanh", "non-linear"))
            for route in ("activation", "coefficients", "kernel")
        ),
        "κ′(1) is the mean of φ′², to 1 %": all(
            relative_error(rows, name, "slope at 1", "activation") < 0.01 for name in names(rows)
        ),
        "a series cut at 25 terms has it for smooth activations, to 1 %": all(
            relative_error(rows, name, "slope at 1", "coefficients") < 0.01 for name in smooth
        ),
        "but not for ReLU, which it would put into case 2": (
            slope_at_one(rows, "relu", "coefficients") < 0.96 and abs(slope_at_one(rows, "relu", "kernel") - 1) < 1e-12
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    found = []
    for kind in PROPERTIES[:3]:
        worst = max(relative_error(rows, name, kind, "coefficients") for name in names(rows))
        name = f"{kind}: largest difference between coefficients and kernel map, of the energy"
        same: Verdict = "agrees" if worst < SMOOTH_ERROR else "differs"
        why = f"what a series of {rows[0].terms} terms leaves out; below {SMOOTH_ERROR:g} is the same"
        found.append(Evidence(name, 0.0, worst, 0.0, worst, same, why))
    energy, cut = values(rows, "relu", "stable", "kernel")[0], slope_at_one(rows, "relu", "coefficients")
    sampled = interval([value / energy for value in values(rows, "relu", "slope at 1", "activation")])
    why = (
        f"figure 5.2 has it below 1, as a series cut at {rows[0].terms} terms does, which gives {cut:.3f} "
        "(erratum joudaki2024-figure-5.2)"
    )
    verdict: Verdict = "corrected" if abs(sampled[0] - 1) < 0.01 else "agrees"
    return [*found, Evidence("κ′(1) of ReLU", None, *sampled, verdict, why)]


def plot(rows: list[Row]) -> list[Panel]:
    """κ′(1) by the exact route and by the cut series, activation by activation."""
    labels = names(rows)
    places = list(range(1, len(labels) + 1))
    panels = []
    for kind in ("non-linear", "slope at 1"):
        energies = {name: values(rows, name, "stable", "kernel")[0] for name in labels}
        series = [
            Series(
                title, places, [statistics.fmean(values(rows, name, kind, route)) / energies[name] for name in labels]
            )
            for route, title in (
                ("kernel", "kernel map, exact"),
                ("coefficients", f"Hermite coefficients, {rows[0].terms} terms"),
                ("activation", "samples"),
            )
        ]
        measure = "of φ/C; three routes to one number"
        panels.append(
            Panel(kind, measure, "activation", side_by_side(series), [("1", 1.0)], y_range=(0, 1.5), x_names=labels)
        )
    return panels
