"""Gradients of many networks are those of autograd for each network, and grow as theory predicts."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from chains.slow_chain import Drawer, slow_chain, uniform_weights
from orthoscope import theory
from orthoscope.activations import Pointwise
from orthoscope.chains import Chain, gradients, gradients_by_depth, simulate, simulate_gradients
from orthoscope.chains.chain import Draw

SEEDS = [0, 1, 2]


def batch(samples: int, units: int, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quartic(hidden: Tensor) -> Tensor:
    """A loss that treats entries unlike one another."""
    size = hidden.shape[-1]
    return (torch.arange(1.0, size + 1, dtype=torch.float64) * hidden.pow(4)).sum((-2, -1)) + hidden.sum((-2, -1))


def slow_log_norms(start: Tensor, weights: list[Tensor], **chain: object) -> Tensor:
    leaves = [weight.clone().requires_grad_() for weight in weights]
    loss = quartic(slow_chain(start, leaves, **chain)[-1])  # type: ignore[arg-type]
    return torch.stack([gradient.norm().log() for gradient in torch.autograd.grad(loss, leaves)])


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["none", "rms", "layer", "batch", "batch_uncentered"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["identity", "tanh"])
@pytest.mark.parametrize("gain", [1.0, 1.2])
def test_log_norms_are_those_of_autograd(norm: str, norm_first: bool, activation: str, gain: float) -> None:
    drawer, start, depth = Drawer(), batch(5, 6), 6
    chain = Chain(7, drawer, activation, norm, norm_first, gain=gain)
    found = simulate_gradients(start, chain, depth, seeds=SEEDS, loss=quartic)
    function = {"identity": lambda x: x, "tanh": torch.tanh}[activation]
    first, rest = drawer.weights[:3], drawer.weights[3:6]
    for place in range(3):
        slow = slow_log_norms(
            start,
            [first[place][0], *rest[place][: depth - 1]],
            norm=norm,
            activation=function,
            norm_first=norm_first,
            gain=gain,
        )
        torch.testing.assert_close(found[place], slow, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("init", ["gaussian", "orthogonal", uniform_weights])
@pytest.mark.parametrize("samples", [3, 9])
def test_gradients_for_every_init_are_those_of_autograd(
    init: str | Draw, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []
    drawn = gradients.drawn_weights

    def remembered(*given: object) -> Iterator[Tensor]:
        for weight in drawn(*given):  # type: ignore[arg-type]
            seen.append(weight.clone())
            yield weight

    monkeypatch.setattr(gradients, "drawn_weights", remembered)
    start, depth = batch(samples, 6), 5
    found = simulate_gradients(start, Chain(7, init, "tanh", "batch"), depth, seeds=SEEDS, loss=quartic)
    weights, again = seen[:depth], seen[depth:]
    assert len(again) == 1, "the first layer is a segment of its own, drawn for the forward and for the backward pass"
    assert torch.equal(again[0], weights[0])
    for place in range(len(SEEDS)):
        slow = slow_log_norms(start, [weight[place] for weight in weights], norm="batch", activation=torch.tanh)
        torch.testing.assert_close(found[place], slow, rtol=1e-8, atol=1e-8)
    if init == "orthogonal":
        identity = torch.eye(7, dtype=torch.float64).expand(len(SEEDS), 7, 7)
        torch.testing.assert_close(weights[1].mT @ weights[1], identity, rtol=0, atol=1e-14)


IN_PLACE = [
    (torch.tanh_, torch.tanh),
    (nn.ReLU(inplace=True), torch.relu),
    (nn.SiLU(inplace=True), nn.functional.silu),
    (lambda x: x.clamp_(-0.7, 0.8), lambda x: x.clamp(-0.7, 0.8)),
]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["none", "rms", "layer", "batch", "batch_uncentered"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(("in_place", "plain"), IN_PLACE)
def test_an_activation_may_work_in_place(norm: str, norm_first: bool, in_place: Pointwise, plain: Pointwise) -> None:
    start = batch(5, 6)
    for gain in (1.0, 1.2):
        given = Chain(7, uniform_weights, in_place, norm, norm_first, gain)
        expected = replace(given, activation=plain)
        for layers in ([1, 4, 6], None):
            found = simulate_gradients(start, given, 6, seeds=SEEDS, loss=quartic, layers=layers)
            assert torch.equal(found, simulate_gradients(start, expected, 6, seeds=SEEDS, loss=quartic, layers=layers))
        by_depth = gradients_by_depth(start, given, [6, 2], seeds=SEEDS)
        assert torch.equal(by_depth, gradients_by_depth(start, expected, [6, 2], seeds=SEEDS))
        last = simulate(start, given, 6, seeds=SEEDS, record={}).last
        assert torch.equal(last, simulate(start, expected, 6, seeds=SEEDS, record={}).last)


@pytest.mark.slow
def test_deep_gradients_of_narrow_networks_do_not_vanish() -> None:
    """A gain of 1/2 a layer over 3000 layers is far below what a float can hold; the logarithm is exact."""
    deep = Chain(2, "orthogonal", gain=lambda layer: 0.5 if layer > 1 else 1.0)
    loss = lambda hidden: hidden[:, 0, 0]  # noqa: E731
    start = torch.eye(2, dtype=torch.float64)
    shallow = simulate_gradients(start, Chain(2, "orthogonal"), 1, seeds=[0], loss=loss)
    assert float(shallow[0, 0]) == pytest.approx(0.0, abs=1e-12)
    found = simulate_gradients(start, deep, 3000, seeds=[0], loss=loss, layers=[1])
    assert float(found[0, 0]) == pytest.approx(-2999 * math.log(2), abs=1e-6)


def test_segments_do_not_change_the_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    # Layers of so many weights are drawn one by one, whatever the segments.
    start, chain = batch(4, 130), Chain(130, "orthogonal", "tanh", "batch")
    whole = simulate_gradients(start, chain, 11, seeds=SEEDS)
    again: list[int] = []
    drawn = gradients.drawn_weights
    monkeypatch.setattr(gradients, "drawn_weights", lambda *given: again.append(given[3]) or drawn(*given))
    monkeypatch.setattr(gradients, "SEGMENT", 4 * 130 * (130 + 4 * 4))
    parts = simulate_gradients(start, chain, 11, seeds=SEEDS)
    assert sorted(again) == [3, 4, 4, 4, 4], "the first two of three segments are run twice"
    torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-9)


def test_gradients_do_not_overflow() -> None:
    """Without norm, weights of size 1e40 through three segments and a loss of 1e-300: the logarithm is exact."""
    chain = Chain(
        64, lambda layers, out, fan_in, generator: torch.eye(out).double().mul(1e40).expand(layers, out, fan_in)
    )
    start = batch(64, 64) * 1e-300
    found = simulate_gradients(
        start, chain, 7, seeds=[0], loss=lambda hidden: hidden.flatten(1)[:, 0] * 1e-250, layers=[1, 7]
    )
    expected = math.log(1e-250) + float((start[0] * 1e300).norm().log()) + math.log(1e-300) + 6 * math.log(1e40)
    assert found[0].tolist() == pytest.approx([expected, expected], rel=1e-10)


def test_gradients_by_depth_match_simulations_of_each_depth() -> None:
    start, chain = batch(6, 20), Chain(20, activation="tanh", norm="batch")
    together = gradients_by_depth(start, chain, [3, 17, 9], seeds=SEEDS, layer=2)
    for place, depth in enumerate([3, 17, 9]):
        alone = simulate_gradients(start, chain, depth, seeds=SEEDS, layers=[2])
        torch.testing.assert_close(together[:, place], alone[:, 0], rtol=1e-9, atol=1e-9)


def test_a_gradient_does_not_depend_on_the_other_networks() -> None:
    start, chain = batch(6, 12), Chain(12, "orthogonal", "tanh", "batch")
    together = simulate_gradients(start, chain, 9, seeds=[5, 6, 7])
    torch.testing.assert_close(simulate_gradients(start, chain, 9, seeds=[6])[0], together[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["batch_uncentered", "batch"])
def test_gaussian_gradients_grow_as_in_wide_networks(norm: str) -> None:
    samples, depth = 10, 40
    found = simulate_gradients(batch(samples, 150), Chain(150, norm=norm), depth, seeds=range(8), layers=[1, depth - 5])
    growth = (found[:, 0] - found[:, 1]) / (depth - 6)
    expected = theory.gradient_growth(samples, centered=norm == "batch")
    error = float(growth.std()) / math.sqrt(8)
    assert abs(float(growth.mean()) - expected) < 4 * error + 0.003  # finite width
    assert abs(float(growth.mean())) > 10 * error


@pytest.mark.slow
def test_deep_gradients_are_flat_with_orthogonal_and_grow_with_gaussian_weights() -> None:
    """joudaki2024, figure 6.3, n = d = 100: at depth 1000 a logarithm of 9 with Gaussian weights, 0 with orthogonal."""
    start, depths = batch(100, 100), [1000]
    gaussian = gradients_by_depth(start, Chain(100, "gaussian", norm="batch_uncentered"), depths, seeds=range(6))
    orthogonal = gradients_by_depth(start, Chain(100, "orthogonal", norm="batch_uncentered"), depths, seeds=range(2))
    error = float(gaussian.std()) / math.sqrt(len(gaussian))
    assert float(gaussian.mean()) == pytest.approx(9.0, abs=4 * error)
    assert error < 0.7, "a slope of a third more or less must be seen"
    assert orthogonal.abs().max() < 0.3


def test_bad_input_is_refused() -> None:
    start, chain = batch(3, 4), Chain(4)
    with pytest.raises(ValueError, match="unknown loss 'mse'"):
        simulate_gradients(start, chain, 2, seeds=[0], loss="mse")
    with pytest.raises(ValueError, match="the layers are 1 to 2"):
        simulate_gradients(start, chain, 2, seeds=[0], layers=[0])
    for layer in (0, -1):
        with pytest.raises(ValueError, match=f"layer is {layer}: layers are numbered from 1"):
            gradients_by_depth(start, chain, [2], seeds=[0], layer=layer)
    with pytest.raises(ValueError, match="depth is 0"):
        simulate_gradients(start, chain, 0, seeds=[0])
    with pytest.raises(ValueError, match="depths is empty"):
        gradients_by_depth(start, chain, [], seeds=[0])
    with pytest.raises(ValueError, match="depths has 2, but a network with layer 3"):
        gradients_by_depth(start, chain, [5, 2], seeds=[0], layer=3)
    with pytest.raises(ValueError, match="classes is 1"):
        simulate_gradients(start, chain, 2, seeds=[0], classes=1)
    with pytest.raises(ValueError, match="the loss returned shape"):
        simulate_gradients(start, chain, 2, seeds=[0], loss=lambda hidden: hidden.sum())
