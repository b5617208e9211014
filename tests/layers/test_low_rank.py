"""Low-rank updates: the function is unchanged at the start, only the update trains, and it can be merged."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.layers.low_rank import LowRankUpdate, low_rank_update


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(fan_in: int = 7, out: int = 5, dtype: torch.dtype = torch.float32) -> nn.Linear:
    layer = nn.Linear(fan_in, out, dtype=dtype)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, generator=seeded(9))
    return layer


def update_of(layer: nn.Module) -> LowRankUpdate:
    update = layer.parametrizations["weight"][0]  # type: ignore[index, union-attr]
    assert isinstance(update, LowRankUpdate)
    return update


def trained(layer: nn.Linear, steps: int = 5) -> nn.Linear:
    inputs = torch.randn(16, layer.in_features, generator=seeded(1), dtype=layer.weight.dtype)
    optimizer = torch.optim.Adam([p for p in layer.parameters() if p.requires_grad], 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        layer(inputs).square().mean().backward()
        optimizer.step()
    return layer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_function_is_unchanged_at_the_start(dtype: torch.dtype) -> None:
    layer = linear(dtype=dtype)
    inputs = torch.randn(3, 7, generator=seeded(1), dtype=dtype)
    before, weight = layer(inputs), layer.weight.detach().clone()
    assert low_rank_update(layer, rank=2, generator=seeded()) is layer
    assert torch.equal(layer.weight, weight)
    assert torch.equal(layer(inputs), before)
    assert update_of(layer).right.abs().min() > 0, "with both factors zero nothing would ever train"


def test_the_weight_is_the_frozen_one_plus_scale_times_the_product() -> None:
    layer = linear()
    frozen = layer.weight.detach().clone()
    low_rank_update(layer, rank=2, scale=0.5, generator=seeded())
    update = update_of(layer)
    with torch.no_grad():
        update.left.normal_(generator=seeded(2))
    expected = frozen.clone()
    for i in range(5):
        for j in range(7):
            for r in range(2):
                expected[i, j] += 0.5 * update.left[i, r].item() * update.right[r, j].item()
    torch.testing.assert_close(layer.weight, expected)
    assert torch.linalg.matrix_rank(layer.weight - frozen) == 2


def test_training_moves_the_update_and_the_bias_and_never_the_frozen_weight() -> None:
    layer = low_rank_update(linear(), rank=2, generator=seeded())
    frozen: Tensor = layer.parametrizations["weight"].original  # type: ignore[index, union-attr, assignment]
    kept, bias, right = frozen.detach().clone(), layer.bias.detach().clone(), update_of(layer).right.detach().clone()
    trained(layer)
    assert torch.equal(frozen, kept)
    assert not torch.equal(layer.bias, bias)
    assert not torch.equal(update_of(layer).right, right)
    assert torch.linalg.matrix_rank(layer.weight.detach() - kept, rtol=1e-4) == 2
    names = {name for name, parameter in layer.named_parameters() if parameter.requires_grad}
    assert names == {"bias", "parametrizations.weight.0.left", "parametrizations.weight.0.right"}


def test_a_gradient_from_before_cannot_move_the_frozen_weight() -> None:
    layer = linear()
    layer(torch.ones(1, 7)).sum().backward()
    low_rank_update(layer, rank=1, generator=seeded())
    frozen: Tensor = layer.parametrizations["weight"].original  # type: ignore[index, union-attr, assignment]
    before = frozen.detach().clone()
    torch.optim.SGD(layer.parameters(), 1.0).step()
    assert torch.equal(frozen, before)


def test_merging_leaves_an_ordinary_weight_with_the_same_function() -> None:
    layer = trained(low_rank_update(linear(), rank=3, scale=2.0, generator=seeded()))
    inputs = torch.randn(4, 7, generator=seeded(3))
    before = layer(inputs)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert dict(layer.named_parameters()).keys() == {"weight", "bias"}
    assert torch.equal(layer(inputs), before)


def test_a_copy_and_a_checkpoint_keep_the_update() -> None:
    layer = trained(low_rank_update(linear(), rank=2, generator=seeded()))
    other = low_rank_update(linear(), rank=2, generator=seeded(5))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.weight, layer.weight)
    assert torch.equal(copy.deepcopy(layer).weight, layer.weight)


@pytest.mark.parametrize(
    "road", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))], ids=["copy", "pickle"]
)
def test_a_copy_can_be_merged_and_the_original_stays(road: Callable[[nn.Linear], nn.Linear]) -> None:
    layer = trained(low_rank_update(linear(), rank=2, generator=seeded()))
    weight, duplicate = layer.weight.detach().clone(), road(layer)
    parametrize.remove_parametrizations(duplicate, "weight")
    assert type(duplicate) is nn.Linear
    assert torch.equal(duplicate.weight, weight)
    assert torch.equal(layer.weight, weight)
    trained(layer)
    assert not torch.equal(layer.weight, weight)


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lax"])
def test_a_checkpoint_of_the_plain_weight_is_the_frozen_one(strict: bool) -> None:
    layer = trained(low_rank_update(linear(), rank=2, generator=seeded()))
    plain = nn.Linear(7, 5)
    nn.Sequential(layer).load_state_dict(nn.Sequential(plain).state_dict(), strict=strict)
    assert torch.equal(layer.weight, plain.weight)
    assert torch.equal(layer.bias, plain.bias)
    trained(layer)
    assert torch.equal(layer.parametrizations["weight"].original, plain.weight)  # type: ignore[index, union-attr]
    assert not torch.equal(layer.weight, plain.weight)


@pytest.mark.parametrize("scale", [torch.nan, torch.inf, 0.0], ids=repr)
def test_a_scale_that_cannot_train_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=r"scale=.* give a finite number other than 0"):
        low_rank_update(linear(), rank=1, scale=scale)


def test_a_generator_decides_the_update_and_the_global_one_is_untouched() -> None:
    layers = [linear() for _ in range(3)]
    before = torch.get_rng_state()
    first, again, other = (
        update_of(low_rank_update(layer, rank=2, generator=seeded(seed))).right
        for layer, seed in zip(layers, (0, 0, 1), strict=True)
    )
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_gradient_is_right_and_so_is_its_gradient() -> None:
    layer = low_rank_update(linear(3, 4, torch.float64), rank=2, scale=0.7, generator=seeded())
    update, inputs = update_of(layer), torch.randn(2, 3, generator=seeded(4), dtype=torch.float64)
    left = torch.randn(4, 2, generator=seeded(6), dtype=torch.float64, requires_grad=True)
    right = update.right.detach().clone().requires_grad_()
    names = ("parametrizations.weight.0.left", "parametrizations.weight.0.right")

    def loss(*factors: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, factors, strict=True)), (inputs,)).square().sum()

    assert torch.autograd.gradcheck(loss, (left, right))
    assert torch.autograd.gradgradcheck(loss, (left, right))


@pytest.mark.parametrize("rank", [0, -1, 6, True], ids=repr)
def test_an_impossible_rank_is_refused_and_the_layer_left_alone(rank: int) -> None:
    layer = linear()
    with pytest.raises(ValueError, match=r"a 5 x 7 weight has a rank from 1 to 5"):
        low_rank_update(layer, rank=rank)
    assert layer.weight.requires_grad
    assert not parametrize.is_parametrized(layer)


def test_what_cannot_be_updated_is_named() -> None:
    with pytest.raises(ValueError, match=r"already parametrized"):
        low_rank_update(low_rank_update(linear(), rank=1), rank=1)
    with pytest.raises(ValueError, match=r"Linear has no parameter or buffer 'weights': it has weight, bias"):
        low_rank_update(linear(), "weights", rank=1)
    with pytest.raises(ValueError, match=r"only a matrix .* choose the weight of a linear layer"):
        low_rank_update(nn.Conv2d(2, 3, 3), rank=1)
    with pytest.raises(ValueError, match=r"only a matrix"):
        low_rank_update(linear(), "bias", rank=1)
    with pytest.raises(ValueError, match=r"no shape yet"):
        low_rank_update(nn.LazyLinear(3), rank=1)
