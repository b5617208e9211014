"""Who holds how many elements of what, before, during and after an exchange; whole numbers only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate


@lru_cache(maxsize=4096)
def chunk_sizes(length: int, ranks: int) -> tuple[int, ...]:
    """The lengths that `torch.chunk` and `Shard` give: as many full chunks as fit, the rest, then empty ones."""
    full = -(-length // ranks)
    return tuple(max(0, min(full, length - rank * full)) for rank in range(ranks))


@lru_cache(maxsize=4096)
def shard_numels(shape: tuple[int, ...], dim: int, ranks: int) -> tuple[int, ...]:
    """How many elements each rank holds of a parameter that is sharded along `dim`."""
    across = math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])
    return tuple(size * across for size in chunk_sizes(shape[dim], ranks))


def totals(owner: Sequence[int], amounts: Sequence[int], ranks: int) -> tuple[int, ...]:
    """The sum of what each rank owns."""
    found = [0] * ranks
    for rank, amount in zip(owner, amounts, strict=True):
        found[rank] += amount
    return tuple(found)


@dataclass(frozen=True)
class GatherPlan:
    """How every rank comes to hold what each rank owns; made by `gather_plan`."""

    owned: tuple[int, ...]  # elements of every owner
    starts: tuple[int, ...]  # where in the gathered buffer they begin
    piece: int  # elements that every rank contributes to the all_gather
    is_padded: bool  # a rank contributes what it owns; else what lies in its piece, brought there first

    def moved(self, owner: int, rank: int) -> int:
        """Elements of `owner` that lie in the piece of `rank`."""
        begin, end = self.starts[owner], self.starts[owner] + self.owned[owner]
        return max(0, min(end, (rank + 1) * self.piece) - max(begin, rank * self.piece))

    def moved_away(self, rank: int) -> int:
        """Elements that a rank sends to others before the all_gather."""
        return self.owned[rank] - self.moved(rank, rank)


@lru_cache(maxsize=64)
def gather_plan(owned: tuple[int, ...]) -> GatherPlan:
    r"""The cheaper of two ways to spread `owned[rank]` elements of every rank, $T$ in all, to all $W$ ranks.

    An all_gather wants equal contributions. Either each is padded to the largest, and a rank sends
    $(W - 1) \max_r \text{owned}_r$ around the ring; or the elements, in the order of their owners, are first cut
    into $W$ equal pieces and moved there by one all_to_all, and a rank sends $(W - 1) \lceil T / W \rceil$ and
    the part of its own that lies outside its piece. The second keeps a thousand ranks with two hundred
    matrices from sending mostly padding. Cheaper is the one whose busiest rank sends less, the first if equal.
    """
    ranks, largest = len(owned), max(owned)
    padded = GatherPlan(owned, tuple(rank * largest for rank in range(ranks)), largest, True)
    even = GatherPlan(owned, tuple(accumulate((0, *owned[:-1]))), -(-sum(owned) // ranks), False)
    busiest = (ranks - 1) * even.piece + max(even.moved_away(rank) for rank in range(ranks))
    return padded if (ranks - 1) * padded.piece <= busiest else even
