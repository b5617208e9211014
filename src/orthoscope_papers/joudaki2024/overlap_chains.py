r"""Overlaps of two samples through random networks of finite width, beside the kernel map and its bounds: section 5.7.

A layer is $h \mapsto \phi(\mathrm{RMS}(Wh))$, (5.11): at infinite width its overlaps obey $\rho_{\ell+1} =
\kappa(\rho_\ell)$ as those of (5.1) do. Without normalization a network of finite width may lose its scale: for exp
the mean square obeys $q \mapsto e^{2(q-1)}$, which runs away from 1. Networks are wide because of exp too: near $\rho
= 1$ one layer multiplies $1 - \rho$ by a factor of relative variance $(3E\phi'^4/(E\phi'^2)^2 - 1)/d$, 5/d for ReLU
but 163/d for exp, whose logarithm then falls by half of that a layer, beside what the mean field says.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity, nonlinearity
from orthoscope.chains import Chain, simulate
from orthoscope.metrics import mean_overlap
from orthoscope.theory import KernelMap, hermite_polynomials, kernel_map
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.panels import Panel, Series

LAYERS = (0, 1, 2, 3, 5, 8, 12, 16, 24, 32)
SHOWN = 0.5  # the start that figures show
CLOSE = 0.01  # what a mean overlap may be off beside its interval, for what is of order 1/width


@dataclass(frozen=True)
class Config:
    width: int = 10_000
    starts: tuple[float, ...] = (-0.5, 0.5, 0.9)
    seeds: tuple[int, ...] = tuple(range(20))


class Row(NamedTuple):
    activation: str
    width: int
    start: float
    seed: int
    layer: int
    overlap: float


def polynomial(name: str, squares: tuple[float, ...]) -> Nonlinearity:
    r"""$\phi = \sum_k \sqrt{s_k}\,\mathrm{he}_k$, so that $\kappa(\rho) = \sum_k s_k\rho^k$."""
    roots = torch.tensor(squares, dtype=torch.float64).sqrt()

    def function(inputs: Tensor) -> Tensor:
        values = hermite_polynomials(inputs, len(squares))
        return torch.tensordot(roots.to(values.device), values, dims=1)

    return Nonlinearity(name, function)


# Made for the purpose: kernel maps with few terms, one in every case.
CUSTOM: Mapping[str, Nonlinearity] = {
    name: polynomial(name, squares)
    for name, squares in {
        "(9ρ + ρ³)/10": (0.0, 0.9, 0.0, 0.1),
        "(6 + 3ρ + ρ²)/10": (0.6, 0.3, 0.1),
        "(1 + ρ)²/4": (0.25, 0.5, 0.25),
        "(2 + 3ρ²)/5": (0.4, 0.0, 0.6),
    }.items()
}


def function_of(activation: str) -> Nonlinearity:
    """A custom activation by its kernel map, or a known one by its name."""
    return CUSTOM[activation] if activation in CUSTOM else nonlinearity(activation)


@cache
def kernel_of(activation: str) -> KernelMap:
    return kernel_map(function_of(activation))


@cache
def mean_field(activation: str, start: float) -> tuple[float, ...]:
    """Overlaps at infinite width, layer by layer."""
    return tuple(kernel_of(activation).trajectory(start, LAYERS[-1]).tolist())


def two_samples(overlap: float, width: int) -> Float[Tensor, "samples units"]:
    r"""Two vectors of length $\sqrt d$ with this cosine."""
    pair = torch.zeros(2, width, dtype=torch.float64)
    pair[0, 0], pair[1, 0], pair[1, 1] = 1.0, overlap, math.sqrt(1 - overlap**2)
    return math.sqrt(width) * pair


def simulated(activations: Sequence[str], config: Config) -> list[Row]:
    """Every activation from every start, one network a seed."""
    rows = []
    for activation, start in product(activations, config.starts):
        # A plain function: rescaling by C is left to the normalization that follows.
        function: Callable[[Tensor], Tensor] = function_of(activation).function
        found = simulate(
            two_samples(start, config.width),
            Chain(config.width, activation=function, norm="rms"),
            LAYERS[-1],
            seeds=config.seeds,
            record={"overlap": mean_overlap},
            layers=LAYERS,
        ).values["overlap"]
        rows += [
            Row(activation, config.width, start, seed, layer, float(found[i, j]))
            for (i, seed), (j, layer) in product(enumerate(config.seeds), enumerate(LAYERS))
        ]
    return rows


def overlaps(rows: list[Row], activation: str, start: float, layer: int) -> list[float]:
    """Seed by seed."""
    return [row.overlap for row in rows if (row.activation, row.start, row.layer) == (activation, start, layer)]


def names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.activation for row in rows))


def printed_rate(kernel: KernelMap, case: int) -> float:
    r"""The factor a layer as (5.7), (5.8) and (5.10) have it; 1 in case 3, which has none."""
    slope = kernel.slope_at_fixed_point
    if case == 1:
        return 1 / kernel.slope_at_one
    if case == 4:
        return max(1 - kernel.at_zero, slope, (1 - kernel.fixed_point) / (2 - slope))
    return kernel.slope_at_one if case == 2 else 1.0


def printed_bound(kernel: KernelMap, case: int, start: float, layer: int) -> float:
    r"""What $|\rho_\ell - \rho^*|$ cannot exceed according to the thesis, with the case that the thesis is in."""
    shrunk = printed_rate(kernel, case) ** layer
    if case == 1:
        potential = shrunk * abs(start) / (1 - abs(start))
        return potential / (1 + potential)
    if case == 2:
        return shrunk * (1 - start)
    if case == 3:
        curvature = 1 - kernel.at_zero - kernel.slope_at_zero
        return (1 - start) / (1 + layer * curvature * (1 - start))
    return shrunk * abs(start - kernel.fixed_point) / (1 - abs(start))


def excess(rows: list[Row], activation: str, start: float, layer: int, bound: float) -> float:
    """By how many standard errors the mean distance from the fixed point is beyond a bound."""
    values = overlaps(rows, activation, start, layer)
    error = statistics.stdev(values) / math.sqrt(len(values))
    beyond = abs(statistics.fmean(values) - kernel_of(activation).fixed_point) - bound
    return beyond / error if error > 0 else math.copysign(math.inf, beyond)


def deviation(rows: list[Row], activation: str, start: float, layer: int) -> float:
    """Distance of the mean overlap from that of infinite width, beyond four standard errors."""
    mean, low, high = interval(overlaps(rows, activation, start, layer), errors=4.0)
    return max(0.0, abs(mean - mean_field(activation, start)[layer]) - (high - low) / 2)


def distance_panel(rows: list[Row], activation: str, case: int) -> Panel:
    """The right column of the figures: distance from the fixed point, with the mean field and both bounds."""
    kernel, seeds = kernel_of(activation), len({row.seed for row in rows})
    fixed = kernel.fixed_point
    layers = list(range(LAYERS[-1] + 1))
    means = [abs(interval(overlaps(rows, activation, SHOWN, layer))[0] - fixed) for layer in LAYERS]
    series = [
        Series(f"measured, width {rows[0].width}, mean of {seeds}", LAYERS, means),
        Series("mean field", layers, [abs(overlap - fixed) for overlap in mean_field(activation, SHOWN)]),
        Series("bound, corrected", layers, [float(kernel.bound(SHOWN, layer)) for layer in layers]),
        Series(
            f"bound, printed (case {case})", layers, [printed_bound(kernel, case, SHOWN, layer) for layer in layers]
        ),
    ]
    title = f"{activation}: case {kernel.case}, ρ* = {fixed:.3g}"
    measure = f"|ρ − ρ*| from ρ = {SHOWN:g}"
    return Panel(title, measure, "layer", series, y_range=(1e-3, 1), log_y=True)


def drawn(rows: list[Row], cases: Mapping[str, int]) -> list[Panel]:
    """The kernel maps in one panel, then the distance from the fixed point, one panel an activation."""
    grid = torch.linspace(-1, 1, 41, dtype=torch.float64)
    maps = [Series(name, grid.tolist(), kernel_of(name)(grid).tolist()) for name in names(rows)]
    first = Panel("Kernel maps", "κ(ρ)", "ρ", maps, y_range=(-1, 1))
    return [first, *(distance_panel(rows, name, cases[name]) for name in names(rows))]


def evidence(rows: list[Row], cases: Mapping[str, int | None]) -> list[Evidence]:
    """The case, the proven factor and the last overlap of every activation."""
    found = []
    for name in names(rows):
        kernel, printed = kernel_of(name), cases[name]
        start = max(row.start for row in rows)
        ends, limit = interval(overlaps(rows, name, start, LAYERS[-1])), mean_field(name, start)[-1]
        follows = ends[1] - CLOSE < limit < ends[2] + CLOSE
        why = f"no number in the thesis; mean field: {limit:.4f}" + ("" if follows else ", which width changes")
        verdict: Verdict = "agrees" if follows else "differs"
        found.append(Evidence(f"ρ at layer {LAYERS[-1]} from {start:g}, {name}", None, *ends, verdict, why))
        if printed is None:
            continue
        assert kernel.case is not None
        case, rate, theirs = float(kernel.case), kernel.rate, printed_rate(kernel, printed)
        if printed != kernel.case:
            why = f"κ′(1) = {kernel.slope_at_one:.6f} (erratum joudaki2024-figure-5.2)"
            found.append(Evidence(f"case of {name}", float(printed), case, case, case, "corrected", why))
            continue
        found.append(Evidence(f"case of {name}", float(printed), case, case, case, "agrees"))
        if abs(rate - theirs) > 1e-9:
            why = f"erratum joudaki2024-theorem-5.11-case-{kernel.case}"
            found.append(Evidence(f"proven factor a layer, {name}", theirs, rate, rate, rate, "corrected", why))
    return found
