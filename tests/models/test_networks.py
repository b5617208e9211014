"""Networks of the papers: what they are made of, and that they run forward and back."""

import pytest
import torch
from torch import Tensor, nn

from orthoscope.data import images, tokens
from orthoscope.init import SCHEMES
from orthoscope.models import MLP, ConvNet, ResidualBlock, ResNet, Transformer


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def count(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(module, kind) for module in model.modules())


NETWORKS = {
    "mlp": (lambda g: MLP(depth=3, width=10, in_features=7, generator=g), torch.ones(4, 7)),
    "mlp with bias": (
        lambda g: MLP(depth=2, width=5, bias=True, init="torch", generator=g),
        torch.ones(4, 5),
    ),
    "convnet": (lambda g: ConvNet(depth=2, channels=5, norm="batch", generator=g), torch.ones(4, 3, 6, 5)),
    "resnet 1": (
        lambda g: ResNet(kind=1, blocks=2, width=6, image_size=4, generator=g),
        images(4, 3, 4, 4, generator=seeded(1)),
    ),
    "resnet 2": (
        lambda g: ResNet(kind=2, blocks=2, width=4, generator=g),
        images(4, 3, 8, 8, generator=seeded(1)),
    ),
    "resnet 3": (
        lambda g: ResNet(kind=3, blocks=(1, 2, 1), width=4, generator=g),
        images(4, 3, 16, 16, generator=seeded(1)),
    ),
    "pre-norm transformer": (
        lambda g: Transformer(depth=2, width=8, heads=2, vocabulary=11, length=6, generator=g),
        tokens(4, 6, 11, generator=seeded(1)),
    ),
    "post-norm transformer": (
        lambda g: Transformer(depth=2, width=8, heads=2, vocabulary=11, length=6, norm="post", generator=g),
        tokens(4, 5, 11, generator=seeded(1)),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_generator_decides_every_weight_and_the_global_one_is_untouched(name: str) -> None:
    build, _ = NETWORKS[name]
    before = torch.get_rng_state()
    first, again, other = build(seeded(0)), build(seeded(0)), build(seeded(1))
    assert torch.equal(before, torch.get_rng_state())
    same = [torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)]
    assert all(same)
    weights = [(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True) if a.ndim > 1]
    assert not any(torch.equal(a, b) for a, b in weights)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_parameter_is_finite_and_gets_a_finite_gradient(name: str) -> None:
    build, batch = NETWORKS[name]
    model = build(seeded(0))
    output = model(batch)
    assert output.shape[0] == 4
    output.square().sum().backward()
    for parameter in model.parameters():
        assert parameter.isfinite().all()
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


def test_networks_are_built_on_the_default_device() -> None:
    with torch.device("meta"):
        models = [build(None) for build, _ in NETWORKS.values()]
    assert all(parameter.is_meta for model in models for parameter in model.parameters())


@pytest.mark.parametrize("depth", [1, 4])
def test_depth_counts_hidden_weight_layers_and_the_head_comes_on_top(depth: int) -> None:
    assert count(MLP(depth=depth, width=6), nn.Linear) == depth + 1
    assert count(MLP(depth=depth, width=6, out_features=None), nn.Linear) == depth
    assert count(ConvNet(depth=depth, channels=4), nn.Conv2d) == depth


def test_modules_have_readable_names_in_the_order_they_run() -> None:
    names = [name for name, _ in MLP(depth=1, width=4, norm="batch").named_modules()]
    assert names[2:] == ["layers.0", "layers.0.linear", "layers.0.norm", "layers.0.activation", "head"]
    swapped = MLP(depth=1, width=4, norm="rms", order="activation-norm", out_features=None)
    assert list(dict(swapped.layers[0].named_children())) == ["linear", "activation", "norm"]
    assert list(dict(ConvNet(depth=1, channels=2).layers[0].named_children())) == ["conv", "activation"]


def test_order_decides_what_is_normalized() -> None:
    inputs = torch.randn(16, 20, generator=seeded(0))
    after = MLP(depth=1, width=20, norm="rms", order="activation-norm", out_features=None)(inputs)
    torch.testing.assert_close(after.square().mean(1), torch.ones(16))
    before = MLP(depth=1, width=20, norm="rms", out_features=None)(inputs)
    assert before.square().mean(1).max() < 0.99


def test_the_mlp_computes_the_recursion() -> None:
    model = MLP(depth=2, width=8, in_features=5, activation="tanh", gain=0.3, generator=seeded(0))
    inputs = torch.randn(3, 5, generator=seeded(1))
    first, second = (layer.linear.weight for layer in model.layers)
    hidden = torch.tanh(0.3 * inputs @ first.mT) / 0.3
    hidden = torch.tanh(0.3 * hidden @ second.mT) / 0.3
    torch.testing.assert_close(model(inputs), hidden @ model.head.weight.mT)


@pytest.mark.parametrize("init", SCHEMES)
def test_weight_gain_multiplies_the_weights_of_any_scheme(init: str) -> None:
    plain, scaled = (MLP(depth=2, width=6, init=init, weight_gain=g, generator=seeded(0)) for g in (1.0, 0.5))
    for a, b in zip(plain.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(b, a / 2)


def test_residual_layers_add_their_input_where_the_width_allows() -> None:
    model = MLP(depth=3, width=6, in_features=4, residual=True, residual_scale=0.5, out_features=None)
    assert [isinstance(layer, ResidualBlock) for layer in model.layers] == [False, True, True]
    hidden = torch.randn(5, 6)
    torch.testing.assert_close(model.layers[1](hidden), hidden + 0.5 * model.layers[1].branch(hidden))
    model = ConvNet(depth=2, channels=3, residual=True, out_features=None)
    maps = torch.randn(2, 3, 5, 5)
    torch.testing.assert_close(model.layers[0](maps), maps + model.layers[0].branch(maps))


def test_the_mlp_flattens_images_and_refuses_other_widths() -> None:
    model = MLP(depth=1, width=6, in_features=12)
    assert model(torch.ones(2, 3, 2, 2)).shape == (2, 10)
    with pytest.raises(ValueError, match=r"12 features, got a batch of shape \(2, 5\).*in_features=5"):
        model(torch.ones(2, 5))


def test_convolutions_keep_the_size_of_the_map() -> None:
    assert ConvNet(depth=3, channels=4, kernel=5, out_features=None)(torch.ones(2, 3, 9, 7)).shape == (
        2,
        4,
        9,
        7,
    )
    with pytest.raises(ValueError, match="only an odd kernel"):
        ConvNet(depth=1, channels=4, kernel=2)


@pytest.mark.slow
def test_resnet34_has_sixteen_blocks_and_thirty_four_layers_in_each_kind() -> None:
    for kind, weights in ((1, nn.Linear), (2, nn.Conv2d), (3, nn.Conv2d)):
        with torch.device("meta"):
            model = ResNet(kind=kind, width=8)
        assert count(model, ResidualBlock) == 16
        branches = sum(count(m.branch, weights) for m in model.layers)
        assert branches + 2 == 34, "two a block, a stem and a head"


def test_type_two_keeps_and_type_three_halves_the_resolution() -> None:
    maps = torch.randn(2, 3, 16, 16)
    two = ResNet(kind=2, blocks=3, width=4)
    assert two.layers(two.stem(maps)).shape == (2, 4, 16, 16)
    three = ResNet(kind=3, blocks=(1, 1, 1), width=4)
    assert three.layers(three.stem(maps)).shape == (2, 16, 4, 4)
    assert [block.shortcut is not None for block in three.layers] == [False, True, True]


@pytest.mark.parametrize("kind", [1, 2])
def test_a_block_adds_its_branch_and_without_skip_is_its_branch(kind: int) -> None:
    with_skip, without = (ResNet(kind=kind, blocks=1, width=4, skip=s, generator=seeded(0)) for s in (True, False))
    hidden: Tensor = torch.randn(6, 4) if kind == 1 else torch.randn(6, 4, 5, 5)
    block, bare = with_skip.layers[0], without.layers[0]
    assert block.skip
    assert not bare.skip
    torch.testing.assert_close(block(hidden), hidden + block.branch(hidden))
    torch.testing.assert_close(bare(hidden), block.branch(hidden))
    assert not any("shortcut" in name for name, _ in ResNet(kind=3, width=4, skip=False).named_modules())


def test_resnets_without_normalization_have_no_norm_layers() -> None:
    assert count(ResNet(kind=3, width=4, norm="none"), nn.BatchNorm2d) == 0


def test_mistaken_resnets_name_the_remedy() -> None:
    with pytest.raises(ValueError, match="unknown kind 4: choose 1"):
        ResNet(kind=4)
    with pytest.raises(ValueError, match="type 3 has stages"):
        ResNet(kind=3, blocks=5)
    with pytest.raises(ValueError, match="type 1 has no stages"):
        ResNet(kind=1, blocks=(3, 4))
    with pytest.raises(ValueError, match=r"48 features.*in_channels and image_size"):
        ResNet(kind=1, blocks=1, width=4, image_size=4)(torch.ones(2, 5))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_causal_transformer_does_not_see_the_future(norm: str) -> None:
    ids = tokens(3, 6, 11, generator=seeded(0))
    changed = ids.clone()
    changed[:, 4] = (ids[:, 4] + 1) % 11
    causal, open_ended = (
        Transformer(depth=2, width=8, heads=2, vocabulary=11, length=6, norm=norm, init="he", causal=c)
        for c in (True, False)
    )
    same = torch.isclose(causal(ids), causal(changed), atol=1e-6).all(-1).all(0)
    assert same.tolist() == [True] * 4 + [False] * 2
    assert not torch.isclose(open_ended(ids), open_ended(changed), atol=1e-6).all(-1).any()


def test_the_transformer_starts_with_standard_deviation_one_fiftieth() -> None:
    model = Transformer(depth=2, width=64, vocabulary=100, generator=seeded(0))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    assert len(matrices) == 2 + 2 * 6 + 1
    assert all(abs(matrix.std().item() / 0.02 - 1) < 0.05 for matrix in matrices)


def test_post_norm_streams_are_normalized_and_pre_norm_ones_are_not() -> None:
    ids = tokens(3, 6, 11, generator=seeded(0))
    post, pre = (
        Transformer(depth=3, width=32, heads=2, vocabulary=11, length=6, norm=norm, init="he", generator=seeded(0))
        for norm in ("post", "pre")
    )
    streams = [model.layers(model.tokens(ids)) for model in (post, pre)]
    torch.testing.assert_close(streams[0].var(-1, correction=0), torch.ones(3, 6), atol=1e-3, rtol=0)
    assert streams[1].var(-1).min() > 2


def test_mistaken_transformers_name_the_remedy() -> None:
    with pytest.raises(ValueError, match="choose a multiple of 3"):
        Transformer(width=8, heads=3)
    with pytest.raises(ValueError, match="unknown norm 'rms': choose one of pre, post"):
        Transformer(norm="rms")
    with pytest.raises(ValueError, match="up to 4 tokens, got 5: build it with length=5"):
        Transformer(depth=1, width=8, heads=2, length=4)(torch.zeros(1, 5, dtype=torch.long))


@pytest.mark.parametrize(
    "make",
    [lambda: MLP(depth=0), lambda: ConvNet(channels=-1), lambda: ResNet(blocks=0)],
)
def test_sizes_must_be_whole_positive_numbers(make) -> None:
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        make()


def test_unknown_orders_list_the_known() -> None:
    with pytest.raises(ValueError, match="choose one of norm-activation, activation-norm"):
        MLP(order="norm")
