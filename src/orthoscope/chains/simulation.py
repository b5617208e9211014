"""Many random networks side by side: one tensor program, chosen numbers of chosen layers kept, nothing else."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.draws import BLOCK
from orthoscope.chains.groups import over_groups
from orthoscope.chains.inputs import (
    WholeNumbers,
    check_chain,
    check_record,
    checked_depth,
    checked_layers,
    checked_seeds,
    checked_starts,
)
from orthoscope.chains.memory import Memory
from orthoscope.chains.sources import sources
from orthoscope.chains.weights import Batches, layers_in_law, preactivations, shape_in_law

Metric: TypeAlias = Callable[[Tensor], Tensor]

# Random numbers that a group of networks holds at a time: 64 MB.
_MOST = 1 << 23


@dataclass(frozen=True)
class Recording:
    """What was recorded: `values[name][s, i]` is the metric of network s at layer `layers[i]`; 0 is the start."""

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
) -> Recording:
    r"""Follow a batch through `depth` layers of one random network for every seed.

    `start` is a batch `(samples, units)` for all networks, or `(seeds, samples, units)`, one for each. `record`
    names functions of a stack of batches `(seeds, samples, units)` that return `(seeds, ...)`, such as
    `metrics.orthogonality_gap`; `layers` are those to record, 0 for the start, all by default. What the functions are
    given is overwritten later: they may return it, but not keep it.

    A network depends on its seed and its batch only, not on the others, and a deeper one begins as a shallower one
    (to rounding). Its weights have the law of `chain`; where `weights.preactivations` can, it draws what the batch
    meets and never the matrix. Computed in float64 on the device of `start`; on a CPU groups of networks run on
    one core each, so the functions in `record` may be called from several threads. Only what is recorded is kept.
    """
    check_chain(chain)
    check_record(record)
    networks, depth = checked_seeds(seeds), checked_depth(depth)
    starts, wanted = checked_starts(start, networks, chain.normalisation), checked_layers(layers, depth)

    def follow(group: slice) -> Recording:
        return _followed(starts[group], chain, depth, networks[group], record, wanted)

    samples, fan_in = starts.shape[-2:]
    rows, columns = shape_in_law(chain, samples, max(fan_in, chain.width))
    parts = over_groups(
        follow,
        len(networks),
        numbers=max(BLOCK, rows * columns),
        layer=max(rows * columns, samples * chain.width),
        multiplications=rows * columns * (2 * rows + samples),
        depth=depth,
        most=_MOST,
        device=starts.device,
    )
    values = {name: torch.cat([part.values[name] for part in parts]) for name in record}
    return Recording(wanted, values, torch.cat([part.last for part in parts]))


@torch.no_grad()
def _followed(
    starts: Batches, chain: Chain, depth: int, seeds: list[int], record: Mapping[str, Metric], layers: list[int]
) -> Recording:
    positions = {layer: position for position, layer in enumerate(layers)}
    values: dict[str, Tensor] = {}
    hidden = starts
    for layer, hidden in enumerate(_trajectory(starts, chain, depth, seeds)):
        if layer not in positions:
            continue
        for name, metric in record.items():
            value = metric(hidden)
            _check_value(name, value, len(seeds))
            if name not in values:
                values[name] = value.new_empty(len(seeds), len(layers), *value.shape[1:])
            values[name][:, positions[layer]] = value
    return Recording(layers, values, hidden)


def _check_value(name: str, value: object, networks: int) -> None:
    if not isinstance(value, Tensor) or value.shape[:1] != (networks,):
        found = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise ValueError(
            f"the metric {name!r} returned {found} for {networks} networks: it must return a tensor (seeds, ...)"
        )


def _trajectory(starts: Batches, chain: Chain, depth: int, seeds: list[int]) -> Iterator[Batches]:
    """The representations of all layers, from the start on, each valid until the second after it is asked for."""
    yield starts
    hidden, own, memory = starts, sources(seeds, starts.device), Memory(starts.device)
    shape = (*starts.shape[:-1], chain.width)
    pages, scratch = memory.stack("hidden", 2, shape), memory.place("scratch", shape)
    samples, fan_in = starts.shape[-2:]
    # The first layer may be of another shape; then it draws its numbers alone.
    alone = 1 if fan_in != chain.width and depth else 0
    layer = 0
    for inputs, count in ((fan_in, alone), (chain.width, depth - alone)):
        for drawn in layers_in_law(chain, own, samples, inputs, count, memory):
            layer += 1
            hidden = chain.output_(preactivations(chain, hidden, drawn, pages[layer % 2], memory), layer, scratch)
            yield hidden
