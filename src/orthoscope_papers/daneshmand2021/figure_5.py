r"""Daneshmand, Joudaki & Bach (2021), Figure 5: the orthogonality gap over the layers of ReLU networks, on images.

Shown there: a fully connected and a convolutional network on CIFAR-10, with and without batch norm, 30 layers of 100
units or channels, batches of 8. As in the authors' notebook layer 1 is the batch itself, the next are $Q \mapsto
\operatorname{BN}(W \operatorname{ReLU}(Q))$, and batch norm is the usual one, which subtracts the mean. So the samples
of a fully connected layer sum to zero, and cannot be orthogonal: with $n$ of them $V \ge 1/\sqrt{n(n-1)}$, 0.134 for 8.
Here every seed is a new network and a new batch.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.data import Dataset
from orthoscope.metrics import orthogonality_gap
from orthoscope.models import MLP, ConvNet
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.image_sets import load
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "In ReLU networks on images, fully connected or convolutional, the orthogonality gap rises with depth towards its "
    "maximum without batch norm; with it, it falls to less than half of the input's, and in a fully connected network "
    "to a level that depth does not change."
)
KIND = "simulation"
DATA = ("cifar10",)
TITLES = {"mlp": "Fully connected", "convnet": "Convolutional"}
NETWORKS, NORMS = tuple(TITLES), ("batch", "none")
# Off the notebook's picture of the fully connected network, at layer 30; it can be read to a hundredth.
PRINTED, READING = {"batch": 0.19, "none": 0.93}, 0.01
# The notebook standardizes CIFAR-10 by the mean and deviation of MNIST.
MEAN, DEVIATION = 0.1307, 0.3081


@dataclass(frozen=True)
class Config:
    dataset: str = "cifar10"
    networks: tuple[str, ...] = NETWORKS
    layers: int = 30
    width: int = 100
    channels: int = 100
    batch: int = 8
    seeds: tuple[int, ...] = tuple(range(10))


QUICK = Config(dataset="digits", channels=32, seeds=tuple(range(6)))
FULL = Config(seeds=tuple(range(50)))


class Row(NamedTuple):
    network: str
    norm: str
    batch: int
    seed: int
    layer: int  # 1 is the batch
    gap: float


def run(config: Config) -> list[Row]:
    return [
        Row(network, norm, config.batch, seed, layer, gap)
        for seed in config.seeds
        for network in config.networks
        for norm in NORMS
        for layer, gap in enumerate(gaps(config, network, norm, seed), start=1)
    ]


def cells(config: Config) -> list[Config]:
    return [replace(config, seeds=(seed,)) for seed in config.seeds]


@lru_cache(maxsize=1)
def _images(dataset: str) -> Dataset:
    """Read once: every network and norm of every seed needs a batch."""
    return load(dataset, "train")


@torch.no_grad()
def gaps(config: Config, network: str, norm: str, seed: int) -> list[float]:
    """Of the batch, and of what leaves the weight and the norm of each layer."""
    generator = torch.Generator().manual_seed(seed)
    pixels, _ = _images(config.dataset).batch(config.batch, generator)
    hidden: Tensor = (pixels - MEAN) / DEVIATION
    found = [_gap(hidden)]
    hidden = hidden.relu() if network == "convnet" else hidden.relu().flatten(1)
    for block in _layers(config, network, norm, hidden.shape[1], generator):
        assert isinstance(block, nn.Sequential)
        hidden = block[:-1](hidden)
        found.append(_gap(hidden))
        hidden = block[-1](hidden)
    return found


def _layers(config: Config, network: str, norm: str, inputs: int, generator: torch.Generator) -> nn.Sequential:
    depth = config.layers - 1
    if network == "convnet":
        convnet = ConvNet(
            depth=depth, channels=config.channels, in_channels=inputs, out_features=None, norm=norm, generator=generator
        )
        return convnet.layers
    mlp = MLP(depth=depth, width=config.width, in_features=inputs, out_features=None, norm=norm, generator=generator)
    return mlp.layers


def _gap(hidden: Tensor) -> float:
    return float(orthogonality_gap(hidden.flatten(1)))


def zero_sum_gap(batch: int) -> float:
    """The least gap of samples that sum to zero: one direction of so many is missing."""
    return 1 / math.sqrt(batch * (batch - 1))


def largest_gap(batch: int) -> float:
    """Of samples on a line."""
    return math.sqrt((batch - 1) / batch)


def at(rows: list[Row], network: str, norm: str, layer: int) -> list[float]:
    return [row.gap for row in rows if (row.network, row.norm, row.layer) == (network, norm, layer)]


def check(rows: list[Row]) -> dict[str, bool]:
    batch, last = rows[0].batch, max(row.layer for row in rows)
    networks = sorted({row.network for row in rows})
    looked_at = (1, last // 2, last)
    batch_norm = {name: [interval(at(rows, name, "batch", layer)) for layer in looked_at] for name in networks}
    vanilla = {name: [interval(at(rows, name, "none", layer)) for layer in (1, last)] for name in networks}
    normalized = [row.gap for row in rows if (row.network, row.norm) == ("mlp", "batch") and row.layer > 1]
    return {
        "without batch norm the gap rises from the input to the last layer": all(
            first[2] < end[1] for first, end in vanilla.values()
        ),
        "to nine tenths of its maximum at least": all(end[0] > 0.9 * largest_gap(batch) for _, end in vanilla.values()),
        "with batch norm it falls to less than half of the input's": all(
            end[2] < first[1] / 2 for first, _, end in batch_norm.values()
        ),
        "fully connected: the second half of the layers changes it by less than a tenth of the input's": all(
            abs(end[0] - middle[0]) < 0.1 * first[0]
            for name, (first, middle, end) in batch_norm.items()
            if name == "mlp"
        ),
        "in a fully connected network it is never below that of samples that sum to zero": (
            min(normalized) >= zero_sum_gap(batch) * (1 - 1e-6)
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """At the last layer; the paper's numbers are those of its notebook's picture, of fully connected networks."""
    last = max(row.layer for row in rows)
    evidence = []
    for norm, printed in PRINTED.items():
        mean, low, high = interval(at(rows, "mlp", norm, last))
        agrees = low - READING <= printed <= high + READING
        name = f"V at layer {last}, fully connected, {'with' if norm == 'batch' else 'without'} batch norm"
        why = f"read off a picture, to {READING}, which is in the interval"
        verdict: Verdict = "agrees" if agrees else "differs"
        evidence.append(Evidence(name, printed, mean, low - READING, high + READING, verdict, why))
    for norm in NORMS:
        mean, low, high = interval(at(rows, "convnet", norm, last))
        start = interval(at(rows, "convnet", norm, 1))[0]
        moved = mean < start / 2 if norm == "batch" else mean > start
        name = f"V at layer {last}, convolutional, {'with' if norm == 'batch' else 'without'} batch norm"
        why = f"from {start:.2f} at the input; the paper shows a picture"
        evidence.append(Evidence(name, None, mean, low, high, "agrees" if moved else "differs", why))
    return [*evidence, *(_later_change(rows, network, last) for network in NETWORKS)]


def _later_change(rows: list[Row], network: str, last: int) -> Evidence:
    """The paper says that with batch norm the gap "stabilizes at a term that is constant with regard to depth"."""
    pairs = zip(at(rows, network, "batch", last), at(rows, network, "batch", last // 2), strict=True)
    found = interval([end - middle for end, middle in pairs])
    constant = found[1] <= 0 <= found[2]
    why = "stated to be constant" if constant else "stated to be constant; the interval of two standard errors has no 0"
    name = f"change of V from layer {last // 2} to {last} with batch norm, {TITLES[network].lower()}"
    return Evidence(name, None, *found, "agrees" if constant else "differs", why)


def plot(rows: list[Row]) -> list[Panel]:
    batch, seeds = rows[0].batch, len({row.seed for row in rows})
    labels = {"batch": "batch norm", "none": "vanilla"}
    return [
        Panel(
            TITLES[network],
            f"V, mean ± 2 s.e. of {seeds} networks and batches of {batch}",
            "layer (1 is the batch)",
            [
                averaged(labels[norm], [(r.layer, r.gap) for r in rows if (r.network, r.norm) == (network, norm)])
                for norm in NORMS
            ],
            [("samples on a line", largest_gap(batch))]
            + ([("samples that sum to zero", zero_sum_gap(batch))] if network == "mlp" else []),
            y_range=(0, 1),
        )
        for network in NETWORKS
        if any(row.network == network for row in rows)
    ]
