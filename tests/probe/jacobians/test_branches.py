"""Residual branches are found by what is added to what it was made from; their Jacobians are those written by hand."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.models import ResNet, Transformer
from orthoscope.models.targets.timm_zoo import repair_torchvision
from orthoscope.probe import BlockJacobian, layer_jacobians, residual_jacobians
from orthoscope_papers.li2023.theorem_3_3 import UnconstrainedJacobians
from references.dense_jacobians import dense_jacobian

EXACT = {"dtype": torch.float64}


def matrix_of(block: BlockJacobian, sample: int = 0) -> Tensor:
    """Put together from the singular triplets, not from the operator."""
    return (block.left * block.singular_values.unsqueeze(-2) @ block.right.mT)[sample]


def same(block: BlockJacobian, expected: Tensor, sample: int = 0) -> None:
    assert matrix_of(block, sample).shape == expected.shape
    assert torch.allclose(matrix_of(block, sample), expected, atol=1e-9 * float(expected.abs().max()) + 1e-12)


class Basic(nn.Module):
    """As torchvision writes it: in-place addition, in-place activation, a layer as shortcut where sizes change."""

    def __init__(self, wide_in: int, wide: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.downsample = nn.Conv2d(wide_in, wide, 1, stride, bias=False) if stride > 1 else None

    def branch(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


def test_an_activation_after_the_sum_multiplies_by_its_slope(generator: torch.Generator) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), Basic(3, 3), Basic(3, 5, 2)).eval()
    image = torch.randn(1, 1, 6, 6, generator=generator)
    first, second = residual_jacobians(model, image, **EXACT)
    twin = copy.deepcopy(model).double()
    start = twin[0](image.double()).detach()
    sums = twin[1].branch(start) + start
    slope = (sums > 0).double().flatten().unsqueeze(1)
    same(first, slope * dense_jacobian(twin[1].branch, start))
    assert (first.name, first.skip, first.activation) == ("1", "identity", "relu")
    assert torch.allclose(first.output, F.relu(sums).flatten(1))
    middle = F.relu(sums).detach()
    later = twin[2].branch(middle) + twin[2].downsample(middle)
    same(second, (later > 0).double().flatten().unsqueeze(1) * dense_jacobian(twin[2].branch, middle))
    assert (second.skip, second.square) == ("projection", False)
    assert second.operator.shape == (5 * 9, 3 * 36)


class Before(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(torch.relu(x))


class After(Before):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.linear(x) + x)


def test_an_activation_belongs_to_the_block_only_if_nothing_else_uses_the_sum() -> None:
    torch.manual_seed(0)
    before = nn.Sequential(nn.Linear(4, 4), Before(), Before(), nn.ReLU(), nn.Linear(4, 2)).double()
    blocks = residual_jacobians(before, torch.randn(1, 4))
    assert [block.activation for block in blocks] == ["", ""]
    same(blocks[1], dense_jacobian(lambda x: before[2].linear(torch.relu(x)), blocks[1].input))
    after = nn.Sequential(nn.Linear(4, 4), After(), After()).double()
    blocks = residual_jacobians(after, torch.randn(1, 4))
    assert [block.activation for block in blocks] == ["gelu", "gelu"]
    point = blocks[1].input
    summed = (after[2].linear(point) + point).detach()
    slope = torch.autograd.functional.jacobian(lambda s: F.gelu(s).sum(), summed).mT
    same(blocks[1], slope * after[2].linear.weight.detach())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_attention_and_mlp_of_a_transformer(norm: str) -> None:
    model = Transformer(depth=2, width=8, heads=2, vocabulary=20, length=5, norm=norm)
    tokens = torch.arange(5).unsqueeze(0)
    blocks = residual_jacobians(model, tokens, **EXACT)
    assert [block.name for block in blocks] == [f"layers.{i}.{part}" for i in (0, 1) for part in ("attention", "mlp")]
    layer = copy.deepcopy(model).double().layers[0]
    stream = blocks[0].input.reshape(1, 5, 8)

    def attention(hidden: Tensor) -> Tensor:
        return layer.attention(layer.attention_norm(hidden) if norm == "pre" else hidden)

    def mlp(hidden: Tensor) -> Tensor:
        return layer.mlp(layer.mlp_norm(hidden) if norm == "pre" else hidden)

    same(blocks[0], dense_jacobian(attention, stream))
    after = stream + attention(stream)
    middle = (after if norm == "pre" else layer.attention_norm(after)).detach()
    assert torch.allclose(blocks[1].input, middle.flatten(1))
    same(blocks[1], dense_jacobian(mlp, middle))


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_encoder_of_torch(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    stream = torch.randn(1, 4, 8)
    blocks = residual_jacobians(model, stream, **EXACT)
    assert len(blocks) == 4
    twin = copy.deepcopy(model).double().layers[0]

    def attention(hidden: Tensor) -> Tensor:
        hidden = twin.norm1(hidden) if norm_first else hidden
        # Weights ask for the slow path, which has no special case for inference.
        return twin.self_attn(hidden, hidden, hidden, need_weights=True)[0]

    same(blocks[0], dense_jacobian(attention, stream.double()))


def test_one_token_sees_only_itself() -> None:
    model = Transformer(depth=1, width=6, heads=2, vocabulary=20, length=4)
    tokens = torch.arange(4).unsqueeze(0)
    whole = residual_jacobians(model, tokens, **EXACT)[0]
    alone = residual_jacobians(model, tokens, token=2, **EXACT)[0]
    same(alone, matrix_of(whole).reshape(4, 6, 4, 6)[2, :, 2])
    assert alone.input.shape == (1, 6)


@pytest.mark.slow
def test_every_sample_has_its_own_jacobian(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=2, width=9, in_channels=1, image_size=4, generator=generator)
    images = torch.randn(3, 1, 4, 4, generator=generator)
    together = residual_jacobians(model, images, **EXACT)
    for number in range(3):
        alone = residual_jacobians(model, images[number : number + 1], **EXACT)
        for block, one in zip(together, alone, strict=True):
            same(block, matrix_of(one), number)
    twin = copy.deepcopy(model).double().eval()
    start = twin.stem(images[1:2].double().flatten(1))
    same(together[0], dense_jacobian(twin.layers[0].branch, start), 1)


def test_products_agree_with_the_matrix_and_with_each_other(generator: torch.Generator) -> None:
    model = ResNet(kind=3, blocks=(1, 2), width=3, in_channels=1, image_size=6, generator=generator)
    for block in residual_jacobians(model, torch.randn(2, 1, 6, 6, generator=generator), **EXACT):
        matrix = block.operator.dense()
        right = torch.randn(2, block.operator.inputs, 4, generator=generator, dtype=torch.float64)
        left = torch.randn(2, block.operator.outputs, 4, generator=generator, dtype=torch.float64)
        assert torch.allclose(block.operator.multiply(right), matrix @ right)
        assert torch.allclose(block.operator.multiply_transposed(left), matrix.mT @ left)


@pytest.mark.slow
def test_large_blocks_go_by_products_and_know_their_error(generator: torch.Generator) -> None:
    model = ResNet(kind=2, blocks=2, width=8, in_channels=1, image_size=12, generator=generator)
    image = torch.randn(1, 1, 12, 12, generator=generator)
    for block in residual_jacobians(model, image, top=5):
        assert block.operator.shape == (1152, 1152)
        matrix = block.operator.dense()[0].double()
        exact = torch.linalg.svdvals(matrix)
        assert (block.singular_values[0] - exact[:5]).abs().max() < 1e-5 * exact[0]
        assert (block.spectrum.errors < 1e-4 * exact[0]).all()
        assert (block.spectrum.errors > 0).all()
        energy, error = float(block.spectrum.energy[0]), float(block.spectrum.energy_error[0])
        assert abs(energy - float(matrix.square().sum())) < 4 * error


class Parallel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, 5), nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.one(x)) + self.two(x).sin() + x


def test_branches_that_are_added_at_once_are_one() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 5), Parallel()).double()
    (block,) = residual_jacobians(model, torch.randn(1, 5))
    part = model[1]
    same(block, dense_jacobian(lambda x: torch.tanh(part.one(x)) + part.two(x).sin(), block.input))


class Gelu(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tanh(x + 0.04 * x**3)


def test_weights_that_were_unpacked_before_the_first_layer_still_count() -> None:
    model = UnconstrainedJacobians(depth=3, width=4)
    blocks = residual_jacobians(model, torch.randn(1, 4))
    assert len(blocks) == 3
    for block, jacobian in zip(blocks, model.jacobians.detach(), strict=True):
        same(block, jacobian)


def test_sums_that_are_no_branches_are_named_with_the_reason() -> None:
    model = Transformer(depth=1, width=8, heads=2, vocabulary=20, length=4)
    model.layers[0].mlp[1] = Gelu()
    blocks = residual_jacobians(model, torch.arange(4).unsqueeze(0))
    assert [block.name for block in blocks] == ["layers.0.attention", "layers.0.mlp"]
    assert "no weight takes part" in blocks.left_out["layers.0.mlp.1"]
    plain = nn.Sequential(nn.Linear(4, 4), Gelu(), nn.Linear(4, 4))
    with pytest.raises(
        ValueError, match=r"no residual branch was found: 1 modules add, but 1: .* no weight takes part"
    ):
        residual_jacobians(plain, torch.randn(1, 4))
    with pytest.raises(
        ValueError,
        match=r"no module adds two tensors of one shape by \+ .*; take the Jacobians of modules .* by blocks=",
    ):
        residual_jacobians(plain[0], torch.randn(1, 4))


@pytest.mark.slow
def test_blocks_by_name_are_branches_or_the_modules_themselves(generator: torch.Generator) -> None:
    options = {"kind": 1, "blocks": 3, "width": 6, "in_channels": 1, "image_size": 3}
    image = torch.randn(1, 1, 3, 3, generator=generator)
    with_skips = ResNet(**options, generator=generator)
    without = ResNet(**options, skip=False)
    without.load_state_dict(with_skips.state_dict())
    names = ["layers.2", "layers.0.branch"]
    chosen = residual_jacobians(with_skips, image, names, **EXACT)
    assert [(block.name, block.skip) for block in chosen] == [("layers.2", "identity"), ("layers.0.branch", "none")]
    everything = residual_jacobians(with_skips, image, **EXACT)
    same(chosen[1], matrix_of(everything[0]))
    same(chosen[0], matrix_of(everything[2]))
    # The first block sees the same input in both networks; without skips it is its own branch.
    same(residual_jacobians(without, image, ["layers.0"], **EXACT)[0], matrix_of(everything[0]))
    with pytest.raises(ValueError, match=r"the model has no module 'layers\.9'"):
        residual_jacobians(with_skips, image, ["layers.9"])
    with pytest.raises(ValueError, match="no residual branch was found"):
        residual_jacobians(without, image)


def test_the_whole_network_is_the_product_of_its_layers(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=2, width=6, in_channels=1, image_size=3, norm="none", generator=generator)
    image = torch.randn(1, 1, 3, 3, generator=generator)
    names = ["stem", "layers.0", "layers.1", "final", "head", ""]
    layers = {block.name: matrix_of(block) for block in layer_jacobians(model, image, names, **EXACT)}
    product = layers["head"] @ layers["final"] @ layers["layers.1"] @ layers["layers.0"] @ layers["stem"]
    assert torch.allclose(layers[""], product)
    branch = matrix_of(residual_jacobians(model, image, **EXACT)[0])
    assert torch.allclose(layers["layers.0"], branch + torch.eye(6, dtype=torch.float64))


@pytest.mark.slow
def test_statistics_of_a_batch_replace_running_ones(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=2, width=6, in_channels=1, image_size=3, generator=generator)
    batch = torch.randn(50, 1, 3, 3, generator=generator)
    calibrated = residual_jacobians(model, batch[:1], statistics=batch, **EXACT)
    twin = copy.deepcopy(model).double().train()
    for module in twin.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.momentum = 1.0
    twin(batch.double())
    same(calibrated[1], matrix_of(residual_jacobians(twin, batch[:1])[1]))
    assert not torch.allclose(matrix_of(calibrated[1]), matrix_of(residual_jacobians(model, batch[:1], **EXACT)[1]))


def test_a_dead_block_has_zeros_and_no_minus(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=2, width=6, in_channels=1, image_size=3, generator=generator)
    nn.init.zeros_(model.layers[1].branch.weight2.weight)
    block = residual_jacobians(model, torch.randn(1, 1, 3, 3, generator=generator))[1]
    assert block.singular_values.tolist() == [[0.0] * 6]
    assert not block.singular_values.signbit().any()


def test_the_model_is_left_as_it_was_and_may_train_on(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=2, width=6, in_channels=1, image_size=3, generator=generator).train()
    model.head.weight.requires_grad_(False)
    batch = torch.randn(8, 1, 3, 3, generator=generator)
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    blocks = residual_jacobians(model, batch[:1], statistics=batch)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not model.head.weight.requires_grad
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    product = blocks[0].operator.multiply(blocks[0].right)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    assert torch.equal(blocks[0].operator.multiply(blocks[0].right), product)


def test_mistakes_are_named(generator: torch.Generator) -> None:
    model = ResNet(kind=2, blocks=1, width=3, in_channels=1, image_size=3, generator=generator)
    image = torch.randn(1, 1, 3, 3, generator=generator)
    with pytest.raises(ValueError, match=r"not \(samples, tokens, units\): leave out token"):
        residual_jacobians(model, image, token=1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        residual_jacobians(model, image, top=0)
    tokens = Transformer(depth=1, width=8, heads=2, vocabulary=20, length=4)
    with pytest.raises(ValueError, match="has 4 tokens, so there is no token 4"):
        residual_jacobians(tokens, torch.arange(4).unsqueeze(0), token=4)


TINY = "vocab_size=50, num_attention_heads=2, num_hidden_layers=2, hidden_size=16"
ZOO = {
    "timm:test_resnet": ("relu", None),
    "timm:test_vit": ("", None),
    "hf:gpt2(vocab_size=50, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)": ("", 4),
    f"hf:bert({TINY}, intermediate_size=32, max_position_embeddings=64)": ("", 4),
    f"hf:llama({TINY}, num_key_value_heads=2, intermediate_size=32, max_position_embeddings=64)": ("", 4),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # third parties warn at import and at construction; that is theirs
@pytest.mark.parametrize("text", ZOO, ids=lambda text: text.split("(")[0])
def test_stock_architectures_show_every_branch(text: str, generator: torch.Generator) -> None:
    from orthoscope.models import resolve

    repair_torchvision()
    target = resolve(text)
    model = target.build(generator)
    activation, count = ZOO[text]
    blocks = residual_jacobians(model, target.batch(1, generator), top=2, tolerance=1e-2)
    assert {block.activation for block in blocks} == {activation}
    if text == "timm:test_resnet":
        assert len(blocks) == sum(1 for name, _ in model.named_modules() if name.endswith(".conv1"))
    elif text == "timm:test_vit":
        assert len(blocks) == 2 * len(model.blocks)
    else:
        assert len(blocks) == count
    assert len({block.name for block in blocks}) == len(blocks)
    # A zero-initialized branch is dead by design; every other one has a Jacobian.
    assert all(block.singular_values.isfinite().all() for block in blocks)
