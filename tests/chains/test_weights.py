"""Random streams: independent between networks, repeatable from a state, and of the right law."""

import pytest
import torch
from scipy.stats import kstest

from orthoscope.chains import Chain
from orthoscope.chains.chain import Draw
from orthoscope.chains.weights import RandomStream, drawn_weights, normal_blocks, random_streams

CPU = torch.device("cpu")


def drawn(stream: RandomStream, count: int = 1000) -> torch.Tensor:
    numbers = torch.empty(count, dtype=torch.float64)
    stream.fill_normal_(numbers)
    return numbers


def test_equal_seeds_draw_equal_numbers_and_other_seeds_or_purposes_uncorrelated_ones() -> None:
    first, again, other = (drawn(stream) for stream in random_streams([3, 3, 4], CPU))
    assert torch.equal(first, again)
    for different in (other, drawn(random_streams([3], CPU, purpose=1)[0]), drawn(random_streams([-3], CPU)[0])):
        # Standard deviation 1/√1000 of a correlation.
        assert abs(torch.corrcoef(torch.stack([first, different]))[0, 1]) < 4 / 1000**0.5


@pytest.mark.slow
def test_random_numbers_have_their_law_and_none_is_drawn_twice() -> None:
    numbers = torch.cat(list(normal_blocks(random_streams(range(4), CPU), (40, 50), 25)), dim=1).flatten()
    assert numbers.unique().numel() == numbers.numel() == 4 * 40 * 50 * 25
    assert kstest(numbers.numpy(), "norm").pvalue > 1e-4
    assert kstest((1.03 * numbers).numpy(), "norm").pvalue < 1e-4, "three per cent of scale must be seen"


@pytest.mark.parametrize("layers", [1, 3, 20])
def test_first_layers_depend_neither_on_depth_nor_on_other_networks(layers: int) -> None:
    """Three layers of this shape are a block."""
    deep = torch.cat(list(normal_blocks(random_streams([5, 6], CPU), (70, 71), 21)), dim=1)[1]
    alone = torch.cat(list(normal_blocks(random_streams([6], CPU), (70, 71), layers)), dim=1)[0]
    assert len(alone) == layers
    assert torch.equal(alone, deep[:layers])


def test_a_restored_state_repeats_the_numbers_of_both_generators() -> None:
    (stream,) = random_streams([0], CPU)
    drawn(stream)
    state = stream.state
    first, own = drawn(stream), torch.rand(5, generator=stream.generator)
    assert not torch.equal(drawn(stream), first)
    stream.state = state
    assert torch.equal(drawn(stream), first)
    assert torch.equal(torch.rand(5, generator=stream.generator), own)


def entries_of_the_caller(layers: int, outputs: int, inputs: int, generator: torch.Generator) -> torch.Tensor:
    return torch.rand(layers, outputs, inputs, generator=generator)


@pytest.mark.parametrize("init", ["gaussian", "orthogonal", entries_of_the_caller])
@pytest.mark.parametrize("fan_in", [60, 100, 150])
def test_weights_are_not_overwritten_by_those_of_later_layers(init: str | Draw, fan_in: int) -> None:
    """Layers of this width are a block each, or two."""
    kept, copies = [], []
    for weight in drawn_weights(Chain(100, init), random_streams(range(3), CPU), fan_in, 5):
        kept.append(weight)
        copies.append(weight.clone())
    assert all(torch.equal(*pair) for pair in zip(kept, copies, strict=True))
    assert not torch.equal(kept[0], kept[-1])
