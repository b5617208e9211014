r"""Daneshmand, Joudaki & Bach (2021), Corollary 3 (joudaki2024, Corollary 2.3): how Gaussian a layer is, and the bound.

The corollary bounds the square of the Wasserstein distance of $W_\ell H_\ell$ from a Gaussian matrix by
$4n(1-\frac23\alpha)^\ell + 6n^2/(\alpha\sqrt d)$ under A1, and is followed by: the radius is $O(d^{-1/2})$. The
exponent must be $\ell - 1$ and A1 on $\sigma_n^2$, and the radius so proven is $O(d^{-1/4})$. What the network does is
better: for fixed $H$ the squared distance is exactly $\sum_i(\sigma_i - n^{-1/2})^2$, and its root mean square falls as
$d^{-1/2}$.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.theory.chain.bounds import stationary_wasserstein, wasserstein_bound, wasserstein_to_gaussian
from orthoscope.theory.chain.spectrum import energy_shares
from orthoscope_papers.daneshmand2021.spread_inputs import ENORMOUS, infinitely_wide, spread_input, spread_values
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Math, Panel, Series

CLAIM = (
    "Under A1 on the squared smallest singular value the law of a deep linear layer is in a Wasserstein ball around a "
    "Gaussian whose proven radius is O(width^(-1/4)); the distance itself falls as width^(-1/2)."
)
KIND = "simulation"
NEAR = 0.04  # slopes of finitely many, not infinitely wide networks
DEEP = 10**6  # layers, after which only the radius is left of the bound


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (64, 256, 1024, 4096, 16384)
    batch: int = 4
    depth: int = 30
    spread: float = 0.5  # of the energies of the input
    wide_batch: int = 144  # of the network of infinite width
    wide_depth: int = 600
    wide_spread: float = 0.2
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(widths=(64, 512, 2048), seeds=tuple(range(12)))


class Row(NamedTuple):
    batch: int
    width: int
    seed: int
    layer: int
    distance: float  # of the law of WH, H given, from the Gaussian
    weakest: float  # squared smallest singular value, norm 1


def run(config: Config) -> list[Row]:
    rows = []
    for width in config.widths:
        recording = simulate(
            spread_input(config.batch, width, config.spread),
            Chain(width, norm="batch_uncentered"),
            config.depth,
            seeds=config.seeds,
            record={"values": torch.linalg.svdvals},
            layers=range(1, config.depth + 1),
        )
        for seed, values in zip(config.seeds, recording.values["values"], strict=True):
            rows += _rows(config.batch, width, seed, recording.layers, values)
    start = spread_values(config.wide_batch, config.wide_spread)
    layers, spectra = zip(*infinitely_wide(start, config.wide_depth, 20), strict=True)
    return rows + _rows(config.wide_batch, ENORMOUS, 0, list(layers), torch.stack(spectra))


def _rows(batch: int, width: int, seed: int, layers: list[int], values: Float[Tensor, "layers samples"]) -> list[Row]:
    distances, weakest = wasserstein_to_gaussian(values).tolist(), energy_shares(values).amin(-1).tolist()
    return [Row(batch, width, seed, *each) for each in zip(layers, distances, weakest, strict=True)]


class Bounds(NamedTuple):
    """At one layer: the root mean square distance, and what is said of it."""

    layer: int
    distance: float
    printed: float
    corrected: float


def bounds(rows: list[Row], width: int) -> list[Bounds]:
    """With the smallest energy that any run had in any layer for the α of A1, and its root for the printed α."""
    own = [row for row in rows if row.width == width]
    batch, alpha = own[0].batch, min(row.weakest for row in own)
    table = []
    for layer in sorted({row.layer for row in own}):
        square = statistics.fmean(row.distance**2 for row in own if row.layer == layer)
        printed = printed_bound(batch, width, layer, math.sqrt(alpha))
        table.append(Bounds(layer, math.sqrt(square), printed, wasserstein_bound(batch, width, layer, alpha)))
    return table


def printed_bound(batch: int, width: int, layer: int, smallest_value: float) -> float:
    r"""$\sqrt{4n(1-\frac23\alpha)^\ell + 6n^2/(\alpha\sqrt d)}$ with $\alpha = \sigma_n$, of the distance itself."""
    decay = 4 * batch * (1 - 2 * smallest_value / 3) ** layer
    return math.sqrt(decay + 6 * batch**2 / (smallest_value * math.sqrt(width)))


def widths(rows: list[Row]) -> list[int]:
    return sorted({row.width for row in rows} - {ENORMOUS})


def slopes(rows: list[Row]) -> list[float]:
    """Slope against log width of the log root mean square distance in the second half of the layers, by seed."""
    last = max(row.layer for row in rows if row.width != ENORMOUS)
    found = []
    for seed in sorted({row.seed for row in rows}):
        late = [row for row in rows if row.seed == seed and row.width != ENORMOUS and row.layer > last // 2]
        squares = [statistics.fmean(row.distance**2 for row in late if row.width == width) for width in widths(rows)]
        line = statistics.linear_regression([math.log(w) for w in widths(rows)], [math.log(s) / 2 for s in squares])
        found.append(line.slope)
    return found


def radius_slope(rows: list[Row]) -> float:
    """Of the radius that the corollary proves, for one α at all widths."""
    batch, alpha = rows[0].batch, min(row.weakest for row in rows if row.width != ENORMOUS)
    radii = [wasserstein_bound(batch, width, DEEP, alpha) for width in widths(rows)]
    return statistics.linear_regression([math.log(w) for w in widths(rows)], [math.log(r) for r in radii]).slope


def check(rows: list[Row]) -> dict[str, bool]:
    tables = {width: bounds(rows, width) for width in [*widths(rows), ENORMOUS]}
    widest = widths(rows)[-1]
    last = tables[widest][-1].layer
    late = [row.distance**2 for row in rows if row.width == widest and row.layer > last // 2]
    theory = stationary_wasserstein(rows[0].batch, widest)
    return {
        "the corrected bound holds at every layer of every network": all(
            each.distance <= each.corrected for table in tables.values() for each in table
        ),
        "the printed one fails at infinite width": any(each.distance > each.printed for each in tables[ENORMOUS]),
        "the distance itself falls as width^(-1/2), within 0.04": abs(statistics.fmean(slopes(rows)) + 0.5) < NEAR,
        "in the widest network it is that of theory, within a tenth": (
            abs(math.sqrt(statistics.fmean(late)) / theory - 1) < 0.1
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    slope = radius_slope(rows)
    worst = max(bounds(rows, ENORMOUS), key=lambda each: each.distance / each.printed)
    return [
        Evidence(
            "exponent of the width in the radius that Corollary 3 proves",
            -0.5,
            slope,
            slope,
            slope,
            "corrected",
            "erratum daneshmand2021-corollary-3-radius: the corollary bounds the square; Table 1 of the paper has -1/4",
        ),
        Evidence(
            "exponent of the width in the distance itself",
            -0.5,
            *interval(slopes(rows)),
            "agrees" if abs(statistics.fmean(slopes(rows)) + 0.5) < NEAR else "differs",
            "not by the corollary, but because the distance is at most √n times the root mean square of V; of wide "
            f"networks, from which narrow ones may differ by {NEAR:g}",
        ),
        Evidence(
            f"distance at infinite width, at most the printed bound: layer {worst.layer}",
            worst.printed,
            worst.distance,
            worst.distance,
            worst.distance,
            "corrected" if worst.distance > worst.printed else "agrees",
            f"erratum daneshmand2021-corollary-3: exponent ℓ-1 and A1 on the square give {worst.corrected:.2g}",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    seeds, batch = len({row.seed for row in rows}), rows[0].batch
    across, infinite = widths(rows), bounds(rows, ENORMOUS)
    deepest = [bounds(rows, width)[-1] for width in across]
    said = [deepest[0].corrected * (width / across[0]) ** -0.5 for width in across]
    layers = [each.layer for each in infinite]
    return [
        Panel(
            f"{batch} samples, layer {deepest[0].layer}",
            f"Wasserstein distance to the Gaussian, root mean square of {seeds} runs",
            "width",
            [
                Series("distance", across, [each.distance for each in deepest], marks=True),
                Series("bound, corrected", across, [each.corrected for each in deepest], marks=True),
                Series(Math("the radius as the words after it have it, width$^{-1/2}$"), across, said),
                Series("theory", across, [stationary_wasserstein(batch, width) for width in across], theory=True),
            ],
            log_x=True,
            log_y=True,
        ),
        Panel(
            "Infinite width",
            f"distance, exact, {next(row.batch for row in rows if row.width == ENORMOUS)} samples",
            "layer",
            [
                Series("distance", layers, [each.distance for each in infinite]),
                Series(Math(r"bound as printed, $\alpha = \sigma_n$"), layers, [each.printed for each in infinite]),
                Series(Math(r"corrected, $\alpha = \sigma_n^2$"), layers, [each.corrected for each in infinite]),
            ],
            y_range=(min(each.distance for each in infinite) / 10, 100),
            log_y=True,
        ),
    ]
