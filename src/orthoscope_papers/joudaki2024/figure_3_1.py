r"""Joudaki (2024), figure 3.1: the error of the mean field, with and without batch normalization.

The thesis shows $\|G_\ell - G_*\|_F$ against depth, 5 samples, width 1000, 10 networks: without normalization (and
linear) it grows, with batch normalization it stays. Here both come with what theory says they are. Without
normalization $G_* = G_0$, and as $G_{\ell+1}$ is a Wishart matrix of mean $G_\ell$, moments close:

$$ E\operatorname{tr}G_{\ell+1}^2
   = \Big(1+\frac1d\Big)E\operatorname{tr}G_\ell^2 + \frac1d E(\operatorname{tr}G_\ell)^2, \qquad
   E(\operatorname{tr}G_{\ell+1})^2 = E(\operatorname{tr}G_\ell)^2 + \frac2d E\operatorname{tr}G_\ell^2, $$

and $E\|G_\ell - G_0\|_F^2 = E\operatorname{tr}G_\ell^2 - \operatorname{tr}G_0^2$. Section 3.3.4 says that $G_*$ of
linear networks is the identity; with centering it is $\tfrac{n}{n-1}(I - \tfrac1n\mathbf{1}\mathbf{1}^\top)$.
"""

import math
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import NamedTuple

import torch

from orthoscope.chains import Chain, simulate
from orthoscope.theory import gram_fixed_point
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.gram_chains import distance, frame, predicted_distance, root_mean_square
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "Without normalization the distance of Gram matrices from their mean field grows with depth; with batch "
    "normalization it stays at a level of order width^(-1/2) at any depth."
)
KIND = "simulation"
VANILLA = "linear, no normalization"
NETWORKS = {VANILLA: "identity", "linear, batch norm": "identity", "ReLU, batch norm": "relu"}


@dataclass(frozen=True)
class Config:
    batch: int = 5
    width: int = 1000
    depth: int = 100
    every: int = 4
    seeds: tuple[int, ...] = tuple(range(40))


QUICK = Config(width=200, depth=40, seeds=tuple(range(20)))


class Row(NamedTuple):
    network: str
    batch: int
    width: int
    seed: int
    layer: int
    distance: float  # ‖G - G*‖, Frobenius


def run(config: Config) -> list[Row]:
    """Every network from orthogonal samples, one a seed."""
    layers = [1, *range(config.every, config.depth + 1, config.every)]
    rows = []
    for network, activation in NETWORKS.items():
        plain = network == VANILLA
        target = torch.eye(config.batch, dtype=torch.float64) if plain else gram_fixed_point(activation, config.batch)
        found = simulate(
            frame(config.batch, config.width),
            Chain(config.width, activation=activation, norm="none" if plain else "batch"),
            config.depth,
            seeds=config.seeds,
            record={"distance": partial(distance, target=target)},
            layers=layers,
        ).values["distance"]
        rows += [
            Row(network, config.batch, config.width, seed, layer, float(found[i, j]))
            for (i, seed), (j, layer) in product(enumerate(config.seeds), enumerate(layers))
        ]
    return rows


def vanilla_distance(batch: int, width: int, depth: int) -> float:
    r"""$\sqrt{E\|G_\ell - I\|_F^2}$ of a linear network without normalization, exact at every width and depth."""
    square_trace, trace_square = float(batch), float(batch**2)
    for _ in range(depth):
        square_trace, trace_square = (
            (1 + 1 / width) * square_trace + trace_square / width,
            trace_square + 2 * square_trace / width,
        )
    return math.sqrt(square_trace - batch)


def prediction(row: Row) -> float:
    """Root mean square of the distance: exact without normalization, of deep networks with it."""
    if row.network == VANILLA:
        return vanilla_distance(row.batch, row.width, row.layer)
    return predicted_distance(NETWORKS[row.network], row.batch, row.width)


def distances(rows: list[Row], network: str, layer: int) -> list[float]:
    """Seed by seed."""
    return [row.distance for row in rows if (row.network, row.layer) == (network, layer)]


def check(rows: list[Row]) -> dict[str, bool]:
    layers = sorted({row.layer for row in rows})
    first, last = layers[0], layers[-1]

    def ratio(network: str, layer: int) -> float:
        example = next(row for row in rows if (row.network, row.layer) == (network, layer))
        return root_mean_square(distances(rows, network, layer)) / prediction(example)

    growth = [root_mean_square(distances(rows, VANILLA, layer)) for layer in layers]
    return {
        "without normalization the distance at the last layer is at least three times that of the first": (
            growth[-1] > 3 * growth[0]
        ),
        "and follows the exact moments of products of Wishart matrices within 30 % at every layer": all(
            0.7 < ratio(VANILLA, layer) < 1.3 for layer in layers
        ),
        "with batch norm it is within 20 % of the predicted level in the second half of the layers, on average": all(
            0.8 < root_mean_square([ratio(network, layer) for layer in layers if 2 * layer >= last]) < 1.2
            for network in NETWORKS
            if network != VANILLA
        ),
        "at the last layer every network with batch norm is closer than half of the mean without": all(
            2 * max(distances(rows, network, last)) < interval(distances(rows, VANILLA, last))[0]
            for network in NETWORKS
            if network != VANILLA
        ),
        "with batch norm the first layer is already there: at most the level that depth has, plus 20 %": all(
            ratio(network, first) < 1.2 for network in NETWORKS if network != VANILLA
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    layers = sorted({row.layer for row in rows})
    last, middle = layers[-1], layers[len(layers) // 2]
    found = []
    for network in NETWORKS:
        mean, low, high = interval(distances(rows, network, last))
        grows = mean > 1.2 * interval(distances(rows, network, middle))[0]
        verdict: Verdict = "agrees" if grows == (network == VANILLA) else "differs"
        level = prediction(next(row for row in rows if (row.network, row.layer) == (network, last)))
        words = "grows with depth" if network == VANILLA else "stays where it is"
        why = f"a picture in the thesis: the distance {words}, more than 1.2 times from layer {middle} is growth; "
        why += f"theory gives {level:.3g} (root mean square)"
        found.append(Evidence(f"‖G - G*‖ at layer {last}, {network}", None, mean, low, high, verdict, why))
    off = float(gram_fixed_point("identity", rows[0].batch)[0, 1])
    why = "erratum joudaki2024-section-3.3.4: centered, G* is n/(n-1) (I - 11ᵀ/n), not the identity; measured from it"
    found.append(Evidence("off-diagonal entry of G*, linear, batch norm", 0.0, off, off, off, "corrected", why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    layers = sorted({row.layer for row in rows})
    seeds, size = len({row.seed for row in rows}), f"{rows[0].batch} samples, width {rows[0].width}"
    levels = [averaged(name, {layer: distances(rows, name, layer) for layer in layers}) for name in NETWORKS]
    exact = [vanilla_distance(rows[0].batch, rows[0].width, layer) for layer in layers]
    references = [
        (f"predicted, {name}", predicted_distance(NETWORKS[name], rows[0].batch, rows[0].width))
        for name in NETWORKS
        if name != VANILLA
    ]
    return [
        Panel(
            f"The error of the mean field: {size}",
            f"‖G − G*‖, mean ± 2 s.e. of {seeds} networks",
            "layer",
            [*levels, Series("exact, no normalization (root mean square)", layers, exact)],
            references,
            y_range=(0.03, 10),
            log_y=True,
        )
    ]
