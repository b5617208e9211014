"""Repairs of single layers do what they say, and nothing else."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope.diagnosis.faults import faults
from orthoscope.diagnosis.inspection import doubt_that_drawn
from orthoscope.prescriptions import (
    Normalize,
    insert_batch_norms_,
    normalize_input_,
    redraw_,
    remove_softmax_,
    scale_attention_,
    unfreeze_,
    zero_biases_,
)
from prescriptions.people import GPT, LENGTH, VOCABULARY, PlainConv, plain, scaled, seeded, with_dead_biases

BATCH = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
IDS = torch.randint(VOCABULARY, (16, LENGTH), generator=torch.Generator().manual_seed(0))


def changed(before: nn.Module, after: nn.Module) -> set[str]:
    """Names of the parameters that differ."""
    kept = after.state_dict()
    return {name for name, value in before.state_dict().items() if not torch.equal(value, kept[name])}


def test_named_layers_are_drawn_as_torch_draws_new_ones() -> None:
    model = seeded(lambda: plain(4))
    nn.init.constant_(model.get_parameter("2.weight"), 0.1)
    before = copy.deepcopy(model)
    redraw_(model, ["2"], generator=torch.Generator().manual_seed(0))
    assert changed(before, model) == {"2.weight", "2.bias"}
    assert doubt_that_drawn(model) == ""
    with pytest.raises(ValueError, match="there is no weight layer '9': choose from 0, 2, 4"):
        redraw_(model, ["9"])


def test_biases_of_named_layers_are_zero_afterwards() -> None:
    model = seeded(lambda: plain(4))
    before = copy.deepcopy(model)
    zero_biases_(model, ("0", "4"))
    assert changed(before, model) == {"0.bias", "4.bias"}
    assert not model.get_parameter("0.bias").any()
    with pytest.raises(ValueError, match="'0' has no bias"):
        zero_biases_(nn.Sequential(nn.Linear(2, 2, bias=False)), ["0"])


def test_named_parameters_or_all_are_unfrozen() -> None:
    model = plain(3).requires_grad_(False)
    unfreeze_(model, ["0.weight"])
    assert [name for name, one in model.named_parameters() if one.requires_grad] == ["0.weight"]
    unfreeze_(model)
    assert all(one.requires_grad for one in model.parameters())
    with pytest.raises(ValueError, match="no parameter 'gate' to unfreeze"):
        unfreeze_(model, ["gate"])


def test_a_softmax_at_the_end_gives_way_to_its_logits() -> None:
    model = nn.Sequential(nn.Linear(64, 10), nn.Softmax(-1))
    logits = model[0](BATCH)
    remove_softmax_(model, "1")
    assert torch.equal(model(BATCH), logits)
    with pytest.raises(ValueError, match="'0' is a Linear, and only a softmax"):
        remove_softmax_(model, "0")


@pytest.mark.parametrize("shape", [(32, 6), (32, 4, 6), (32, 6, 5, 5)])
def test_the_first_layer_sees_mean_0_and_variance_1_in_every_feature(shape: tuple[int, ...]) -> None:
    first = nn.Conv2d(6, 3, 3) if len(shape) == 4 else nn.Linear(6, 3)
    axis = 1 if len(shape) == 4 else -1
    model = nn.Sequential(first, nn.ReLU())
    raw = torch.randn(shape, generator=torch.Generator().manual_seed(0)).movedim(axis, -1)
    batch = (raw * 1000 + torch.arange(6.0) * 500).movedim(-1, axis)
    assert normalize_input_(model, batch) == "0"
    assert isinstance(model[0][0], Normalize)
    seen = model[0][0](batch).movedim(axis, -1).flatten(0, -2)
    torch.testing.assert_close(seen.mean(0), torch.zeros(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(seen.std(0, correction=0), torch.ones(6), atol=1e-4, rtol=0)


def test_a_constant_feature_is_only_shifted() -> None:
    model = nn.Sequential(nn.Linear(64, 2))
    normalize_input_(model, torch.cat([BATCH[:, :-1], torch.full((32, 1), 7.0)], 1))
    assert model[0][0].std[-1] == 1
    assert model[0][0].mean[-1] == 7


class Fused(nn.Module):
    """Queries, keys and values from one layer, in front of attention as torch has it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        out: Tensor = self.attention(q, k, v, need_weights=False)[0]
        return out


def test_queries_and_keys_get_unit_scale_and_values_stay() -> None:
    model = seeded(Fused)
    scaled(model, 10.0)
    before, batch = copy.deepcopy(model), torch.randn(8, 5, 16, generator=torch.Generator().manual_seed(0))
    assert set(scale_attention_(model, batch, ["qkv"])) == {"qkv", "attention.q", "attention.k"}
    q, k, v = model.qkv(batch).chunk(3, -1)  # type: ignore[operator]
    assert torch.cat([q, k]).square().mean().sqrt().item() == pytest.approx(1, rel=1e-4)
    assert torch.equal(v, before.qkv(batch)[..., 32:])  # type: ignore[operator]
    assert changed(before, model) == {"qkv.weight", "qkv.bias", "attention.in_proj_weight"}
    own, old = model.get_parameter("attention.in_proj_weight"), before.get_parameter("attention.in_proj_weight")
    assert torch.equal(own[32:], old[32:])
    with pytest.raises(ValueError, match="no attention"):
        scale_attention_(plain(3), BATCH)


def test_separate_queries_and_keys_are_found_by_name() -> None:
    model = seeded(GPT)
    names = [f"blocks.{i}.{part}_proj" for i in range(2) for part in "qk"]
    assert list(faults(model).queries) == names
    with torch.no_grad():
        model.get_parameter("blocks.0.q_proj.weight").mul_(40)
    assert scale_attention_(model, IDS, names)["blocks.0.q_proj"] > 10
    assert all(size == pytest.approx(1, abs=0.11) for size in _sizes(model, names))


def _sizes(model: nn.Module, names: list[str]) -> list[float]:
    rows = orthoscope.probe.record(model, IDS).layers
    return [row.rms for row in rows if row.name in names]


def test_batch_normalization_comes_behind_every_convolution_but_not_the_last_layer() -> None:
    model = seeded(lambda: PlainConv(depth=4))
    images = torch.randn(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    assert insert_batch_norms_(model, images) == ["first", "convs.0", "convs.1"]
    assert model(images).shape == (8, 10)
    with pytest.raises(ValueError, match="the network has normalizations"):
        insert_batch_norms_(model, images)


FAULTS: dict[str, tuple[Any, str]] = {
    "zero": (lambda m: nn.init.zeros_(m[2].weight), "zero"),
    "one direction": (lambda m: m[2].weight.data.copy_(m[2].weight.data[:1].expand(64, 64)), "low_rank"),
    "constant": (lambda m: nn.init.constant_(m[2].weight, 0.01), "low_rank"),
    "repeated rows": (lambda m: m[2].weight.data.copy_(m[2].weight.data[:8].repeat(8, 1)), "low_rank"),
    "biases of -10": (lambda m: m[2].bias.data.fill_(-10), "shifted"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_one_layer_is_seen_at_this_layer_and_nowhere_else(name: str) -> None:
    harm, kind = FAULTS[name]
    model = seeded(lambda: plain(4))
    assert faults(model) == faults(nn.Identity()), "a new network has no faults"
    harm(model)
    found = faults(model)
    assert getattr(found, kind) == ("2",)
    others = {"zero", "low_rank", "shifted", "frozen_zero"} - {kind}
    assert not any(getattr(found, other) for other in others)


def test_frozen_zeros_and_frozen_networks_are_seen() -> None:
    model = plain(3)
    nn.init.zeros_(model[2].bias)  # type: ignore[arg-type]
    model[2].bias.requires_grad_(False)  # type: ignore[union-attr]
    assert faults(model).frozen_zero == ("2.bias",)
    assert faults(model.requires_grad_(False)).all_frozen


def test_one_column_convolutions_and_embeddings_have_no_rank_fault() -> None:
    assert not faults(nn.Sequential(nn.Linear(1, 64), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(1, 8, 1))).low_rank
    assert not faults(with_dead_biases(GPT())).low_rank
