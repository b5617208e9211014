"""Integer arithmetic of an exchange: which rank owns which parameter, and how many elements each one holds and sends.

Everything is a function of shapes and the number of ranks alone, so that all ranks compute the same without a message.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate


def orthogonalization_cost(count: int, rows: int, columns: int) -> int:
    r"""$\text{count} \cdot \min(m, n)^2 \max(m, n)$: the cost of every method up to a factor of its own."""
    return count * min(rows, columns) ** 2 * max(rows, columns)


def owners(costs: Sequence[int], ranks: int) -> tuple[int, ...]:
    r"""Assign items to ranks; the busiest of $W$ has at most $4/3 - 1/(3W)$ times the least possible load.

    Longest processing time first (Graham, 1969). Ties go to the earlier item and to the lower rank.

    Args:
        costs: Cost of every item.
        ranks: Number of ranks $W$.

    Returns:
        The rank that owns each item.
    """
    return _owners(tuple(costs), ranks)


@lru_cache(maxsize=64)  # asked for at every step, with one entry per mesh and dtype of a model
def _owners(costs: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    if ranks < 1:
        raise ValueError(f"the number of ranks must be at least 1, got {ranks}")
    loads = [(0, rank) for rank in range(ranks)]
    found = [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        load, rank = loads[0]
        found[item] = rank
        heapq.heapreplace(loads, (load + costs[item], rank))
    return tuple(found)


def totals(owner: Sequence[int], amounts: Sequence[int], ranks: int) -> tuple[int, ...]:
    """The sum of the amounts that each rank owns."""
    found = [0] * ranks
    for rank, amount in zip(owner, amounts, strict=True):
        found[rank] += amount
    return tuple(found)


@lru_cache(maxsize=4096)
def chunk_sizes(length: int, ranks: int) -> tuple[int, ...]:
    """The lengths that `torch.chunk` and `Shard` give: as many full chunks as fit, the remainder, then empty ones."""
    full = -(-length // ranks)
    return tuple(max(0, min(full, length - rank * full)) for rank in range(ranks))


@lru_cache(maxsize=4096)
def shard_numels(shape: tuple[int, ...], dim: int, ranks: int) -> tuple[int, ...]:
    """The number of elements that each rank holds of a parameter sharded along `dim`."""
    across = math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])
    return tuple(size * across for size in chunk_sizes(shape[dim], ranks))


@dataclass(frozen=True)
class GatherBuffer:
    """Where the elements of every owner are in the buffer that an all_gather fills; made by `gather_buffer`."""

    owned: tuple[int, ...]  # elements of every owner
    starts: tuple[int, ...]  # offset of every owner's elements in the buffer
    piece: int  # elements that every rank contributes
    is_padded: bool  # a rank contributes its own elements, padded; else those in its piece, sent there before

    def moved(self, owner: int, rank: int) -> int:
        """The number of elements of `owner` in the piece of `rank`."""
        begin, end = self.starts[owner], self.starts[owner] + self.owned[owner]
        return max(0, min(end, (rank + 1) * self.piece) - max(begin, rank * self.piece))

    def moved_away(self, rank: int) -> int:
        """The number of elements that a rank sends to others before the all_gather."""
        return self.owned[rank] - self.moved(rank, rank)


@lru_cache(maxsize=64)
def gather_buffer(owned: tuple[int, ...]) -> GatherBuffer:
    r"""Choose the cheaper of two ways to give all $W$ ranks the `owned[r]` elements of every rank $r$, $T$ in all.

    An all_gather takes equal contributions. Either each is padded to the largest, and a rank sends
    $(W - 1) \max_r \text{owned}_r$ around the ring. Or the elements, in the order of their owners, are first cut into
    $W$ equal pieces and sent there by one all_to_all; then a rank sends $(W - 1) \lceil T / W \rceil$ and those of its
    own elements that lie outside its piece. The second way keeps a thousand ranks with two hundred matrices from
    sending mostly padding. The cheaper way is the one whose busiest rank sends less, the first if they are equal.
    """
    ranks, largest = len(owned), max(owned)
    padded = GatherBuffer(owned, tuple(rank * largest for rank in range(ranks)), largest, True)
    even = GatherBuffer(owned, tuple(accumulate((0, *owned[:-1]))), -(-sum(owned) // ranks), False)
    busiest = (ranks - 1) * even.piece + max(even.moved_away(rank) for rank in range(ranks))
    return padded if (ranks - 1) * padded.piece <= busiest else even
