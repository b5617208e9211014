"""Simulate many random networks as one tensor program and record chosen metrics of chosen layers.

The cost grows linearly with depth and number of networks. A layer of width d costs, for n samples per network, n²d with
Gaussian weights and n < d (the triangle of the batch, and n columns of the weight), nd² otherwise. Memory does not grow
with depth, and with the number of networks only by what is recorded: networks are simulated in groups of bounded size.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Batches, Chain
from orthoscope.chains.inputs import (
    WholeNumbers,
    check_chain,
    check_record,
    checked_depth,
    checked_layers,
    checked_seeds,
    checked_starts,
)
from orthoscope.chains.weights import BLOCK, layer_groups, numbers_in_law, products_in_law, random_streams

Metric: TypeAlias = Callable[[Tensor], Tensor]

# Bytes of the random numbers and batches of a group of networks, by device type; a network that needs more is a group
# by itself. An accelerator needs many networks at a time.
GROUP_BYTES = {"cpu": 1 << 24, "accelerator": 1 << 28}


@dataclass(frozen=True)
class Simulation:
    """Metrics of many random networks, from `simulate`; layer 0 is the start.

    Attributes:
        layers: The layers that were recorded.
        values: By name, `[s, i]` is the metric of network s at layer `layers[i]`.
        last: Representations of the last layer.
    """

    layers: list[int]
    values: dict[str, Tensor]
    last: Float[Tensor, "seeds samples units"]


def simulate(
    start: Tensor,
    chain: Chain,
    depth: int,
    *,
    seeds: WholeNumbers,
    record: Mapping[str, Metric],
    layers: WholeNumbers | None = None,
) -> Simulation:
    r"""Propagate a batch through `depth` layers of one random network per seed, in float64 on the device of `start`.

    A network depends on its seed and its batch only, not on the others, and a deeper one begins as a shallower one, up
    to rounding (which grows exponentially with depth where gradients explode). Its weights have the law of `chain`;
    where possible, only their product with the batch is drawn (`weights.products_in_law`).

    Args:
        start: A batch `(samples, units)` for all networks, or one for each, `(seeds, samples, units)`.
        chain: The layers.
        depth: Number of layers.
        seeds: One for every network.
        record: Functions by name, of a stack of batches `(seeds, samples, units)`, that return `(seeds, ...)`, such as
            `metrics.orthogonality_gap`.
        layers: Layers to record, 0 for the start; all by default.
    """
    check_chain(chain)
    check_record(record)
    networks, depth = checked_seeds(seeds), checked_depth(depth)
    starts, wanted = checked_starts(start, networks, chain.normalization), checked_layers(layers, depth)
    samples, fan_in = starts.shape[-2:]
    rows, columns = numbers_in_law(chain, samples, max(fan_in, chain.width))
    held = 8 * (max(BLOCK, rows * columns) + 4 * samples * max(fan_in, chain.width))
    parts = [
        _followed(starts[group], chain, depth, networks[group], record, wanted)
        for group in groups(len(networks), held, group_bytes(starts.device))
    ]
    values = {name: torch.cat([part.values[name] for part in parts]) for name in record}
    return Simulation(wanted, values, torch.cat([part.last for part in parts]))


def group_bytes(device: torch.device) -> int:
    """Return the memory budget of a group of networks on a device."""
    return GROUP_BYTES["cpu" if device.type == "cpu" else "accelerator"]


def groups(networks: int, held: int, budget: int) -> list[slice]:
    """Cut `networks` that hold so many bytes each into groups of nearly equal size that stay within the budget."""
    count = -(-networks // max(1, budget // held))
    ends = [networks * place // count for place in range(count + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


@torch.no_grad()
def _followed(
    starts: Batches, chain: Chain, depth: int, seeds: list[int], record: Mapping[str, Metric], layers: list[int]
) -> Simulation:
    positions = {layer: position for position, layer in enumerate(layers)}
    values: dict[str, Tensor] = {}
    hidden = starts
    for layer, hidden in enumerate(_trajectory(starts, chain, depth, seeds)):
        if layer not in positions:
            continue
        for name, metric in record.items():
            value = metric(hidden)
            if not isinstance(value, Tensor) or value.shape[:1] != (len(seeds),):
                found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
                raise ValueError(
                    f"the metric {name!r} returned {found} for {len(seeds)} networks: "
                    "it must return a tensor (seeds, ...)"
                )
            if name not in values:
                values[name] = value.new_empty(len(seeds), len(layers), *value.shape[1:])
            values[name][:, positions[layer]] = value
    return Simulation(layers, values, hidden)


def _trajectory(starts: Batches, chain: Chain, depth: int, seeds: list[int]) -> Iterator[Batches]:
    """Yield the representations of all layers, from the start on."""
    yield starts
    hidden, layer, streams = starts, 0, random_streams(seeds, starts.device)
    samples, fan_in = starts.shape[-2:]
    for inputs, count in layer_groups(fan_in, chain.width, depth):
        for product in products_in_law(chain, streams, samples, inputs, count):
            layer += 1
            hidden = chain.layer(product(hidden), layer)[0]
            yield hidden
