r"""Gradients of the first hidden weight at initialization, over the depth of the network: what chapter 6 plots.

Images pass a first layer of `width` units and as many hidden layers as the depth leaves, then a linear head and
cross-entropy. $\nabla W_1$ is the gradient of the first square weight, the second of the network, as in the public
notebooks, where the layer that reads pixels has number 0. That layer is followed in law (`chains.simulate`): drawn as
matrices, orthogonal weights of 3072 pixels would take more time than all the others. Networks of one seed and several
depths share their first layers. The thesis takes one batch of images; here every seed has its own.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, gradients_by_depth, simulate
from orthoscope_papers.evidence import interval
from orthoscope_papers.joudaki2024.shaped_network import image_batch
from orthoscope_papers.panels import Panel, Series, averaged

READING = 1 << 20  # added to a seed, for numbers of the first layer that no other layer has


@dataclass(frozen=True)
class GradientConfig:
    """Images, network and depths; figures differ in the rest."""

    data: str = "cifar10"
    width: int = 100
    batch: int = 100
    depths: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 500, 1000)
    seeds: tuple[int, ...] = tuple(range(10))


class Row(NamedTuple):
    network: str
    width: int
    batch: int
    depth: int
    seed: int
    log_gradient: float


def image_starts(config: GradientConfig) -> Float[Tensor, "seeds samples pixels"]:
    """A batch of images for every seed."""
    batches = [image_batch(config.data, config.batch, torch.Generator().manual_seed(s))[0] for s in config.seeds]
    return torch.stack(batches).double()


def read(images: Tensor, chain: Chain, seeds: Sequence[int]) -> Float[Tensor, "seeds samples units"]:
    """What the first layer of a network makes of the images."""
    return simulate(images, chain, 1, seeds=[READING + seed for seed in seeds], record={}).last


def behind(chain: Chain) -> Chain:
    """The layers that follow the first: their gains begin with that of layer 2."""
    return replace(chain, gain=lambda layer: chain.gain_of(layer + 1))


def first_gradients(name: str, chain: Chain, config: GradientConfig, images: Tensor) -> list[Row]:
    r"""$\log\|\nabla W_1\|_F$ of a kind of network, every seed and depth."""
    return gradients_behind(name, chain, config, read(images, chain, config.seeds))


def gradients_behind(name: str, chain: Chain, config: GradientConfig, hidden: Tensor) -> list[Row]:
    """The same from what the first layer made of the images."""
    square = [depth - 1 for depth in config.depths]
    norms = gradients_by_depth(hidden, behind(chain), square, seeds=config.seeds)
    return [
        Row(name, config.width, config.batch, depth, seed, value)
        for seed, values in zip(config.seeds, norms.tolist(), strict=True)
        for depth, value in zip(config.depths, values, strict=True)
    ]


def curve(rows: Sequence[Row], network: str) -> dict[int, list[float]]:
    """Depth to the log-gradients of all seeds."""
    own = [row for row in rows if row.network == network]
    return {depth: [r.log_gradient for r in own if r.depth == depth] for depth in sorted({r.depth for r in own})}


def growths(rows: Sequence[Row], network: str, first: int = 0) -> list[float]:
    """Least-squares growth of the log-gradient per layer over the depths from `first`, seed by seed."""
    own = [row for row in rows if row.network == network and row.depth >= first]
    return [
        statistics.linear_regression(
            [row.depth for row in own if row.seed == seed], [row.log_gradient for row in own if row.seed == seed]
        ).slope
        for seed in sorted({row.seed for row in own})
    ]


def deeper_half(rows: Sequence[Row]) -> int:
    """The depth at which the deeper half of the depths begins: the first layers are a transient of the images."""
    depths = sorted({row.depth for row in rows})
    return depths[len(depths) // 2]


def late_growth(rows: Sequence[Row], network: str, errors: float = 2.0) -> tuple[float, float, float]:
    """Growth per layer over the deeper half of the depths: mean, and so many standard errors on both sides."""
    return interval(growths(rows, network, deeper_half(rows)), errors)


def panel(rows: Sequence[Row], title: str, networks: Sequence[str], more: Sequence[Series] = ()) -> Panel:
    """The log-gradient over depth, a line a network."""
    series = [*(averaged(name, curve(rows, name)) for name in networks), *more]
    measure = f"log ‖∇W₁‖, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
    return Panel(title, measure, "layers of the network", series)
