"""Iterative orthogonalization of residual and convolutional networks; what has no forward order."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.init import iterative_
from orthoscope.init.iterative import layer_rows, row_blocks
from orthoscope.init.weights import weight_blocks
from orthoscope.layers import orthogonal
from orthoscope.models import MLP, ConvNet


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def unevenness(model: nn.Module, batch: Tensor, names: list[str]) -> dict[str, float]:
    """By layer, the largest over the smallest singular value of its output rows, of those that are not zero."""
    ratios: dict[str, float] = {}

    def note(name: str, layer: Any, inputs: Tensor) -> None:
        rows = layer_rows(layer, inputs)
        blocks = weight_blocks(layer)
        values = torch.linalg.svdvals(rows @ blocks.mT)
        values = values[:, : min(rows.shape[1], *blocks.shape[1:])]
        ratios[name] = float((values[:, 0] / values[:, -1]).max())

    handles = [
        model.get_submodule(name).register_forward_pre_hook(
            lambda layer, args, kwargs, name=name: note(name, layer, (*args, *kwargs.values())[0]), with_kwargs=True
        )
        for name in names
    ]
    with torch.no_grad():
        model(batch)
    for handle in handles:
        handle.remove()
    return ratios


class Reversed(nn.Module):
    """Called in another order than defined, one layer by keyword, with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.second, self.first = nn.Linear(7, 3), nn.Linear(7, 7), nn.Linear(5, 7)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs).relu()
        hidden = hidden + self.second(input=hidden).relu()
        return self.head(hidden)


def solid() -> nn.Module:
    hidden = (nn.Conv3d(2, 3, 2), nn.ReLU(), nn.Conv3d(3, 4, 2, groups=1), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*hidden, nn.Linear(4, 2))


@torch.random.fork_rng()
def networks() -> dict[str, tuple[nn.Module, tuple[int, ...], list[str]]]:
    """A network, the shape of a batch, and the layers between the first and the last that is called."""
    # Of this draw no unit is dead for all rows of a slice: the frame nearest to that would not be unique.
    torch.manual_seed(0)
    return {
        "residual": (
            MLP(depth=4, width=6, in_features=4, residual=True, generator=seeded(3)),
            (40, 4),
            [f"layers.{i}.branch.linear" for i in (1, 2, 3)],
        ),
        "convolutions": (
            ConvNet(depth=3, channels=5, in_channels=3, residual=True, norm="batch", generator=seeded(3)),
            (9, 3, 6, 6),
            ["layers.1.branch.conv", "layers.2.branch.conv"],
        ),
        "solid": (solid(), (30, 2, 3, 3, 3), ["2"]),
        "another order": (Reversed(), (30, 5), ["second"]),
    }


@pytest.mark.parametrize("kind", networks())
def test_one_pass_evens_out_every_hidden_layer_in_the_order_they_are_called(kind: str) -> None:
    model, shape, names = networks()[kind]
    model.double()
    passes: list[int] = []
    counter = model.register_forward_pre_hook(lambda *_: passes.append(1))
    conditions = iterative_(model, normal(*shape), power=1.0, generator=seeded(1))
    counter.remove()
    assert len(passes) == 1
    assert list(conditions) == names
    # Batch norm is in training mode, as it was while the layers were made. Measured: 2e-12 at most.
    assert max(unevenness(model, normal(*shape), names).values()) < 1 + 1e-9
    before = networks()[kind][0].double()
    assert min(unevenness(before, normal(*shape), names).values()) > 1.5, "they were uneven before"


def test_few_patches_of_images_are_unfolded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, pictures = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2).double(), normal(5, 4, 6, 7)
    whole = layer_rows(layer, pictures)
    outputs = (whole @ weight_blocks(layer).mT).transpose(0, 1).flatten(1)
    expected = nn.functional.conv2d(pictures, layer.weight, None, 2, 1, groups=2).detach()
    torch.testing.assert_close(outputs, expected.permute(0, 2, 3, 1).flatten(end_dim=2))
    monkeypatch.setattr("orthoscope.init.iterative._BLOCK_ELEMENTS", 1000)
    blocks = list(row_blocks(layer, pictures))
    assert len(blocks) > 2
    assert torch.equal(torch.cat(blocks, dim=1), whole)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.middle(self.middle(self.first(inputs)).relu()))


class Unused(Shared):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(nn.functional.linear(self.first(inputs), self.middle.weight))


class Tied(Shared):
    def __init__(self) -> None:
        super().__init__()
        self.last.weight = self.middle.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.middle(self.first(inputs)))


class Unfollowed(Shared):
    def forward(self, inputs: Tensor) -> Tensor:
        self.middle.forward = lambda pair: nn.functional.linear(pair[0], self.middle.weight)  # type: ignore[method-assign]
        return self.last(self.middle((self.first(inputs),)))


def deep(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), layer, nn.Linear(6, 6))


BATCH = normal(30, 6, seed=2).float()
REFUSED: dict[str, tuple[nn.Module, Any, str]] = {
    "called twice": (Shared(), BATCH, r"layer 'middle' is called more than once .* name it in `keep`"),
    "not called": (Unused(), BATCH, r"layer 'middle' is not called .* place in forward order cannot be found"),
    "tied": (Tied(), BATCH, r"layers 'middle' and 'last' share a weight"),
    "not followed": (Unfollowed(), BATCH, r"layer 'middle' is called with a tuple instead of a tensor"),
    "attention": (
        nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 8), nn.Linear(8, 2)),
        BATCH,
        r"layer '1.self_attn.out_proj' is not called .*as attention does",
    ),
    "transposed": (
        deep(nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ConvTranspose1d(2, 2, 1), nn.Flatten())),
        BATCH,
        r"layer '2.1' is a ConvTranspose1d",
    ),
    "parametrized": (
        deep(orthogonal(nn.Linear(6, 6), start="nearest")),
        BATCH,
        r"layer '2' is parametrized and refuses",
    ),
    "lazy": (nn.Sequential(nn.LazyLinear(6)), BATCH, r"layer '0' has no weight yet"),
    "small": (deep(nn.Linear(6, 6)), BATCH[:4], r"layer '1' is a 6 x 6 matrix and gets 4 rows from 4 samples, .* 6"),
    "few pictures": (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 40, 2), nn.Flatten(), nn.Linear(360, 2)),
        torch.ones(1, 1, 6, 6),
        r"40 x 16 matrix and gets 9 rows from 1 samples, .* at least 2 samples",
    ),
    "dead": (
        nn.Sequential(nn.Linear(6, 6), nn.Threshold(1e9, 0.0), nn.Linear(6, 6), nn.Linear(6, 6)),
        BATCH,
        r"input of layer '2' is zero",
    ),
    "not finite later": (
        deep(nn.Sequential(nn.Linear(6, 6), nn.Threshold(-1e9, 0.0))),
        BATCH * float("inf"),
        r"input of layer '1' is not finite",
    ),
    "an iterator": (deep(nn.Linear(6, 6)), iter([BATCH]), "a batch is a tensor, .* got list_iterator"),
    "empty": (deep(nn.Linear(6, 6)), BATCH[:0], "layer '1' gets an empty batch"),
    "shallow": (nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)), BATCH, "no weight layer is left to set"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_inputs_leave_weights_hooks_modes_and_generator_unchanged(case: str) -> None:
    model, batch, message = REFUSED[case]
    lazy = case == "lazy"
    before = {} if lazy else {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    generator, state = seeded(5), seeded(5).get_state()
    with pytest.raises(ValueError, match=message):
        iterative_(model, batch, generator=generator)
    assert torch.equal(generator.get_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_pre_hooks for module in model.modules() if not lazy)
    after = {} if lazy else model.state_dict()
    assert all(torch.equal(value.view(torch.uint8), after[name].view(torch.uint8)) for name, value in before.items())


def test_a_last_layer_that_cannot_be_set_is_ignored_and_a_kept_one_may_be_of_any_kind() -> None:
    last = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Unflatten(1, (6, 1)), nn.ConvTranspose1d(6, 6, 1))
    assert list(iterative_(last, BATCH, generator=seeded(0))) == ["1"]
    assert list(iterative_(Shared(), BATCH, keep=("middle",), generator=seeded(0))) == ["first", "last"]
    assert list(iterative_(Unused(), BATCH, keep=("middle",), generator=seeded(0))) == ["first", "last"]
