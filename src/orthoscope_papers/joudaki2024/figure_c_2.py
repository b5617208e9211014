r"""Joudaki (2024), Figure C.2: the explosion rate of early layers as a function of the gain exponent.

Orthogonal weights, standard batch norm, width and batch 100, tanh or sin at gain $\alpha_\ell = \ell^{p}$. The rate,
$R(\ell) = (\log\|\nabla W_{\ell-10}\| - \log\|\nabla W_\ell\|)/10$ with the sign of (C.155) corrected, is taken over
the first ten square weights; the one that reads the images has another shape. The thesis: depths 100 to 1000. The rate
of early layers does not know how many follow, so the default is shallower.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import NamedTuple

from orthoscope.chains import Chain, simulate_gradients
from orthoscope.metrics import explosion_rate
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.joudaki2024.first_gradients import GradientConfig, behind, image_starts, read
from orthoscope_papers.joudaki2024.shaped_network import gain_of
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "The explosion rate of early layers falls as the gain exponent falls, for tanh and sin, and does not depend on the "
    "depth of the network."
)
KIND = "simulation"
DATA = ("cifar10",)
GAP = 10


@dataclass(frozen=True)
class Config(GradientConfig):
    activations: tuple[str, ...] = ("tanh", "sin")
    exponents: tuple[float, ...] = (0.0, -0.1, -0.2, -0.3, -0.4, -0.5)
    depths: tuple[int, ...] = (30, 80)


QUICK = Config(data="digits", width=32, batch=32, exponents=(0.0, -0.2, -0.4), depths=(20, 40), seeds=tuple(range(10)))
FULL = Config(depths=(100, 200, 500, 1000))


class Row(NamedTuple):
    activation: str
    exponent: float
    depth: int
    seed: int
    rate: float


def cells(config: Config) -> list[Config]:
    """One activation and exponent each."""
    pairs = product(config.activations, config.exponents)
    return [replace(config, activations=(name,), exponents=(exponent,)) for name, exponent in pairs]


def run(config: Config) -> list[Row]:
    """The rate over the first ten square weights of every network."""
    images = image_starts(config)
    ends = (1, 1 + GAP)  # of the square weights
    rows = []
    for name, exponent, depth in product(config.activations, config.exponents, config.depths):
        chain = Chain(config.width, init="orthogonal", activation=name, norm="batch", gain=gain_of(exponent))
        starts = read(images, chain, config.seeds)
        norms = simulate_gradients(starts, behind(chain), depth - 1, seeds=config.seeds, layers=ends)
        rates = (explosion_rate(norms, 1) / GAP).squeeze(-1).tolist()
        rows += [Row(name, exponent, depth, seed, rate) for seed, rate in zip(config.seeds, rates, strict=True)]
    return rows


def curve(rows: Sequence[Row], activation: str, depth: int) -> dict[float, list[float]]:
    """Exponent to the rates of all seeds, from the largest exponent on."""
    own = [row for row in rows if (row.activation, row.depth) == (activation, depth)]
    return {p: [r.rate for r in own if r.exponent == p] for p in sorted({r.exponent for r in own}, reverse=True)}


def check(rows: list[Row]) -> dict[str, bool]:
    """The rate falls with the exponent and is the same at all depths."""
    names, depths = sorted({row.activation for row in rows}), sorted({row.depth for row in rows})
    curves = {(name, depth): curve(rows, name, depth) for name in names for depth in depths}
    means = {key: [interval(values, 1.0) for values in points.values()] for key, points in curves.items()}
    return {
        "the rate falls with every step of the exponent, in the mean": all(
            high[0] > low[0] for points in means.values() for high, low in pairwise(points)
        ),
        "the smallest exponent leaves less than half of the rate at gain 1": all(
            points[-1][0] < 0.5 * points[0][0] for points in means.values()
        ),
        "depth does not matter: rates of the shallowest and deepest networks within 4 standard errors": all(
            abs(near[0] - far[0]) < 4 * math.hypot(near[2] - near[0], far[2] - far[0])
            for name in names
            for near, far in zip(means[name, depths[0]], means[name, depths[-1]], strict=True)
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The rate at gain 1 and at the smallest exponent; the thesis shows a picture."""
    found = []
    deepest = max(row.depth for row in rows)
    for name in sorted({row.activation for row in rows}):
        points = curve(rows, name, deepest)
        plain = interval(points[max(points)])
        for exponent in (max(points), min(points)):
            mean, low, high = interval(points[exponent])
            falls = low > 0 if exponent == max(points) else mean < 0.5 * plain[0]
            quantity = f"rate of the first layers, {name}, exponent {exponent:g}"
            found.append(Evidence(quantity, None, mean, low, high, "agrees" if falls else "differs", "shown to fall"))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """A panel an activation, a line a depth."""
    depths, seeds = sorted({row.depth for row in rows}), len({row.seed for row in rows})
    panels = []
    for name in sorted({row.activation for row in rows}):
        series = [
            averaged(f"{depth} layers", {-p: values for p, values in curve(rows, name, depth).items()})
            for depth in depths
        ]
        measure = f"rate of the first ten layers, mean ± 2 s.e. of {seeds} seeds"
        panels.append(Panel(name, measure, "minus the gain exponent", series))
    return panels
