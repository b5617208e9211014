"""Every change does what it says, and its code is the change."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope.models import MLP
from orthoscope.prescriptions import Prescription, insert_norms_, prescribe, scale_branches_
from orthoscope.prescriptions.prescription import Change, snippet
from prescriptions.people import applied_and_pasted

BATCH = torch.randn(32, 16, generator=torch.Generator().manual_seed(0))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Residual(nn.Module):
    """A foreign residual network: two branches of two layers, no class of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16)) for _ in range(2))
        self.head = nn.Linear(16, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs + self.first(inputs)
        hidden = hidden + self.second(hidden)
        out: Tensor = self.head(hidden)
        return out


def test_branches_of_a_foreign_network_are_scaled_by_their_last_weight_and_bias() -> None:
    model = Residual()
    before = copy.deepcopy(model)
    changed = scale_branches_(model, BATCH)
    assert sorted(changed) == ["first.2.bias", "first.2.weight", "second.2.bias", "second.2.weight"]
    torch.testing.assert_close(model.first(BATCH), before.first(BATCH) / math.sqrt(2))
    others = {name for name, value in model.named_parameters() if torch.equal(value, before.get_parameter(name))}
    assert others == set(dict(model.named_parameters())) - set(changed)


def test_branches_of_our_blocks_are_scaled_by_their_scale() -> None:
    model = MLP(depth=4, width=16, residual=True, residual_scale=0.5)
    assert scale_branches_(model, BATCH, 0.5) == [f"layers.{index}.scale" for index in range(4)]
    assert {block.scale for block in model.layers} == {0.25}


def test_a_plain_network_has_no_branches_and_says_so() -> None:
    model = MLP(depth=3, width=16)
    with pytest.raises(ValueError, match="no residual branch"):
        scale_branches_(model, BATCH)


def test_post_norm_transformers_have_their_branches_found() -> None:
    model = orthoscope.models.Transformer(depth=2, width=16, heads=2, vocabulary=8, length=4, norm="post")
    changed = scale_branches_(model, torch.randint(8, (4, 4)))
    weights = {name for name in changed if name.endswith("weight")}
    assert weights == {f"layers.{i}.{part}.weight" for i in range(2) for part in ("attention.output", "mlp.2")}


def test_norms_are_put_before_hidden_layers_that_have_none() -> None:
    model = nn.Sequential(
        nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)
    ).double()
    hidden = copy.deepcopy(model)
    assert insert_norms_(model, BATCH.double()) == ["2", "6"]
    state = hidden[1](hidden[0](BATCH.double()))
    torch.testing.assert_close(model[2](state), hidden[2](nn.functional.layer_norm(state, (8,))), rtol=1e-9, atol=1e-9)


SICK: dict[str, Any] = {
    "ReLU": {"depth": 40, "init": "torch"},
    "small": {"depth": 12, "init": "he", "weight_gain": 0.1},
    "batch norm": {"depth": 40, "norm": "batch"},
    "residual": {"depth": 40, "residual": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SICK)
def test_the_code_of_a_prescription_is_the_change_to_the_last_bit(name: str) -> None:
    model = MLP(width=16, out_features=4, generator=seeded(), **SICK[name])
    plan = prescribe(orthoscope.diagnose(model, BATCH))
    assert plan.steps
    assert plan.steps[0].applies
    for step in plan.applicable:
        pair = applied_and_pasted(step, model, BATCH)
        if pair is None:
            continue
        applied, pasted = pair
        assert torch.equal(applied(BATCH), pasted(BATCH)), step.name
        assert not torch.equal(applied(BATCH), model(BATCH)), f"{step.name} changes nothing"


@pytest.mark.slow
def test_predictions_of_theory_are_what_is_measured_afterwards() -> None:
    model = MLP(width=128, depth=20, activation="tanh", init="xavier", weight_gain=4.0, generator=seeded())
    batch = torch.randn(64, 128, generator=seeded(1))
    plan = prescribe(orthoscope.diagnose(model, batch))
    checked = 0
    for step in plan.applicable:
        if math.isnan(step.predicted.gap) or math.isnan(step.predicted.slope) or "branches" in step.name:
            continue
        changed = copy.deepcopy(model)
        step.apply_(changed, batch)
        found = orthoscope.diagnose(changed, batch)
        assert found.gap == pytest.approx(step.predicted.gap, abs=0.05)
        assert found.slope == pytest.approx(step.predicted.slope, abs=0.01)
        checked += 1
    assert checked == 2


@pytest.mark.slow
def test_a_network_that_theory_does_not_cover_has_its_effects_not_predicted() -> None:
    model = nn.Sequential(*(layer for _ in range(30) for layer in (nn.Linear(16, 16), nn.Sigmoid())))
    plan = prescribe(orthoscope.diagnose(model, BATCH))
    assert plan.applicable
    assert all("not predicted" in step.predicted.reason for step in plan.applicable)


@pytest.mark.slow
def test_trained_weights_get_advice_only_unless_new_ones_are_allowed() -> None:
    model = MLP(depth=60, width=16, generator=seeded())
    diagnosis = orthoscope.diagnose(model, BATCH)
    assert prescribe(diagnosis).applicable
    told = prescribe(diagnosis, trained=True)
    assert told.steps
    assert not told.applicable
    assert "left unchanged" in told.refusal
    assert prescribe(diagnosis, trained=True, reinitialize=True).applicable
    with torch.no_grad():
        model.head.weight *= 1.5  # type: ignore[union-attr, operator]
    seen = orthoscope.diagnose(model, BATCH)
    assert not prescribe(seen).applicable
    assert prescribe(seen, trained=False).applicable


class Gate(nn.Module):
    """Somebody's activation, with a part inside: it prints over several lines."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Tanh()

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.inner(inputs)
        return out


def test_a_reason_of_several_lines_leaves_a_snippet_that_compiles() -> None:
    assert "\n" in repr(Gate())
    code = snippet([Prescription("weights", f"for {Gate()!r}", (Change(len, "len"),))])
    compile(code, "snippet", "exec")
    assert "# weights: for Gate( (inner): Tanh() )\nlen(model)\n" in code


class Attention(nn.Module):
    """Three projections behind one normalization, then one behind an activation that works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(16, 8), nn.LayerNorm(8)
        self.q, self.k, self.v, self.out, self.last = (nn.Linear(8, 8) for _ in range(5))
        self.after = nn.LayerNorm(8)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.norm(self.first(inputs))
        hidden = self.q(hidden) * self.k(hidden.view(1, *hidden.shape)[0]) + self.v(hidden)
        out: Tensor = self.last(self.after(self.out(hidden)).relu_())
        return out


def test_layers_that_share_a_normalization_get_no_second_one() -> None:
    assert insert_norms_(Attention(), BATCH) == ["out", "last"]


def iterative_step(model: nn.Module, batch: Tensor) -> Prescription:
    found = orthoscope.diagnose(model, batch, max_samples=len(batch))
    return next(step for step in prescribe(found) if step.name == "iterative orthogonalization")


@pytest.mark.slow
def test_iterative_orthogonalization_says_how_many_samples_it_needs() -> None:
    def step(samples: int, **options: Any) -> Prescription:
        model = MLP(depth=60, width=64, generator=seeded(), **options)
        return iterative_step(model, torch.randn(samples, 64, generator=seeded()))

    few, enough = step(32), step(64)
    assert not few.applies
    assert few.outcome == "needs at least 64 samples, and the batch has 32"
    assert not few.as_document().advice, "it is a change to the model, only not with this batch"
    with pytest.raises(ValueError, match=r"needs at least 64 samples, .*: diagnose with such a batch"):
        few.apply_(MLP(depth=3, width=64), BATCH)
    assert enough.applies
    assert few.code == enough.code == step(128).code
    assert "samples=64" in enough.code
    assert step(64, out_features=1000).code == enough.code, "the last layer is not made"


@pytest.mark.slow
def test_iterative_orthogonalization_of_maps_takes_all_samples() -> None:
    hidden = [part for _ in range(60) for part in (nn.ReLU(), nn.Conv2d(48, 48, 1, bias=False))]
    model = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), *hidden, nn.Flatten(), nn.Linear(192, 10))
    orthoscope.init.initialize_(model, "he", generator=seeded())
    batch = torch.randn(64, 3, 2, 2, generator=seeded(1))
    step = iterative_step(model, batch)
    assert "samples" not in step.code
    step.apply_(model, batch)


@pytest.mark.slow
def test_branches_are_not_prescribed_where_there_can_be_none() -> None:
    names = [step.name for step in prescribe(orthoscope.diagnose(MLP(depth=30, width=16, init="torch"), BATCH))]
    assert names
    assert not any("branches" in name for name in names)
