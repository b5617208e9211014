r"""Lemma A.8 (joudaki2024, on the networks of daneshmand2021): without batch norm the gap goes to its largest value.

The lemma says $\lim \frac1{2\ell}\log|V(W_\ell\cdots W_1) - \sqrt{(n-1)/n}| \le -\delta$ for some $\delta > 0$, and
that $V$ converges at $e^{-\delta\ell}$. With the $\delta$ of its proof, (A.14), the second is right, and the first
would be twice too fast: (A.13) has a half too many, and (A.16) turns an inequality around. Here the distance is taken
from logarithms of singular values (QR in every layer), as it is far below the rounding of $V$. Beside it a network with
batch norm, which goes the other way.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from orthoscope.chains import Chain, simulate
from orthoscope.metrics.representations import orthogonality_gap
from orthoscope.theory.chain.batch_norm import stationary_gap
from orthoscope.theory.chain.spectrum import collapse_rate, collapsed_gap
from orthoscope_papers.daneshmand2021.vanilla_products import vanilla_products
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Math, Panel, Series, averaged, grouped

CLAIM = (
    "Without batch norm the gap converges to its largest value √((n-1)/n) at the rate exp(-δℓ) of the first two "
    "Lyapunov exponents, δ = Ψ(d/2) - Ψ((d-1)/2), about 1/d a layer; with batch norm it falls to O(d^(-1/2))."
)
KIND = "simulation"
NORMALIZED, VANILLA = "batch norm", "vanilla"


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (8, 16, 32)
    batch: int = 4
    layers_a_unit: int = 60  # depth over width: the distance falls by about as many powers of e
    points: int = 15  # recorded layers
    seeds: tuple[int, ...] = tuple(range(50))


QUICK = Config(widths=(8, 16), layers_a_unit=30, points=6, seeds=tuple(range(40)))


class Row(NamedTuple):
    network: str
    batch: int
    width: int
    seed: int
    layer: int
    log_distance: float  # of the gap from its largest value


def run(config: Config) -> list[Row]:
    rows = []
    for width in config.widths:
        depth = config.layers_a_unit * width
        layers = [depth * point // config.points for point in range(1, config.points + 1)]
        start = torch.eye(config.batch, width, dtype=torch.float64)
        products = vanilla_products(start, Chain(width), depth, seeds=config.seeds, layers=layers)
        recording = simulate(
            start,
            Chain(width, norm="batch_uncentered"),
            depth,
            seeds=config.seeds,
            record={"gap": orthogonality_gap},
            layers=layers,
        )
        normalized = (collapsed_gap(config.batch) - recording.values["gap"]).log()
        for network, values in ((VANILLA, products.log_gap_distance), (NORMALIZED, normalized)):
            for seed, distances in zip(config.seeds, values.tolist(), strict=True):
                rows += [Row(network, config.batch, width, seed, *each) for each in zip(layers, distances, strict=True)]
    return rows


def rates(rows: list[Row], width: int) -> list[float]:
    """Fall a layer of the log-distance between the first and the last recorded layer, seed by seed."""
    own = [row for row in rows if (row.network, row.width) == (VANILLA, width)]
    first, last = min(row.layer for row in own), max(row.layer for row in own)
    ends = {(row.seed, row.layer): row.log_distance for row in own}
    return [(ends[seed, first] - ends[seed, last]) / (last - first) for seed in sorted({row.seed for row in own})]


def widths(rows: list[Row]) -> list[int]:
    return sorted({row.width for row in rows})


def check(rows: list[Row]) -> dict[str, bool]:
    found = {width: interval(rates(rows, width), errors=4.0) for width in widths(rows)}
    batch = rows[0].batch
    normalized = grouped(
        (row.width, collapsed_gap(batch) - math.exp(row.log_distance)) for row in rows if row.network == NORMALIZED
    )
    return {
        "the distance falls at the rate δ of (A.14), within four standard errors": all(
            low < collapse_rate(width) < high for width, (_, low, high) in found.items()
        ),
        "neither at 2δ, as (A.12) with this δ would have it, nor at δ/2, as with (A.13)": all(
            not low < factor * collapse_rate(width) < high
            for width, (_, low, high) in found.items()
            for factor in (0.5, 2.0)
        ),
        "with batch norm the gap stays near its floor instead, within a fifth of theory": all(
            abs(sum(gaps) / len(gaps) / stationary_gap(batch, int(width)) - 1) < 0.2
            for width, gaps in normalized.items()
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    evidence = []
    for width in widths(rows):
        ours, low, high = (value / collapse_rate(width) for value in interval(rates(rows, width)))
        evidence.append(
            Evidence(
                f"fall a layer of log|V - V_max| over the δ of (A.14), width {width}",
                2.0,
                ours,
                low,
                high,
                "corrected" if high < 2 else "agrees",
                "errata joudaki2024-equation-a.13, -a.16: the proof of (A.12) has 2, the words after it 1, rightly",
            )
        )
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds, batch = len({row.seed for row in rows}), rows[0].batch
    own = {width: [row for row in rows if row.width == width] for width in widths(rows)}
    curves = [
        averaged(f"width {width}", ((r.layer / width, r.log_distance) for r in own[width] if r.network == VANILLA))
        for width in own
    ]
    theory = [
        Series(
            Math(r"$-\delta\ell$ of each width"),
            [0, max(row.layer for row in own[width]) / width],
            [0, -collapse_rate(width) * max(row.layer for row in own[width])],
            theory=True,
        )
        for width in own
    ]
    deepest = max(row.layer / row.width for row in rows)
    gaps = [
        averaged(
            f"batch norm, width {width}",
            (
                (row.layer / width, collapsed_gap(batch) - math.exp(row.log_distance))
                for row in own[width]
                if row.network == NORMALIZED
            ),
        )
        for width in own
    ]
    measure = f"mean ± 2 s.e. of {seeds} runs"
    return [
        Panel(
            f"Without batch norm, {batch} samples",
            Math(rf"$\log\,|V - V_{{\max}}|$, {measure}"),
            "layer / width",
            [*curves, *theory],
            y_range=(-1.3 * deepest, 0),
        ),
        Panel(
            f"With batch norm, {batch} samples",
            f"V, {measure}",
            "layer / width",
            gaps,
            [(Math(r"$V_{\max}$, the limit without"), collapsed_gap(batch))],
            y_range=(0, 1),
        ),
    ]
