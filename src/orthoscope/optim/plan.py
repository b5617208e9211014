"""What a step of Muon costs on many ranks: bytes sent, memory and work, from shapes alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.agreement import AGREEMENT_BYTES
from orthoscope.optim.sharding.ownership import orthogonalization_cost, owners
from orthoscope.optim.sharding.splits import GatherPlan, gather_plan, shard_numels, totals

LAYOUTS = ("ddp", "fsdp", "hsdp")
SCHEMA = "orthoscope.muon-plan/1"
_QUINTIC_STEPS = 5
_MOST_ELEMENTS = 2**63 - 1  # torch counts them in 64 bits

PerRank = tuple[int, ...]


@dataclass(frozen=True)
class MuonPlan:
    """The cost of one step, by rank; under HSDP the ranks of one replica are neighbours.

    `sent` counts the payload that goes to other ranks, a rank's own slice excluded; an all_gather passes every
    contribution around a ring, so a rank sends (ranks - 1) times its own. `momentum` is what the optimizer keeps, in
    bytes. `temporary` is a formula, not a measurement: the updates, with Nesterov's momentum as large as the momentum,
    and what their exchange holds at its worst moment; the work space of the method comes on top.
    `flops` are those of five quintic Newton-Schulz steps, $5 (4 m^2 n + 2 m^3)$ for a matrix with sides $m \\le n$.
    """

    layout: str
    ranks: int
    dtype: str
    parameters: int
    elements: int
    sent: dict[str, PerRank] = field(repr=False)  # by call, in the order in which they are made
    momentum: PerRank = field(repr=False)
    temporary: PerRank = field(repr=False)
    flops: PerRank = field(repr=False)
    owned: PerRank = field(repr=False)  # parameters that each rank orthogonalises

    @property
    def total_sent(self) -> PerRank:
        """Bytes that each rank sends in one step."""
        return tuple(map(sum, zip(*self.sent.values(), strict=True))) if self.sent else (0,) * self.ranks

    def document(self) -> dict[str, Any]:
        """The plan as plain data: the busiest rank and the mean of all."""
        mean_flops = sum(self.flops) / len(self.flops)
        return {
            "layout": self.layout,
            "ranks": self.ranks,
            "dtype": self.dtype,
            "parameters": self.parameters,
            "elements": self.elements,
            "bytes_sent": _summary(self.total_sent),
            "bytes_sent_by_call": {call: _summary(sent) for call, sent in self.sent.items()},
            "momentum_bytes": _summary(self.momentum),
            "temporary_bytes": _summary(self.temporary),
            "flops": _summary(self.flops),
            "busiest_to_mean": max(self.flops) / mean_flops if mean_flops else 1.0,
            "ranks_with_work": sum(count > 0 for count in self.owned),
        }


def muon_plan(
    shapes: Sequence[tuple[int, ...]],
    views: Sequence[MatrixView] | None = None,
    *,
    layout: str = "fsdp",
    ranks: int = 8,
    shards: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> MuonPlan:
    """The cost of a step for parameters of these shapes and one dtype; `shards` are the ranks of an HSDP replica.

    Ownership and slices come from the functions that the optimizer itself calls, so bytes agree to the last one.
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
    if ranks == 1:
        exchange = momentum  # the results, and nothing is exchanged
    sent = {"agreement": (AGREEMENT_BYTES * checked,) * ranks, **sent}
    return MuonPlan(
        layout=layout,
        ranks=ranks,
        dtype=str(dtype).removeprefix("torch."),
        parameters=len(shapes),
        elements=sum(numels),
        sent=sent if ranks > 1 else {},
        momentum=momentum,
        temporary=tuple(map(sum, zip(momentum, exchange, strict=True))),
        flops=totals(owner, [_quintic_flops(*matrix) for matrix in matrices], ranks),
        owned=totals(owner, [1] * len(shapes), ranks),
    )


_Costs = tuple[dict[str, PerRank], PerRank, PerRank]  # sent, momentum, memory of the exchange


def _replicated(owned: PerRank, itemsize: int) -> _Costs:
    ranks = len(owned)
    plan = gather_plan(owned)
    temporary = tuple(_gather_memory(plan, rank) * itemsize for rank in range(ranks))
    return _gather_bytes([plan], itemsize), (sum(owned) * itemsize,) * ranks, temporary


def _sharded(
    shapes: Sequence[tuple[int, ...]], owner: Sequence[int], owned: PerRank, replicas: int, itemsize: int
) -> _Costs:
    ranks, shards = len(owned), len(owned) // replicas
    # Elements of what a replica owns that each of its ranks holds, and those of them that the rank itself owns.
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
    plans = [gather_plan(tuple(held[shard::shards])) for shard in range(shards)]
    # Worst when results wait to be sent back: they, their copy in the order of the wire, and what comes in.
    temporary = [2 * o + h for o, h in zip(owned, held, strict=True)]
    if replicas > 1:
        sent |= {f"{call} of replicas": bytes_ for call, bytes_ in _gather_bytes(plans, itemsize).items()}
        memory = [_gather_memory(plans[rank % shards], rank // shards) for rank in range(ranks)]
        temporary = [max(pair) for pair in zip(temporary, memory, strict=True)]
    whole = [sum(plan.owned) * itemsize for plan in plans]
    return sent, tuple(whole * replicas), tuple(size * itemsize for size in temporary)


def _gather_bytes(plans: Sequence[GatherPlan], itemsize: int) -> dict[str, PerRank]:
    """What `shared` sends, on rank `i * len(plans) + j` as the i-th rank of the j-th plan."""
    ranks = range(len(plans[0].owned))
    sent = {"all_gather": tuple((len(ranks) - 1) * plan.piece * itemsize for _ in ranks for plan in plans)}
    moved = tuple(plan.moved_away(rank) * itemsize for rank in ranks for plan in plans)
    return {"all_to_all": moved, **sent} if not all(plan.is_padded for plan in plans) else sent


def _gather_memory(plan: GatherPlan, rank: int) -> int:
    """First this rank's results and what it makes of them, then its contribution and the gathered buffer."""
    copies = 1 if plan.is_padded else 2
    return max(copies * plan.owned[rank] + plan.piece, (len(plan.owned) + 1) * plan.piece)


def _quintic_flops(count: int, rows: int, columns: int) -> int:
    short, long = min(rows, columns), max(rows, columns)
    return count * _QUINTIC_STEPS * (4 * short**2 * long + 2 * short**3)


def _summary(values: PerRank) -> dict[str, int | float]:
    return {"max": max(values), "mean": sum(values) / len(values)}


def _check(shapes: Sequence[tuple[int, ...]], layout: str, ranks: int, shards: int | None) -> None:
    if not shapes:
        raise ValueError("there is nothing to plan: give the shape of one parameter or more")
    for shape in shapes:
        if math.prod(shape) > _MOST_ELEMENTS:
            sizes = "x".join(map(str, shape))
            raise ValueError(
                f"a parameter of {sizes} has more elements than a tensor can count, 2^63 - 1: correct its shape"
            )
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}: choose one of {', '.join(LAYOUTS)}")
    if ranks < 1:
        raise ValueError(f"a plan is for one rank or more, got {ranks}")
    if layout == "hsdp" and (shards is None or shards < 1 or ranks % shards):
        given = "none" if shards is None else str(shards)
        raise ValueError(f"hsdp needs the number of shards of a replica, a divisor of {ranks} ranks, got {given}")
    if layout != "hsdp" and shards is not None:
        raise ValueError(f"shards are of a replica under hsdp, and the layout is {layout}: leave them out")
