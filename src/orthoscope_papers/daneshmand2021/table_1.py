r"""Daneshmand, Joudaki & Bach (2021), Table 1 (joudaki2024, Table 2.1): when random networks have Gaussian outputs.

The table: without batch norm, fully connected or convolutional, outputs become Gaussian as the width grows, at a fixed
depth; with it they are in a ball of $\mathcal W_2$ radius $O(\text{width}^{-1/4})$ around a Gaussian at any depth.

Given the last representation $H$ of a linear network, its output $WH$ is Gaussian with the Gram matrix of $H$ for a
covariance, so how far outputs are from the Gaussian of infinite width is how far that Gram matrix is from its limit.
Samples start orthogonal without batch norm, and nearly parallel with it; the limit is $I/n$ for all three, and then

$$ \mathcal W_2^2 = \sum_i \Big(\sigma_i - \frac1{\sqrt n}\Big)^2. $$

Convolutions have kernel 3 over a ring; a sample's positions count as samples, as its output has a covariance over them.
"""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.data import gaussians
from orthoscope.linalg import gram_factor
from orthoscope.theory.chain.bounds import stationary_wasserstein
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "Outputs of random linear networks approach a Gaussian as width^(-1/2). Without batch norm the distance grows with "
    "depth; with it, depth does not matter. The printed radius width^(-1/4) is what Corollary 3 proves, and not tight."
)
KIND = "simulation"
VANILLA, CONVOLUTIONAL, NORMALIZED = "vanilla MLP", "vanilla convnet", "BN MLP"
NETWORKS = (VANILLA, CONVOLUTIONAL, NORMALIZED)
PRINTED_EXPONENT = -0.25
KERNEL = 3


@dataclass(frozen=True)
class Config:
    widths: tuple[int, ...] = (32, 64, 128, 256, 512)
    depths: tuple[int, ...] = (5, 20, 80)  # the fall from a nearly parallel start takes 20
    samples: int = 8
    positions: int = 4  # of a convolution, with samples / positions images
    seeds: tuple[int, ...] = tuple(range(100))


QUICK = Config(widths=(64, 128, 256), seeds=tuple(range(60)))


class Row(NamedTuple):
    network: str
    width: int
    depth: int
    samples: int
    seed: int
    distance: float


def run(config: Config) -> list[Row]:
    return [row for network in NETWORKS for width in config.widths for row in rows_of(config, network, width)]


def rows_of(config: Config, network: str, width: int) -> list[Row]:
    found = convolutional(config, width) if network == CONVOLUTIONAL else connected(config, network, width)
    return [
        Row(network, width, depth, config.samples, seed, distance)
        for seed, distances in zip(config.seeds, found.tolist(), strict=True)
        for depth, distance in zip(config.depths, distances, strict=True)
    ]


def connected(config: Config, network: str, width: int) -> Float[Tensor, "seeds depths"]:
    norm = "batch_uncentered" if network == NORMALIZED else "none"
    start = torch.eye(config.samples, width, dtype=torch.float64) / math.sqrt(config.samples)
    if network == NORMALIZED:
        start = gaussians(config.samples, width, 0.99, torch.Generator().manual_seed(0)).double()
    return simulate(
        start,
        Chain(width, norm=norm),
        max(config.depths),
        seeds=config.seeds,
        record={"distance": _scaled_distance if network == NORMALIZED else distance},
        layers=config.depths,
    ).values["distance"]


def convolutional(config: Config, channels: int) -> Float[Tensor, "seeds depths"]:
    """Linear convolutions over a ring, weights N(0, 1/fan in), from samples orthogonal in every position.

    The channels of an output are independent and Gaussian, and their covariance is the Gram matrix of the patches: only
    they are drawn, not the weights.
    """
    start = torch.eye(config.samples, channels, dtype=torch.float64) / math.sqrt(config.samples)
    hidden = start.expand(len(config.seeds), *start.shape)
    generators = [torch.Generator().manual_seed(seed) for seed in config.seeds]
    found = []
    for layer in range(1, max(config.depths) + 1):
        noise = torch.stack([torch.randn(start.shape, generator=each, dtype=torch.float64) for each in generators])
        hidden = gram_factor(patches(hidden, config.positions)) @ noise / math.sqrt(KERNEL * channels)
        if layer in config.depths:
            found.append(distance(hidden))
    return torch.stack(found, -1)


def patches(hidden: Float[Tensor, "seeds samples channels"], positions: int) -> Float[Tensor, "seeds samples inputs"]:
    """What each position sees: itself and its neighbors on a ring of so many. Images are consecutive samples."""
    rings = hidden.unflatten(1, (-1, positions))
    shifts = range(-(KERNEL // 2), KERNEL // 2 + 1)
    return torch.cat([rings.roll(shift, 2) for shift in shifts], -1).flatten(1, 2)


def distance(hidden: Float[Tensor, "*seeds samples units"]) -> Float[Tensor, "*seeds"]:
    """Of the Gaussian with this Gram matrix from the one with I/n."""
    return (torch.linalg.svdvals(hidden) - hidden.shape[-2] ** -0.5).norm(dim=-1)


def _scaled_distance(hidden: Float[Tensor, "*seeds samples units"]) -> Float[Tensor, "*seeds"]:
    """The same with the norm 1 that the paper's batch norm leaves, whatever constant ours has."""
    return distance(hidden / torch.linalg.matrix_norm(hidden)[..., None, None])


def root_mean_square(rows: list[Row], network: str, width: int, depth: int) -> float:
    found = [row.distance for row in rows if (row.network, row.width, row.depth) == (network, width, depth)]
    return math.sqrt(statistics.fmean(value**2 for value in found))


def exponents(rows: list[Row], network: str, depth: int) -> list[float]:
    """Slope of the logarithm of the distance against that of the width, seed by seed."""
    slopes = []
    for seed in sorted({row.seed for row in rows}):
        own = [row for row in rows if (row.network, row.depth, row.seed) == (network, depth, seed)]
        logs = [math.log(row.width) for row in own], [math.log(row.distance) for row in own]
        slopes.append(statistics.linear_regression(*logs).slope)
    return slopes


def of_law(network: str, least: int, most: int) -> int:
    """The depth at which the law of the width is seen: any with batch norm, once settled; else one below the widths."""
    return most if network == NORMALIZED else least


def growth(rows: list[Row], network: str) -> float:
    """Of the distance from the second to the largest depth, at the largest width."""
    _, settled, *_, deepest = sorted({row.depth for row in rows})
    width = max(row.width for row in rows)
    return root_mean_square(rows, network, width, deepest) / root_mean_square(rows, network, width, settled)


def check(rows: list[Row]) -> dict[str, bool]:
    samples = rows[0].samples
    widths, depths = sorted({row.width for row in rows}), sorted({row.depth for row in rows})
    least, settled, *_, most = depths
    half = {network: interval(exponents(rows, network, of_law(network, least, most))) for network in NETWORKS}
    ratios = [
        root_mean_square(rows, NORMALIZED, width, depth) / stationary_wasserstein(samples, width)
        for width in widths
        for depth in depths
        if depth >= settled
    ]
    return {
        "every network comes closer to a Gaussian with width": all(high < 0 for _, _, high in half.values()),
        "as width^(-1/2) rather than width^(-1/4), within 0.1": all(
            abs(mean + 0.5) < 0.1 and high < PRINTED_EXPONENT for mean, _, high in half.values()
        ),
        "without batch norm the distance grows with depth, at least by a fifth": all(
            growth(rows, network) > 1.2 for network in (VANILLA, CONVOLUTIONAL)
        ),
        "with it the distance does not: by less than a tenth": abs(growth(rows, NORMALIZED) - 1) < 0.1,
        "and is what theory says of deep layers, within a fifth, at every width": all(
            abs(ratio - 1) < 0.2 for ratio in ratios
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    least, settled, *_, most = sorted({row.depth for row in rows})
    mean, low, high = interval(exponents(rows, NORMALIZED, most))
    why = "the table's is the exponent of a proven upper bound (Corollary 3), which holds; the network does better"
    name = f"exponent of the width in W₂ with batch norm, {most} layers"
    verdict: Verdict = "agrees" if high < PRINTED_EXPONENT else "differs"
    evidence = [Evidence(name, PRINTED_EXPONENT, mean, low, high, verdict, why)]
    for network in (VANILLA, CONVOLUTIONAL):
        mean, low, high = interval(exponents(rows, network, least))
        grown = growth(rows, network)
        why = f"to a Gaussian as the width grows; from {settled} to {most} layers the distance grows {grown:.2f}x"
        name = f"exponent of the width in W₂, {network}, {least} layers"
        evidence.append(Evidence(name, None, mean, low, high, "agrees" if high < 0 else "differs", why))
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds, samples = len({row.seed for row in rows}), rows[0].samples
    widths, depths = sorted({row.width for row in rows}), sorted({row.depth for row in rows})
    theory = [(f"theory, width {widths[-1]}", stationary_wasserstein(samples, widths[-1]))]
    return [
        Panel(
            network,
            f"W₂ from the Gaussian of infinite width, mean ± 2 s.e. of {seeds} networks",
            "width",
            [
                averaged(
                    f"{depth} layers", [(r.width, r.distance) for r in rows if (r.network, r.depth) == (network, depth)]
                )
                for depth in depths
            ],
            theory if network == NORMALIZED else [],
            log_x=True,
            log_y=True,
        )
        for network in NETWORKS
    ]
