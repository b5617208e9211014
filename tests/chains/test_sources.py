"""What a network draws: its own affair, again from a state, and by the law it should have."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from scipy.stats import kstest

from orthoscope.chains.draws import layer_by_layer, normal_blocks, uniform_blocks
from orthoscope.chains.sources import Source, sources

CPU = torch.device("cpu")
Blocks = Callable[[Sequence[Source], tuple[int, int], int], Iterator[torch.Tensor]]


def drawn(source: Source, count: int = 1000) -> torch.Tensor:
    place = torch.empty(count, dtype=torch.float64)
    source.fill_normal_(place)
    return place


def test_a_seed_repeats_itself_and_no_two_seeds_or_purposes_are_alike() -> None:
    first, again, other = (drawn(source) for source in sources([3, 3, 4], CPU))
    assert torch.equal(first, again)
    for different in (other, drawn(sources([3], CPU, purpose=1)[0]), drawn(sources([-3], CPU)[0])):
        # Standard deviation 1/√1000 of a correlation.
        assert abs(torch.corrcoef(torch.stack([first, different]))[0, 1]) < 4 / 1000**0.5


@pytest.mark.parametrize(("blocks", "law"), [(normal_blocks, "norm"), (uniform_blocks, "uniform")])
def test_numbers_have_their_law_and_none_is_drawn_twice(blocks: Blocks, law: str) -> None:
    layers = [layer.clone() for layer in layer_by_layer(blocks(sources(range(4), CPU), (40, 50), 25))]
    numbers = torch.stack(layers).flatten()
    assert numbers.unique().numel() == numbers.numel() == 4 * 40 * 50 * 25
    assert kstest(numbers.numpy(), law).pvalue > 1e-4
    assert kstest((1.03 * numbers).numpy(), law).pvalue < 1e-4, "three per cent of scale must be seen"


@pytest.mark.parametrize("layers", [1, 3, 20])
def test_a_deeper_network_begins_as_a_shallower_one_whoever_is_beside_it(layers: int) -> None:
    """Three layers of this shape are a block."""
    deep = [layer[1].clone() for layer in layer_by_layer(normal_blocks(sources([5, 6], CPU), (70, 71), 21))]
    alone = [layer[0].clone() for layer in layer_by_layer(normal_blocks(sources([6], CPU), (70, 71), layers))]
    assert len(alone) == layers
    assert all(torch.equal(*pair) for pair in zip(alone, deep, strict=False))


def test_a_state_that_is_put_back_is_drawn_from_again() -> None:
    (source,) = sources([0], CPU)
    drawn(source)
    state = source.state
    first, own = drawn(source), torch.rand(5, generator=source.generator)
    assert not torch.equal(drawn(source), first)
    source.state = state
    assert torch.equal(drawn(source), first)
    assert torch.equal(torch.rand(5, generator=source.generator), own)
