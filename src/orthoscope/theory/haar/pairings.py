r"""Pairings of $2k$ positions, over which Gaussian and Haar moments are sums.

A pairing is the tuple of partners: `(1, 0, 3, 2)` joins position 0 to 1 and 2 to 3.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

from orthoscope.theory.sources import source

Pairing: TypeAlias = tuple[int, ...]
Partition: TypeAlias = tuple[int, ...]

_ANY = "nothing: combinatorics"


@source("collins2006", "section 3, pairings", assumes=_ANY)
def pairings_of(labels: Sequence[Hashable]) -> Iterator[Pairing]:
    r"""All pairings of the positions that join equal labels only.

    $$ \{ \mathfrak m \in \mathcal M_{2k} : \Delta_{\mathfrak m}(\ell) = 1 \}, \qquad
       \prod_{\text{labels}} (m-1)!! \text{ of them for multiplicities } m $$

    One empty pairing of no positions; none if some label occurs an odd number of times.
    """
    positions: dict[Hashable, list[int]] = {}
    for position, label in enumerate(labels):
        positions.setdefault(label, []).append(position)
    if any(len(group) % 2 for group in positions.values()):
        return
    for parts in product(*(list(_matchings(tuple(group))) for group in positions.values())):
        partner = [0] * len(labels)
        for first, second in (pair for part in parts for pair in part):
            partner[first], partner[second] = second, first
        yield tuple(partner)


@source("collins2006", "section 3, coset type of a pair of pairings", assumes=_ANY)
def coset_type(first: Pairing, second: Pairing) -> Partition:
    r"""Half-lengths of the loops that two pairings of one set make together, largest first: a partition of $k$.

    Two equal pairings make $k$ loops of half-length 1; what two pairings have to do with each other is
    their coset type and nothing else.
    """
    if len(first) != len(second):
        raise ValueError(f"pairings of {len(first)} and of {len(second)} positions make no loops together")
    seen = [False] * len(first)
    halves = []
    for start in range(len(first)):
        if seen[start]:
            continue
        half, position = 0, start
        while not seen[position]:
            across = first[position]
            seen[position] = seen[across] = True
            position = second[across]
            half += 1
        halves.append(half)
    return tuple(sorted(halves, reverse=True))


@source("collins2006", "section 3, orbits of pairings under equal factors", assumes=_ANY)
def pairing_orbits(pairings: Sequence[Pairing], labels: Sequence[Hashable]) -> list[tuple[Pairing, int]]:
    r"""One pairing of each orbit under permutations of equally labelled positions, with the size of the orbit.

    Two pairings are in one orbit exactly if they join the same labels equally often.
    """
    representative: dict[Hashable, Pairing] = {}
    sizes: Counter[Hashable] = Counter()
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    codes = [numbers[label] for label in labels]
    for pairing in pairings:
        pairs = ((codes[a], codes[b]) for a, b in enumerate(pairing) if a < b)
        joined = tuple(sorted((min(pair), max(pair)) for pair in pairs))
        representative.setdefault(joined, pairing)
        sizes[joined] += 1
    return [(pairing, sizes[joined]) for joined, pairing in representative.items()]


def _matchings(positions: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """All ways to split positions into pairs; the first one has every other as its partner in turn."""
    if not positions:
        yield ()
        return
    first, rest = positions[0], positions[1:]
    for index, partner in enumerate(rest):
        for others in _matchings(rest[:index] + rest[index + 1 :]):
            yield ((first, partner), *others)
