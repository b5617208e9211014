"""Which rank orthogonalises which parameter: the longest first, each to the rank that has the least to do."""

import heapq
from collections.abc import Sequence
from functools import lru_cache


def orthogonalization_cost(count: int, rows: int, columns: int) -> int:
    r"""$\text{count} \cdot \min(m, n)^2 \max(m, n)$: what every method here costs, up to a factor of its own."""
    return count * min(rows, columns) ** 2 * max(rows, columns)


def owners(costs: Sequence[int], ranks: int) -> tuple[int, ...]:
    r"""The owner of every item: the busiest of $W$ ranks has at most $4/3 - 1/(3W)$ times the least possible.

    Longest processing time first (Graham, 1969). A function of the costs and their order alone: every rank finds
    the same owners without a message. Ties go to the earlier item and to the lower rank.
    """
    return _owners(tuple(costs), ranks)


@lru_cache(maxsize=64)  # one entry a mesh and dtype of a model, asked for at every step
def _owners(costs: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    if ranks < 1:
        raise ValueError(f"items can be shared among one rank or more, got {ranks}")
    loads = [(0, rank) for rank in range(ranks)]
    found = [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        load, rank = loads[0]
        found[item] = rank
        heapq.heapreplace(loads, (load + costs[item], rank))
    return tuple(found)
