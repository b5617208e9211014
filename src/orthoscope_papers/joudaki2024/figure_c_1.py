r"""Joudaki (2024), Figure C.1: the explosion rate as a function of the gain, and the power law fitted to it.

Orthogonal weights, standard batch norm, width and batch 100, tanh or sin at a gain $\alpha$ that is the same in all
layers. The rate is $R(\ell) = (\log\|\nabla W_{\ell-10}\| - \log\|\nabla W_\ell\|)/10$, with the sign of (C.155)
corrected. The thesis measures it in 1000 layers and fits $R = c_1\alpha^{c_2}$, from which it takes its gain exponent;
so does this module, in the middle of fewer layers, where the rate is the same in all. Within a hundred layers of the
images it is larger at small gains, and the fitted exponents are smaller: 2.1 and 3.1 over layers 30 to 100.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from orthoscope.chains import Chain, simulate_gradients
from orthoscope.metrics import explosion_rate
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.first_gradients import GradientConfig, behind, image_starts, read
from orthoscope_papers.panels import Math, Panel, Series, averaged

CLAIM = (
    "With orthogonal weights and batch norm gradients explode at a rate that falls with the gain of tanh and sin, "
    "roughly as a power: 2.4 for tanh and 3.1 for sin in the thesis, 2.2 and 3.5 far from the images."
)
KIND = "simulation"
DATA = ("cifar10",)

GAP = 10  # layers between the two gradients of a rate
SMALLEST, LARGEST = slice(2), slice(-2, None)  # two of the gains
PRINTED_EXPONENTS, DIGITS = {"tanh": 2.4, "sin": 3.1}, 0.05  # printed with two digits


@dataclass(frozen=True)
class Config(GradientConfig):
    activations: tuple[str, ...] = ("tanh", "sin")
    gains: tuple[float, ...] = (0.4, 0.6, 0.8, 1.0)
    depths: tuple[int, ...] = (500,)  # the deepest counts; the thesis: 1000
    skipped: int = 200  # layers at both ends, where images and head are still felt: they fade as exp(-2ℓ/d)
    seeds: tuple[int, ...] = tuple(range(5))  # the thesis: 10


QUICK = Config(data="digits", width=24, batch=24, depths=(140,), skipped=60, seeds=tuple(range(12)))
FULL = Config(
    gains=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), depths=(1000,), skipped=200, seeds=tuple(range(10))
)


class Row(NamedTuple):
    activation: str
    gain: float
    seed: int
    layer: int
    rate: float


def cells(config: Config) -> list[Config]:
    """One activation and gain each."""
    return [replace(config, activations=(n,), gains=(g,)) for n, g in product(config.activations, config.gains)]


def run(config: Config) -> list[Row]:
    """Rates over windows of ten layers that do not overlap."""
    images, depth = image_starts(config), max(config.depths)
    rows = []
    for name, gain in product(config.activations, config.gains):
        chain = Chain(config.width, init="orthogonal", activation=name, norm="batch", gain=gain)
        starts = read(images, chain, config.seeds)
        # rates[:, i] is R of layer i + GAP + 2: layers count from 1, and that is the one that reads the images.
        rates = explosion_rate(simulate_gradients(starts, behind(chain), depth - 1, seeds=config.seeds), GAP)
        for layer in range(config.skipped + GAP, depth - config.skipped + 1, GAP):
            column = rates[:, layer - GAP - 2].tolist()
            rows += [Row(name, gain, seed, layer, rate) for seed, rate in zip(config.seeds, column, strict=True)]
    return rows


def rates(rows: Sequence[Row], activation: str) -> dict[float, list[float]]:
    """Gain to the mean rate over layers, seed by seed."""
    own = [row for row in rows if row.activation == activation]
    seeds = sorted({row.seed for row in own})
    return {
        gain: [statistics.fmean(r.rate for r in own if (r.gain, r.seed) == (gain, seed)) for seed in seeds]
        for gain in sorted({row.gain for row in own})
    }


def power_law(gains: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    r"""$c_1, c_2$ of $c_1\alpha^{c_2}$ by least squares of logarithms; 0 and 0 if some rate has none."""
    if min(values) <= 0:
        return 0.0, 0.0
    law = statistics.linear_regression([math.log(gain) for gain in gains], [math.log(value) for value in values])
    return math.exp(law.intercept), law.slope


def exponents(rows: Sequence[Row], activation: str, part: slice = slice(None)) -> list[float]:
    """The fitted exponent of every seed, over all gains or a part of them, the smallest first."""
    curve = rates(rows, activation)
    gains = list(curve)[part]
    return [power_law(gains, [curve[gain][seed] for gain in gains])[1] for seed in range(len(curve[gains[0]]))]


def check(rows: list[Row]) -> dict[str, bool]:
    """Monotone in the gain, steeper for sin, and no exact power law."""
    names = sorted({row.activation for row in rows})
    curves = {name: rates(rows, name) for name in names}
    means = {name: [interval(values, 3.0) for values in curves[name].values()] for name in names}
    fitted = {name: interval(exponents(rows, name), 3.0) for name in names}
    # Both read the same images, seed by seed.
    steeper = [sin - tanh for sin, tanh in zip(exponents(rows, "sin"), exponents(rows, "tanh"), strict=True)]
    return {
        "the rate is positive at every gain, with the sign corrected": all(
            m[1] > 0 for name in names for m in means[name]
        ),
        "it grows with the gain, intervals of 3 standard errors do not overlap": all(
            low[2] < high[1] for name in names for low, high in zip(means[name], means[name][1:], strict=False)
        ),
        "it falls faster with the gain for sin than for tanh": interval(steeper, 3.0)[1] > 0,
        "the fitted exponents are those of the thesis, 2.4 and 3.1, to 0.6": all(
            abs(fitted[name][0] - PRINTED_EXPONENTS[name]) < 0.6 for name in names
        ),
        "that of tanh is no exact power: it is larger between the two smallest gains than between the two largest": (
            statistics.fmean(exponents(rows, "tanh", SMALLEST)) > statistics.fmean(exponents(rows, "tanh", LARGEST))
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Fitted exponents, and the rate at gain 1."""
    found = []
    for name, printed in PRINTED_EXPONENTS.items():
        mean, low, high = interval(exponents(rows, name))
        ends = [statistics.fmean(exponents(rows, name, part)) for part in (SMALLEST, LARGEST)]
        why = (
            f"a fit depends on gains and layers; {ends[0]:.2f} between the two smallest gains, {ends[1]:.2f} between "
            "the two largest; nearer to the images it is less"
        )
        verdict: Verdict = "agrees" if low - DIGITS <= printed <= high + DIGITS else "differs"
        found.append(Evidence(f"c₂ of the rate c₁α^c₂, {name}", printed, mean, low, high, verdict, why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """A panel an activation: rate over gain, with the fitted power law."""
    panels = []
    for name in sorted({row.activation for row in rows}):
        curve = rates(rows, name)
        gains = list(curve)
        scale, power = power_law(gains, [statistics.fmean(values) for values in curve.values()])
        fit = Series(
            Math(rf"fitted: ${scale:.3g}\,\alpha^{{{power:.2f}}}$"), gains, [scale * gain**power for gain in gains]
        )
        series = [averaged("measured", curve), fit]
        measure = f"explosion rate, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
        panels.append(Panel(name, measure, "gain α", series, log_x=True, log_y=True))
    return panels
