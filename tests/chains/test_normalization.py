"""Normalization of constant batches, and of batches that are too large or too small for it."""

import re

import pytest
import torch
from torch import Tensor

from chains.slow_chain import uniform_weights
from orthoscope.chains import Chain, simulate, simulate_gradients
from orthoscope.chains.chain import Draw, normalization

SHAPES = [(3, 16, 16), (30, 16, 16), (8, 300, 300), (64, 1000, 64), (1000, 16, 16)]


def batch(samples: int, units: int) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "fan_in", "width"), SHAPES)
@pytest.mark.parametrize("init", ["gaussian", "orthogonal", uniform_weights])
@pytest.mark.parametrize(("activation", "norm_first"), [("identity", True), ("relu", False), ("sigmoid", False)])
def test_identical_samples_stay_identical_behind_batch_norm(
    samples: int, fan_in: int, width: int, init: str | Draw, activation: str, norm_first: bool
) -> None:
    """They differ by rounding error, which a division by its own size would turn into 1."""
    start, chain = batch(1, fan_in).expand(samples, fan_in), Chain(width, init, activation, "batch", norm_first)
    assert torch.equal(
        simulate(start, chain, 3, seeds=range(8), record={}).last,
        torch.zeros(8, samples, width, dtype=torch.float64),
    )
    if width < 100:
        # What does not depend on the weights has no gradient.
        assert bool((simulate_gradients(start, chain, 3, seeds=range(2)) == -torch.inf).all())


def test_equal_units_stay_equal_behind_layer_norm() -> None:
    def equal_rows(layers: int, out: int, fan_in: int, source: torch.Generator) -> Tensor:
        return torch.randn(layers, 1, fan_in, generator=source).double().expand(layers, out, fan_in)

    found = simulate(batch(6, 30), Chain(30, equal_rows, norm="layer"), 1, seeds=range(20), record={}).last
    assert torch.equal(found, torch.zeros_like(found))


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("distance", [1e-12, 1e-6, 1.0])
def test_deviations_above_rounding_are_normalized_even_if_small_beside_their_mean(norm: str, distance: float) -> None:
    hidden = 3 + distance * batch(9, 8)
    chosen = normalization(norm)
    assert chosen is not None
    normed, factors = chosen(hidden)
    torch.testing.assert_close(normed.square().mean(chosen.axis), torch.ones_like(factors.flatten()))


@pytest.mark.parametrize(("norm", "scales"), [("batch", (1, 8)), ("layer", (9, 1))])
def test_units_and_samples_of_very_different_scales_are_all_normalized(norm: str, scales: tuple[int, int]) -> None:
    sizes = torch.logspace(0, -30, max(scales), dtype=torch.float64).view(scales)
    chosen = normalization(norm)
    assert chosen is not None
    even, uneven = chosen(5 + batch(9, 8))[0], chosen(sizes * (5 + batch(9, 8)))[0]
    torch.testing.assert_close(uneven, even)


@pytest.mark.parametrize("size", [1e200, 1e-200, 1e154, 1e-154])
@pytest.mark.parametrize("norm", ["rms", "layer", "batch", "batch_uncentered"])
def test_a_start_whose_squares_overflow_or_underflow_is_refused(size: float, norm: str) -> None:
    signs, chain, arguments = batch(3, 8).sign(), Chain(8, norm=norm), {"seeds": [0, 1], "record": {}}
    message = re.escape(f"size {size:.3g}")
    with pytest.raises(ValueError, match=message):
        simulate(size * signs, chain, 2, **arguments)
    with pytest.raises(ValueError, match=message):
        simulate_gradients(size * signs, chain, 2, seeds=[0, 1])
    # Without a norm nothing is squared, and within the bounds nothing is lost.
    assert float(simulate(size * signs, Chain(8), 2, **arguments).last.abs().max()) > size / 100
    plain = simulate(signs, chain, 2, **arguments).last
    for held in (1.1e-146, 1.9e146):
        torch.testing.assert_close(simulate(held * signs, chain, 2, **arguments).last, plain)


def test_a_tiny_sample_is_refused_where_samples_are_normalized_unless_it_is_zero() -> None:
    start = batch(3, 8)
    start[1] *= 1e-200
    with pytest.raises(ValueError, match="start has a batch or sample of size"):
        simulate(start, Chain(8, norm="rms"), 1, seeds=[0], record={})
    assert bool(simulate(start, Chain(8, norm="batch"), 1, seeds=[0], record={}).last.all())
    start[1] = 0
    assert not bool(simulate(start, Chain(8, norm="rms"), 1, seeds=[0], record={}).last[0, 1].any())
