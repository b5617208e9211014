"""Every scheme, through real layers, wide and tall: its law, its generator, its reach."""

import pytest
import torch
from torch import Tensor, nn

from orthoscope.init import SCHEMES, initialize_, lsuv_
from orthoscope.init.weights import fans, fill_, weight_blocks
from orthoscope.layers import low_rank_update, orthogonal
from orthoscope.linalg import weight_matrix

# Orthogonality in float32: the measured error is about 2 eps·√(rows).
ROUNDING = 100 * torch.finfo(torch.float32).eps


def layers() -> dict[str, nn.Module]:
    return {
        "wide linear": nn.Linear(60, 40),
        "tall linear": nn.Linear(40, 60),
        "convolution": nn.Conv2d(6, 16, 3),
        "long convolution": nn.Conv1d(8, 12, 5, bias=False),
        "grouped convolution": nn.Conv2d(12, 24, 3, groups=4),
        "depthwise convolution": nn.Conv2d(20, 20, 3, groups=20),
        "solid convolution": nn.Conv3d(4, 7, (1, 2, 3)),
        "transposed convolution": nn.ConvTranspose2d(12, 8, 3, groups=2),
    }


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def standard_errors_from(samples: Tensor, variance: float) -> float:
    """How many standard errors the mean square is away from a variance, for Gaussian samples."""
    error = variance * (2 / samples.numel()) ** 0.5
    return abs(samples.double().square().mean().item() - variance) / error


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_generator_reproduces_the_weights_and_leaves_the_global_one_alone(scheme: str) -> None:
    model = nn.Sequential(*layers().values())
    before = torch.get_rng_state()
    initialize_(model, scheme, generator=seeded(1))
    first = [p.clone() for p in model.parameters()]
    initialize_(model, scheme, generator=seeded(1))
    assert all(torch.equal(a, b) for a, b in zip(first, model.parameters(), strict=True))
    assert torch.equal(before, torch.get_rng_state())
    initialize_(model, scheme, generator=seeded(2))
    weights = [(a, b) for a, b in zip(first, model.parameters(), strict=True) if a.ndim > 1]
    assert not any(torch.equal(a, b) for a, b in weights)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gain_multiplies_the_weights(scheme: str) -> None:
    model = nn.Sequential(*layers().values())
    initialize_(model, scheme, generator=seeded(1))
    once = [m.weight.detach().clone() for m in model]
    initialize_(model, scheme, gain=3.0, generator=seeded(1))
    for before, layer in zip(once, model, strict=True):
        torch.testing.assert_close(layer.weight.detach(), 3 * before)


@pytest.mark.parametrize("name", layers())
def test_the_global_generator_is_used_when_none_is_given(name: str) -> None:
    layer = layers()[name]
    torch.manual_seed(3)
    initialize_(layer, "gaussian")
    first = layer.weight.detach().clone()
    initialize_(layer, "gaussian")
    assert not torch.equal(first, layer.weight)
    torch.manual_seed(3)
    initialize_(layer, "gaussian")
    assert torch.equal(first, layer.weight)


@pytest.mark.parametrize(
    ("scheme", "variance"),
    [
        ("gaussian", lambda fan_in, fan_out: 1 / fan_in),
        ("lecun", lambda fan_in, fan_out: 1 / fan_in),
        ("he", lambda fan_in, fan_out: 2 / fan_in),
        ("xavier", lambda fan_in, fan_out: 2 / (fan_in + fan_out)),
        ("normal", lambda fan_in, fan_out: 0.02**2),
    ],
)
@pytest.mark.parametrize(
    ("layer", "fan_in", "fan_out"),
    [
        (nn.Linear(90, 300), 90, 300),
        (nn.Conv2d(16, 64, 3), 16 * 9, 64 * 9),
        (nn.Conv2d(40, 160, 3, groups=4), 10 * 9, 40 * 9),
        (nn.ConvTranspose2d(64, 16, 3, groups=2), 32 * 9, 8 * 9),
    ],
)
def test_gaussian_schemes_have_their_variance(scheme, variance, layer, fan_in, fan_out) -> None:
    assert fans(layer) == (fan_in, fan_out)
    initialize_(layer, scheme, generator=seeded(0))
    assert standard_errors_from(layer.weight, variance(fan_in, fan_out)) < 4
    assert standard_errors_from(layer.weight, 1.3 * variance(fan_in, fan_out)) > 10, "the test must reject"
    assert layer.bias.count_nonzero() == 0


def test_a_linear_layer_keeps_the_mean_square_and_a_relu_layer_does_under_he() -> None:
    inputs = torch.randn(500, 300, generator=seeded(0))
    for scheme, after in (("gaussian", nn.Identity()), ("he", nn.ReLU())):
        layer = nn.Linear(300, 2000)
        initialize_(layer, scheme, generator=seeded(1))
        ratio = after(layer(inputs)).square().mean() / inputs.square().mean()
        assert abs(ratio.item() - 1) < 0.05


@pytest.mark.parametrize("name", layers())
def test_orthogonal_blocks_have_orthonormal_rows_or_columns(name: str) -> None:
    layer = layers()[name]
    initialize_(layer, "orthogonal", gain=2.0, generator=seeded(0))
    blocks = weight_blocks(layer) / 2
    short = blocks if blocks.shape[1] <= blocks.shape[2] else blocks.mT
    gram = short @ short.mT
    assert (gram - torch.eye(short.shape[1])).abs().max() < ROUNDING


def test_an_orthogonal_linear_layer_keeps_every_length() -> None:
    layer = nn.Linear(40, 60)
    initialize_(layer, "orthogonal", generator=seeded(0))
    inputs = torch.randn(7, 40, generator=seeded(1))
    torch.testing.assert_close(layer(inputs).norm(dim=1), inputs.norm(dim=1))


def test_an_ungrouped_block_is_the_weight_matrix() -> None:
    layer = nn.Conv2d(6, 16, 3)
    assert torch.equal(weight_blocks(layer)[0], weight_matrix(layer.weight))


@pytest.mark.parametrize("name", layers())
def test_filling_a_layer_with_its_own_blocks_changes_nothing(name: str) -> None:
    layer = layers()[name]
    before = layer.weight.detach().clone()
    fill_(layer, weight_blocks(layer).clone())
    assert torch.equal(layer.weight, before)


def test_blocks_of_a_transposed_convolution_are_indexed_by_its_outputs() -> None:
    """Output channel o reads only block row o: emptying one row silences one channel."""
    layer = nn.ConvTranspose2d(6, 8, 3, groups=2, bias=False)
    blocks = weight_blocks(layer).clone()
    blocks[1, 2] = 0  # channel 4 + 2
    fill_(layer, blocks)
    energy = layer(torch.randn(2, 6, 5, 5)).square().sum((0, 2, 3))
    assert (energy == 0).nonzero().flatten().tolist() == [6]


def test_torch_scheme_has_torchs_own_law() -> None:
    layer = nn.Linear(300, 500)
    initialize_(layer, "torch", generator=seeded(0))
    bound = 300**-0.5
    assert 0.999 * bound < layer.weight.abs().max() <= bound
    assert 0.98 * bound < layer.bias.abs().max() <= bound
    assert abs(layer.weight.var().item() / (bound**2 / 3) - 1) < 0.01


def test_embeddings_norms_and_tied_heads_are_left_alone() -> None:
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(11, 6),
            "norm": nn.LayerNorm(6),
            "linear": nn.Linear(6, 6),
            "head": nn.Linear(6, 11, bias=False),
        }
    )
    model["head"].weight = model["embedding"].weight
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert initialize_(model, "he") == ["linear"]
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"linear.weight", "linear.bias"}


def test_a_parametrized_weight_is_set_through_its_parametrization() -> None:
    class Double(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

        def right_inverse(self, weight: Tensor) -> Tensor:
            return weight / 2

    layer = nn.utils.parametrize.register_parametrization(nn.Linear(5, 4), "weight", Double())
    initialize_(layer, "orthogonal", generator=seeded(0))
    assert (layer.weight @ layer.weight.mT - torch.eye(4)).abs().max() < ROUNDING


@pytest.mark.parametrize("last", ["orthogonal", "low rank"])
def test_a_layer_that_refuses_is_named_before_any_is_changed(last: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    orthogonal(model[1], start="haar") if last == "orthogonal" else low_rank_update(model[1], rank=1)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"layer '1' is parametrized and refuses scheme 'he', gain 1, so no layer was"):
        initialize_(model, "he")
    with pytest.raises(ValueError, match=r"layer '1' is parametrized and refuses a multiple of its weight"):
        lsuv_(model, torch.randn(8, 4))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_an_orthogonal_layer_is_drawn_by_the_orthogonal_scheme_as_a_plain_one() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    initialize_(model, "orthogonal", generator=seeded(1))
    drawn = [layer.weight.detach().clone() for layer in model]
    orthogonal(model[1], start="haar")
    initialize_(model, "orthogonal", generator=seeded(1))
    for layer, weight in zip(model, drawn, strict=True):
        assert (layer.weight - weight).abs().max() < ROUNDING
    with pytest.raises(ValueError, match=r"refuses scheme 'orthogonal', gain 2"):
        initialize_(model, "orthogonal", gain=2.0)


def test_a_scheme_of_ones_own_is_a_function() -> None:
    layer = nn.Linear(3, 2)
    initialize_(layer, lambda layer, gain, generator: fill_(layer, torch.full((1, 2, 3), gain)), gain=5.0)
    assert (layer.weight == 5).all()


def test_mistakes_name_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"unknown weight scheme 'hare': choose one of delta-orthogonal, gaussian, "):
        initialize_(nn.Linear(2, 2), "hare")
    with pytest.raises(ValueError, match="run one batch through the model first"):
        initialize_(nn.Sequential(nn.LazyLinear(3)), "he")
