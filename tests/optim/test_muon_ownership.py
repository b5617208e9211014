"""Owners, slices and buffer offsets of an exchange."""

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoscope.optim.muon.distributed.splits import (
    chunk_sizes,
    gather_buffer,
    orthogonalization_cost,
    owners,
    shard_numels,
    totals,
)

COSTS = st.lists(st.integers(1, 30), min_size=1, max_size=7)


def least_possible(costs: list[int], ranks: int) -> int:
    """The load of the busiest rank in the best of all assignments."""
    assignments = itertools.product(range(ranks), repeat=len(costs))
    return min(max(totals(owner, costs, ranks)) for owner in assignments)


@given(COSTS, st.integers(1, 3))
def test_the_busiest_rank_is_within_grahams_bound_of_the_best(costs: list[int], ranks: int) -> None:
    busiest = max(totals(owners(costs, ranks), costs, ranks))
    assert busiest <= (4 / 3 - 1 / (3 * ranks)) * least_possible(costs, ranks) + 1e-9


def test_grahams_bound_is_reached() -> None:
    costs = [5, 5, 4, 4, 3, 3, 3]  # of Graham (1969), three machines
    assert max(totals(owners(costs, 3), costs, 3)) == 11
    assert least_possible(costs, 3) == 9


def test_equal_parameters_are_dealt_in_turn_and_the_large_come_first() -> None:
    assert owners([1, 1, 1, 1, 1], 2) == (0, 1, 0, 1, 0)
    assert owners([1, 1, 5], 2) == (1, 1, 0)
    assert owners([4, 4], 5) == (0, 1)
    assert orthogonalization_cost(3, 20, 10) == orthogonalization_cost(3, 10, 20) == 3 * 10 * 10 * 20


@given(st.integers(0, 60), st.integers(1, 20))
def test_slices_are_those_of_torch_chunk(length: int, ranks: int) -> None:
    chunks = [len(chunk) for chunk in torch.arange(length).chunk(ranks)] if length else []
    assert list(chunk_sizes(length, ranks)) == chunks + [0] * (ranks - len(chunks))


def test_a_slice_holds_all_of_the_other_dimensions() -> None:
    assert shard_numels((5, 3, 2), 0, 4) == (12, 12, 6, 0)
    assert shard_numels((5, 3, 2), 1, 2) == (20, 10)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=9).filter(any))
def test_every_owned_element_reaches_its_place_in_the_gathered_buffer(owned: list[int]) -> None:
    buffer = gather_buffer(tuple(owned))
    ranks = len(owned)
    elements = [[(rank, i) for i in range(count)] for rank, count in enumerate(owned)]
    pieces: list[list[tuple[int, int]]] = [[] for _ in owned]
    for rank, mine in enumerate(elements):
        if buffer.is_padded:
            pieces[rank] = mine
            continue
        sent = iter(mine)
        for other in range(ranks):
            pieces[other] += [next(sent) for _ in range(buffer.moved(rank, other))]
        assert next(sent, None) is None
    gathered = [element for piece in pieces for element in piece + [(-1, -1)] * (buffer.piece - len(piece))]
    assert len(gathered) == ranks * buffer.piece
    for rank, mine in enumerate(elements):
        assert gathered[buffer.starts[rank] : buffer.starts[rank] + owned[rank]] == mine


@given(st.lists(st.integers(0, 40), min_size=2, max_size=9).filter(any))
def test_the_busiest_rank_of_a_gather_sends_at_most_what_either_way_bounds(owned: list[int]) -> None:
    buffer = gather_buffer(tuple(owned))
    ranks, total = len(owned), sum(owned)
    moved = 0 if buffer.is_padded else max(buffer.moved_away(rank) for rank in range(ranks))
    busiest = (ranks - 1) * buffer.piece + moved
    assert busiest <= (ranks - 1) * max(owned), "padding would have been cheaper"
    assert busiest <= (ranks - 1) * -(-total // ranks) + max(owned)
