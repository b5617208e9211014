"""The cost of a step of Muon on many ranks: bytes sent, memory and work, computed from shapes alone."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from orthoscope.linalg.orthogonalize import stack_length
from orthoscope.optim.muon.distributed.replicated import AGREEMENT_BYTES
from orthoscope.optim.muon.distributed.splits import (
    GatherBuffer,
    gather_buffer,
    orthogonalization_cost,
    owners,
    shard_numels,
    totals,
)
from orthoscope.optim.muon.views import MatrixView

LAYOUTS = ("ddp", "fsdp", "hsdp")
_QUINTIC_STEPS = 5
_MAX_ELEMENTS = 2**63 - 1  # torch counts them in 64 bits

# Hidden matrices (out, in) of one layer, in the order of the model, and the number of layers.
MODELS: dict[str, tuple[list[tuple[int, int]], int]] = {
    # LLaMA (Touvron et al., 2023a), table 2: query, key, value and output; gate and up; down.
    "7b": ([(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)], 32),
    # LLaMA 2 (Touvron et al., 2023b), table 1 and appendix: 64 heads of 128 share 8 keys and values.
    "70b": ([(8192, 8192), (1024, 8192), (1024, 8192), (8192, 8192)] + [(28672, 8192)] * 2 + [(8192, 28672)], 80),
}

PerRank = tuple[int, ...]


@dataclass(frozen=True)
class MuonCost:
    r"""The cost of one step for each rank; under HSDP the ranks of one replica are consecutive.

    Attributes:
        layout: "ddp", "fsdp" or "hsdp".
        ranks: Number of ranks.
        dtype: Type of parameters, momentum and messages.
        parameters: Number of parameters.
        elements: Number of their elements.
        sent: Bytes sent to other ranks, by collective, in the order of the calls. An all_gather passes every
            contribution around a ring, so that a rank sends (ranks - 1) times its own.
        momentum: Bytes of the momentum.
        temporary: Bytes of updates and results at the worst moment, by formula. On many ranks all updates (with
            Nesterov's momentum as large as the momentum) and the buffers of their exchange; on one rank those of the
            largest stack on an accelerator. The work space of the method comes on top.
        flops: Those of five quintic Newton-Schulz steps, $5 (4 m^2 n + 2 m^3)$ for a matrix with sides $m \le n$.
        owned: Number of parameters that the rank orthogonalizes.
    """

    layout: str
    ranks: int
    dtype: str
    parameters: int
    elements: int
    sent: dict[str, PerRank] = field(repr=False)
    momentum: PerRank = field(repr=False)
    temporary: PerRank = field(repr=False)
    flops: PerRank = field(repr=False)
    owned: PerRank = field(repr=False)

    def __str__(self) -> str:
        return (
            f"one step of Muon on {self.ranks} processes ({self.layout}, {self.dtype}), {self.parameters} parameters "
            f"of {self.elements:,} elements; of the busiest process: {max(self.total_sent):,} bytes sent, "
            f"{max(self.momentum):,} of momentum, {max(self.temporary):,} temporary, {max(self.flops):.3g} FLOP"
        )

    __repr__ = __str__

    @property
    def total_sent(self) -> PerRank:
        """Bytes that each rank sends in one step."""
        return tuple(map(sum, zip(*self.sent.values(), strict=True))) if self.sent else (0,) * self.ranks


def muon_cost(
    shapes: Sequence[tuple[int, ...]],
    views: Sequence[MatrixView] | None = None,
    *,
    layout: str = "fsdp",
    ranks: int = 8,
    shards: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> MuonCost:
    """Compute the cost of one step of Muon before there is a cluster.

    Owners and slices come from the functions that the optimizer itself calls, so that bytes agree to the last one.

    Args:
        shapes: Shapes of the parameters that follow Muon.
        views: Their matrices; default: one matrix each.
        layout: "ddp": full parameters on every rank; "fsdp": sharded along the first dimension over all ranks; "hsdp":
            sharded within each of several replicas.
        ranks: Number of ranks.
        shards: Number of ranks that share one replica, a divisor of `ranks`; for "hsdp" only.
        dtype: Type of parameters, momentum and messages.

    Returns:
        The cost of each rank.

    Raises:
        ValueError: If an option has no meaning, or a shape holds no matrix or more elements than a tensor can.
    """
    _check(shapes, layout, ranks, shards)
    views = views or [MatrixView()] * len(shapes)
    replicas = ranks // (shards or ranks)
    matrices = [view.shape(shape) for shape, view in zip(shapes, views, strict=True)]
    owner = owners([orthogonalization_cost(*matrix) for matrix in matrices], ranks)
    numels = [math.prod(shape) for shape in shapes]
    owned = totals(owner, numels, ranks)
    if layout == "ddp":
        sent, momentum, exchange = _replicated(owned, dtype.itemsize)
        checked = ranks - 1
    else:
        sent, momentum, exchange = _sharded(shapes, owner, owned, replicas, dtype.itemsize)
        checked = replicas - 1 + ranks // replicas - 1
    temporary = tuple(map(sum, zip(momentum, exchange, strict=True)))
    sent = {"agreement": (AGREEMENT_BYTES * checked,) * ranks, **sent}
    return MuonCost(
        layout=layout,
        ranks=ranks,
        dtype=str(dtype).removeprefix("torch."),
        parameters=len(shapes),
        elements=sum(numels),
        sent=sent if ranks > 1 else {},
        momentum=momentum,
        temporary=temporary if ranks > 1 else (_stack_memory(shapes, views, dtype.itemsize),),
        flops=totals(owner, [_quintic_flops(*matrix) for matrix in matrices], ranks),
        owned=totals(owner, [1] * len(shapes), ranks),
    )


def model_shapes(name: str) -> list[tuple[int, ...]]:
    """Return the shapes of the hidden matrices of a model in `MODELS`; embeddings and the head follow AdamW."""
    if name.lower() not in MODELS:
        raise ValueError(f"unknown model {name!r}: choose one of {', '.join(MODELS)}, or give shapes")
    layer, depth = MODELS[name.lower()]
    return [shape for _ in range(depth) for shape in layer]


_Costs = tuple[dict[str, PerRank], PerRank, PerRank]  # bytes sent, momentum, buffers of the exchange


def _replicated(owned: PerRank, itemsize: int) -> _Costs:
    ranks = len(owned)
    buffer = gather_buffer(owned)
    temporary = tuple(_gather_memory(buffer, rank) * itemsize for rank in range(ranks))
    return _gather_bytes([buffer], itemsize), (sum(owned) * itemsize,) * ranks, temporary


def _sharded(
    shapes: Sequence[tuple[int, ...]], owner: Sequence[int], owned: PerRank, replicas: int, itemsize: int
) -> _Costs:
    ranks, shards = len(owned), len(owned) // replicas
    # Elements of its replica's parameters that each rank holds, and those of them that it owns itself.
    held, kept = [0] * ranks, [0] * ranks
    for shape, own in zip(shapes, owner, strict=True):
        slices, first = shard_numels(shape, 0, shards), own // shards * shards
        for shard, size in enumerate(slices):
            held[first + shard] += size
        kept[own] += slices[own % shards]
    sent = {
        "all_to_all to owners": tuple((h - k) * itemsize for h, k in zip(held, kept, strict=True)),
        "all_to_all from owners": tuple((o - k) * itemsize for o, k in zip(owned, kept, strict=True)),
    }
    buffers = [gather_buffer(tuple(held[shard::shards])) for shard in range(shards)]
    # Worst when results are sent back: the results, their copy in the order of ranks, and the slices received.
    temporary = [2 * o + h for o, h in zip(owned, held, strict=True)]
    if replicas > 1:
        sent |= {f"{call} of replicas": bytes_ for call, bytes_ in _gather_bytes(buffers, itemsize).items()}
        memory = [_gather_memory(buffers[rank % shards], rank // shards) for rank in range(ranks)]
        temporary = [max(pair) for pair in zip(temporary, memory, strict=True)]
    whole = [sum(buffer.owned) * itemsize for buffer in buffers]
    return sent, tuple(whole * replicas), tuple(size * itemsize for size in temporary)


def _gather_bytes(buffers: Sequence[GatherBuffer], itemsize: int) -> dict[str, PerRank]:
    """What `shared` sends, on rank `i * len(buffers) + j` as the i-th rank of the j-th buffer."""
    ranks = range(len(buffers[0].owned))
    sent = {"all_gather": tuple((len(ranks) - 1) * buffer.piece * itemsize for _ in ranks for buffer in buffers)}
    moved = tuple(buffer.moved_away(rank) * itemsize for rank in ranks for buffer in buffers)
    return {"all_to_all": moved, **sent} if not all(buffer.is_padded for buffer in buffers) else sent


def _gather_memory(buffer: GatherBuffer, rank: int) -> int:
    """Elements of the larger of two moments: results and contribution; contribution and gathered buffer."""
    copies = 1 if buffer.is_padded else 2
    return max(copies * buffer.owned[rank] + buffer.piece, (len(buffer.owned) + 1) * buffer.piece)


def _stack_memory(shapes: Sequence[tuple[int, ...]], views: Sequence[MatrixView], itemsize: int) -> int:
    """Bytes of one process: the updates of the largest stack, their stacked copy if they are several, the results."""
    largest = 0
    for (shape, _), count in Counter(zip(map(tuple, shapes), views, strict=True)).items():
        nbytes = math.prod(shape) * itemsize
        stacked = min(count, stack_length(nbytes, "cuda"))
        largest = max(largest, (2 if stacked == 1 else 3) * stacked * nbytes)
    return largest


def _quintic_flops(count: int, rows: int, columns: int) -> int:
    short, long = min(rows, columns), max(rows, columns)
    return count * _QUINTIC_STEPS * (4 * short**2 * long + 2 * short**3)


def _check(shapes: Sequence[tuple[int, ...]], layout: str, ranks: int, shards: int | None) -> None:
    if not shapes:
        raise ValueError("no shapes given: give the shape of at least one parameter")
    for shape in shapes:
        if math.prod(shape) > _MAX_ELEMENTS:
            sizes = "x".join(map(str, shape))
            raise ValueError(
                f"a parameter of {sizes} has more elements than a tensor can have, 2^63 - 1: correct its shape"
            )
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}: choose one of {', '.join(LAYOUTS)}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, got {ranks}")
    if layout == "hsdp" and (shards is None or shards < 1 or ranks % shards):
        given = "none" if shards is None else str(shards)
        raise ValueError(f"hsdp needs the number of shards of a replica, a divisor of {ranks} ranks, got {given}")
    if layout != "hsdp" and shards is not None:
        raise ValueError(f"shards are for the layout hsdp, and the layout is {layout}: leave them out")
