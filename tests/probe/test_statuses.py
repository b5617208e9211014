"""What an output is: measured, zero by design, dead, constant, not finite; and what was not observed."""

import math

import pytest
import torch
from torch import Tensor, nn

from orthoscope import metrics
from orthoscope.probe import Status, record
from probe.readings import batch, linear, row


class WithPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions, self.layer = nn.Embedding(50, 16), nn.Embedding(7, 16), linear()

    def forward(self, ids: Tensor) -> Tensor:
        every = torch.arange(7).expand(len(ids), -1)
        return self.layer(self.tokens(ids) + self.positions(torch.arange(7)[None]) + self.positions(every))


def test_outputs_that_do_not_depend_on_the_batch_are_set_aside() -> None:
    ids = torch.randint(50, (12, 7), generator=torch.Generator().manual_seed(0))
    recording = record(WithPositions(), ids)
    assert row(recording, "positions").status is Status.CONSTANT
    assert row(recording, "positions").sample_view is None
    assert row(recording, "layer").status is Status.MEASURED
    assert row(recording, "layer").token_view is not None


def test_samples_that_a_layer_makes_equal_are_a_collapse_and_not_a_constant() -> None:
    killer = linear(bias=True)
    nn.init.constant_(killer.weight, 1e-30)
    nn.init.constant_(killer.bias, 1.0)
    recording = record(nn.Sequential(linear(), killer, nn.ReLU(), linear(seed=3)), batch())
    assert [row(recording, name).status for name in ("1", "2", "3")] == [Status.MEASURED] * 3
    assert row(recording, "3").overlap == pytest.approx(1)


class ZeroBranch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = linear(seed=7)
        self.branch = nn.Sequential(linear(), nn.BatchNorm1d(16), nn.Identity())
        nn.init.zeros_(self.branch[1].weight)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.stem(inputs)
        return hidden + self.branch(hidden)


def test_a_branch_that_starts_at_zero_is_marked_and_not_nan() -> None:
    recording = record(ZeroBranch(), batch())
    assert row(recording, "branch.1").status is Status.ZERO_BY_DESIGN
    assert row(recording, "branch.1").rms == 0
    assert row(recording, "branch.0").gradient_norm == 0
    assert row(recording, "").gap == pytest.approx(row(recording, "stem").gap)
    assert row(recording, "stem").gradient_norm > 0


def test_gradients_pass_a_zero_head() -> None:
    head = linear(seed=9)
    nn.init.zeros_(head.weight)
    recording = record(nn.Sequential(linear(), nn.Tanh(), head), batch())
    assert "head" in recording.gradient_source
    assert row(recording, "2").status is Status.ZERO_BY_DESIGN
    assert row(recording, "0").gradient_norm > 0


class Reshaped(nn.Sequential):
    """Returns another tensor than its last module, as LeViT's normalized layers do."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs).reshape(-1, 4, 4).clone()


def test_a_module_around_a_zero_branch_is_zero_by_design() -> None:
    branch = ZeroBranch()
    branch.branch = nn.Sequential(Reshaped(*branch.branch), nn.Flatten())
    recording = record(branch, batch())
    assert row(recording, "branch.0").status is Status.ZERO_BY_DESIGN
    branch.branch[0][1].reset_parameters()
    nn.init.constant_(branch.branch[0][1].bias, -1e3)
    branch.branch[0][2] = nn.ReLU()
    recording = record(branch, batch())
    assert row(recording, "branch.0").status is Status.DEAD


class Padded(nn.Module):
    """Embeds tokens, and the padding that it puts after them, as Longformer does."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 16, padding_idx=1)

    def forward(self, tokens: Tensor) -> Tensor:
        return torch.cat([self.embed(tokens), self.embed(torch.full_like(tokens, 1))], 1)


def test_the_embedding_of_padding_alone_is_zero_by_design() -> None:
    tokens = torch.arange(24).view(6, 4) % 7 + 2
    layers = record(Padded(), tokens).layers
    assert [layer.status for layer in layers[:2]] == [Status.MEASURED, Status.ZERO_BY_DESIGN]


def test_a_dead_layer_is_dead_and_not_zero_by_design() -> None:
    layer = linear(bias=True)
    nn.init.constant_(layer.bias, -1e3)
    recording = record(nn.Sequential(layer, nn.ReLU(), linear(seed=2)), batch())
    assert row(recording, "1").status is Status.DEAD


def test_a_batch_of_one_has_gradients_and_no_angles() -> None:
    recording = record(nn.Sequential(linear(), nn.BatchNorm1d(16), linear(seed=2)), batch(1))
    assert all(layer.sample_view is None and layer.gradient_norm is not None for layer in recording.layers)
    assert any("one sample" in note for note in recording.notes)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_found_where_they_are(value: float) -> None:
    model = nn.Sequential(linear(), nn.ReLU(), linear(seed=2), nn.ReLU(), linear(seed=3))
    with torch.no_grad():
        model[2].weight[0, 0] = value
    recording = record(model, batch())
    assert row(recording, "1").status is Status.MEASURED
    assert row(recording, "2").status is Status.NOT_FINITE


def test_at_most_so_many_samples_are_compared_but_batch_norm_sees_all() -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(16))
    recording = record(model, batch(64), max_samples=8)
    assert row(recording, "0").samples == 8
    everything = model.train()(batch(64))
    hidden = everything.detach()[::8]
    assert row(recording, "1").gap == pytest.approx(float(metrics.orthogonality_gap(hidden)), rel=1e-6)


def test_modules_without_a_row_are_listed_with_the_reason() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused, self.functional = linear(), linear(), linear()
            self.counts = nn.Sequential(nn.Flatten(0))

        def forward(self, inputs: Tensor) -> Tensor:
            self.counts(inputs[:5, :5])
            return nn.functional.linear(self.used(inputs), self.functional.weight)

    unobserved = record(Odd(), batch()).unobserved
    assert set(unobserved) == {"unused", "functional", "counts", "counts.0"}
    assert "never called" in unobserved["functional"]
    assert "12 samples" in unobserved["counts.0"]


def test_a_constant_output_leaves_gradients_unchecked() -> None:
    class Detached(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.detach() * 2

    recording = record(Detached(), batch())
    assert recording.gradient_source == ""
    assert math.isclose(recording.layers[0].rms, 2 * recording.input.rms, rel_tol=1e-6)


def test_a_value_that_is_not_finite_is_seen_in_any_sample() -> None:
    inputs = batch(200)
    inputs[1, 3] = torch.nan
    recording = record(nn.Sequential(linear(), nn.Tanh()), inputs, max_samples=8)
    assert row(recording, "0").status is Status.NOT_FINITE
