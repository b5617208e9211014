"""Moments of O(d) the long way: all pairings, the whole Gram matrix of loops, its pseudo-inverse."""

from collections.abc import Sequence
from functools import cache
from itertools import permutations

import numpy as np

Pairs = frozenset[frozenset[int]]


@cache
def all_pairings(size: int) -> tuple[Pairs, ...]:
    """By brute force: every order of the positions, read two by two."""
    orders = permutations(range(size))
    return tuple({frozenset(frozenset(order[i : i + 2]) for i in range(0, size, 2)) for order in orders})


def loops(first: Pairs, second: Pairs) -> int:
    """Connected components of the graph that has the pairs of both as edges."""
    component: dict[int, int] = {point: point for pair in first for point in pair}
    for pair in (*first, *second):
        old, new = (component[point] for point in sorted(pair))
        component = {point: new if name == old else name for point, name in component.items()}
    return len(set(component.values()))


@cache
def loop_counts(size: int) -> np.ndarray:
    pairings = all_pairings(size)
    return np.array([[loops(first, second) for second in pairings] for first in pairings])


@cache
def gram_pseudo_inverse(size: int, dimension: int) -> np.ndarray:
    return np.linalg.pinv(float(dimension) ** loop_counts(size), rcond=1e-10, hermitian=True)


def moment(rows: Sequence[int], columns: Sequence[int], dimension: int) -> float:
    """Mean of a product of entries of a Haar orthogonal matrix."""
    if len(rows) % 2:
        return 0.0
    pairings = all_pairings(len(rows))
    by_row = np.array([all(len({rows[i] for i in pair}) == 1 for pair in pairing) for pairing in pairings])
    by_column = np.array([all(len({columns[i] for i in pair}) == 1 for pair in pairing) for pairing in pairings])
    return float(by_row.astype(float) @ gram_pseudo_inverse(len(rows), dimension) @ by_column.astype(float))
