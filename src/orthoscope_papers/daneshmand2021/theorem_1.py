r"""Daneshmand, Joudaki & Bach (2021), Theorem 1 (joudaki2024, Theorem 2.1): the bound beside the gap it bounds.

The theorem bounds $\mathbb{E}V(H_\ell)$ by $2(1-\frac23\alpha)^{\ell-1} + 3n/(\alpha\sqrt d)$ if $\sigma_n(H_k) \ge
\alpha$ in the layers before (A1). Its proof needs $\sigma_n^2 \ge \alpha$; as printed it is false from 5 samples on.
Here $\alpha$ is the smallest that any run saw. To be less than 1 the bound needs $d > 9n^4$: hence few samples and wide
networks. That the printed form fails is seen at infinite width, where the chain is deterministic and exactly known.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.metrics.representations import orthogonality_gap, smallest_direction_gap
from orthoscope.theory.chain.batch_norm import stationary_gap
from orthoscope.theory.chain.bounds import expected_gap_bound, sharp_expected_gap_bound
from orthoscope.theory.chain.spectrum import collapsed_gap, spectral_orthogonality_gap
from orthoscope_papers.daneshmand2021.spread_inputs import ENORMOUS, infinitely_wide, spread_input, spread_values
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Math, Panel, Series, averaged, grouped

CLAIM = (
    "If the squared smallest singular value is at least α in all layers before, the mean gap of layer ℓ is at most "
    "2(1 - 2α/3)^(ℓ-1) + 3n/(α√d). With α for the singular value itself, as printed, this is false."
)
KIND = "simulation"


@dataclass(frozen=True)
class Config:
    sizes: tuple[tuple[int, int], ...] = ((2, 4096), (4, 65536))  # batch and width
    depth: int = 40
    spread: float = 0.5  # of the energies of the input
    wide_batch: int = 64  # of the network of infinite width
    wide_depth: int = 400
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(sizes=((2, 1024), (4, 2048)), depth=30, seeds=tuple(range(6)))


class Row(NamedTuple):
    batch: int
    width: int
    seed: int
    layer: int
    gap: float
    weakest: float  # squared smallest singular value, norm 1


def run(config: Config) -> list[Row]:
    rows = []
    for batch, width in config.sizes:
        recording = simulate(
            spread_input(batch, width, config.spread),
            Chain(width, norm="batch_uncentered"),
            config.depth,
            seeds=config.seeds,
            record={"gap": orthogonality_gap, "weakest": _weakest},
            layers=range(1, config.depth + 1),
        )
        for index, seed in enumerate(config.seeds):
            gaps, weakest = (recording.values[name][index].tolist() for name in ("gap", "weakest"))
            rows += [Row(batch, width, seed, *each) for each in zip(recording.layers, gaps, weakest, strict=True)]
    batch = config.wide_batch
    for layer, values in infinitely_wide(spread_values(batch, config.spread), config.wide_depth, 20):
        gap = float(spectral_orthogonality_gap(values))
        rows.append(Row(batch, ENORMOUS, 0, layer, gap, float(values.min().square())))
    return rows


def _weakest(hidden: Float[Tensor, "*seeds samples units"]) -> Float[Tensor, "*seeds"]:
    return 1 / hidden.shape[-2] - smallest_direction_gap(hidden)


class Bounds(NamedTuple):
    """At each layer: the mean gap, and what is said of it."""

    layer: int
    gap: float
    printed: float
    corrected: float
    sharp: float


def bounds(rows: list[Row], batch: int, width: int) -> list[Bounds]:
    """With the smallest energy that any run had in any layer for the α of A1, and its root for the printed α."""
    own = [row for row in rows if (row.batch, row.width) == (batch, width)]
    alpha = min(row.weakest for row in own)
    return [
        Bounds(
            int(layer),
            statistics.fmean(gaps),
            printed_bound(batch, width, int(layer), math.sqrt(alpha)),
            expected_gap_bound(batch, width, int(layer), alpha),
            sharp_expected_gap_bound(batch, width, int(layer), alpha),
        )
        for layer, gaps in grouped((row.layer, row.gap) for row in own).items()
    ]


def printed_bound(batch: int, width: int, layer: int, smallest_value: float) -> float:
    r"""$2(1-\frac23\alpha)^{\ell-1} + 3n/(\alpha\sqrt d)$ with $\alpha = \sigma_n$."""
    return 2 * (1 - 2 * smallest_value / 3) ** (layer - 1) + 3 * batch / (smallest_value * math.sqrt(width))


def sizes(rows: list[Row]) -> list[tuple[int, int]]:
    return sorted({(row.batch, row.width) for row in rows}, key=lambda size: size[1])


def check(rows: list[Row]) -> dict[str, bool]:
    tables = {size: bounds(rows, *size) for size in sizes(rows)}
    simulated = {size: table for size, table in tables.items() if size[1] != ENORMOUS}
    (infinite,) = (table for size, table in tables.items() if size[1] == ENORMOUS)
    return {
        "the corrected bound holds at every layer of every network": all(
            each.gap <= each.corrected for table in tables.values() for each in table
        ),
        "so does the sharper one of its proof": all(
            each.gap <= each.sharp for table in tables.values() for each in table
        ),
        "in a wide enough simulated network the bound says something: it is below the largest possible gap": any(
            table[-1].corrected < collapsed_gap(batch) for (batch, _), table in simulated.items()
        ),
        "the printed bound fails at infinite width": any(each.gap > each.printed for each in infinite),
        "deep gaps are those of theory, within a tenth and three standard errors": all(
            abs(table[-1].gap / stationary_gap(*size) - 1) < 0.1 + 1.5 * _relative_error(rows, size)
            for size, table in simulated.items()
        ),
    }


def _relative_error(rows: list[Row], size: tuple[int, int]) -> float:
    deepest = max(row.layer for row in rows if (row.batch, row.width) == size)
    mean, low, high = interval([r.gap for r in rows if (r.batch, r.width) == size and r.layer == deepest])
    return (high - low) / (2 * mean)


def compare(rows: list[Row]) -> list[Evidence]:
    evidence = []
    for batch, width in sizes(rows):
        worst = max(bounds(rows, batch, width), key=lambda each: each.gap / each.printed)
        gaps = [r.gap for r in rows if (r.batch, r.width, r.layer) == (batch, width, worst.layer)]
        infinite = width == ENORMOUS
        fails = worst.gap > worst.printed
        where = "infinite width" if infinite else f"width {width}"
        evidence.append(
            Evidence(
                f"mean V, at most the printed bound: {batch} samples, {where}, layer {worst.layer}",
                worst.printed,
                *interval(gaps),
                "corrected" if fails else "agrees",
                f"erratum daneshmand2021-theorem-1: with A1 on the square the bound is {worst.corrected:.2g}"
                if fails
                else f"a bound; the corrected one is {worst.corrected:.2g}, its sharp form {worst.sharp:.2g}",
            )
        )
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    panels = []
    for batch, width in sizes(rows):
        table = bounds(rows, batch, width)
        layers = [each.layer for each in table]
        measured = averaged("mean gap", ((r.layer, r.gap) for r in rows if (r.batch, r.width) == (batch, width)))
        shown = [value for each in table for value in each[1:]]
        infinite = width == ENORMOUS
        panels.append(
            Panel(
                f"{batch} samples, " + ("infinite width" if infinite else f"width {width}"),
                "V, exact" if infinite else f"V, mean ± 2 s.e. of {seeds} runs",
                "layer",
                [
                    measured,
                    Series(Math(r"bound as printed, $\alpha = \sigma_n$"), layers, [each.printed for each in table]),
                    Series(Math(r"corrected, $\alpha = \sigma_n^2$"), layers, [each.corrected for each in table]),
                    Series("with the constants of the proof", layers, [each.sharp for each in table]),
                ],
                y_range=(max(min(shown) / 2, 1e-9), 3),
                log_y=True,
            )
        )
    return panels
