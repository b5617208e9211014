"""The probe reads the right number from every kind of module; a hook that stores and looks later would not."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from orthoscope.probe import record
from probe.readings import assert_measures, batch, linear, row


def test_every_row_is_what_the_metrics_say_and_gradients_are_autograds() -> None:
    model = nn.Sequential(linear(seed=1), nn.Tanh(), linear(out=24, seed=2), nn.Tanh(), linear(24, 5, seed=3))
    inputs = batch()
    recording = record(model, inputs, lambda output: output.square().sum())
    outputs, hidden = [], inputs.clone().requires_grad_()
    for module in model:
        hidden = module(hidden)
        hidden.retain_grad()
        outputs.append(hidden)
    hidden.square().sum().backward()
    for index, output in enumerate(outputs):
        layer = row(recording, str(index))
        assert_measures(layer, output)
        assert layer.gradient_norm == pytest.approx(float(output.grad.norm()), rel=1e-5)
    for index in (0, 2, 4):
        expected = float(model[index].weight.grad.norm())
        assert row(recording, str(index)).weight_gradient_norm == pytest.approx(expected, rel=1e-5)
    assert [layer.depth for layer in recording.layers] == [1, None, 2, None, 3]


def test_an_in_place_relu_does_not_overwrite_what_was_measured_before_it() -> None:
    norm = nn.BatchNorm1d(16)
    model = nn.Sequential(linear(), norm, nn.ReLU(inplace=True), linear(seed=2))
    recording = record(model, batch(64))
    variance = row(recording, "1").rms ** 2
    assert variance == pytest.approx(1.0, abs=1e-3)  # 0.5 after the relu: what a stored tensor would show
    assert row(recording, "2").rms ** 2 == pytest.approx(0.5, abs=0.05)


def test_in_place_gradients_equal_those_out_of_place() -> None:
    def slopes(inplace: bool) -> list[float | None]:
        model = nn.Sequential(linear(), nn.ReLU(inplace=inplace), linear(seed=2), nn.ReLU(inplace=inplace))
        return [layer.gradient_norm for layer in record(model, batch()).layers]

    assert slopes(True) == pytest.approx(slopes(False))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = linear()
        self.act = nn.Tanh()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.act(self.shared(self.act(self.shared(inputs))))


def test_a_module_called_twice_has_two_rows() -> None:
    model = Twice()
    recording = record(model, batch())
    first = model.shared(batch())
    assert [layer.call for layer in recording.layers if layer.name == "shared"] == [0, 1]
    assert_measures(row(recording, "shared", 0), first)
    assert_measures(row(recording, "shared", 1), model.shared(first.tanh()))
    assert row(recording, "shared", 0).gradient_norm != row(recording, "shared", 1).gradient_norm


@dataclasses.dataclass
class Output:
    flag: str
    hidden: Tensor


class Wrapping(nn.Module):
    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.layer, self.wrap = linear(), wrap

    def forward(self, inputs: Tensor) -> Any:
        return self.wrap(self.layer(inputs))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda hidden: (hidden.sum(), hidden),
        lambda hidden: {"steps": torch.arange(3), "hidden": hidden},
        lambda hidden: Output("ok", hidden),
        lambda hidden: [None, (hidden,)],
    ],
    ids=["tuple", "dict", "dataclass", "nested"],
)
def test_outputs_may_be_tuples_dicts_and_dataclasses(wrap: Any) -> None:
    model = nn.Sequential(Wrapping(wrap))
    recording = record(model, batch())
    assert_measures(row(recording, "0.layer"), model[0].layer(batch()))
    assert row(recording, "0.layer").gradient_norm == pytest.approx(1.0)


def test_frozen_layers_still_show_their_representation_gradient() -> None:
    model = nn.Sequential(linear(), nn.Tanh(), linear(seed=2))
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    recording = record(model, batch())
    free = record(nn.Sequential(linear(), nn.Tanh(), linear(seed=2)), batch())
    assert row(recording, "0").gradient_norm == pytest.approx(row(free, "0").gradient_norm)
    assert row(recording, "0").weight_gradient_norm is None
    assert row(recording, "2").weight_gradient_norm is not None


def test_a_wholly_frozen_model_of_tokens_still_shows_gradients() -> None:
    model = nn.Sequential(nn.Embedding(50, 16), linear(), nn.Tanh(), linear(seed=2)).requires_grad_(False)
    tokens = torch.randint(50, (12, 7), generator=torch.Generator().manual_seed(0))
    recording = record(model, tokens)
    assert row(recording, "1").gradient_norm > 0
    assert row(recording, "3").gradient_norm == pytest.approx(1.0)


@pytest.mark.slow
def test_a_compiled_model_that_ran_before_is_still_seen() -> None:
    model = nn.Sequential(linear(), nn.ReLU(), linear(seed=2))
    expected = record(model, batch())
    compiled = torch.compile(model, backend="eager")
    compiled(batch())
    seen = record(compiled, batch())
    assert [layer.name for layer in seen.layers] == ["0", "1", "2"]
    assert [layer.gap for layer in seen.layers] == pytest.approx([layer.gap for layer in expected.layers])


def test_a_compiled_part_of_a_model_is_still_seen() -> None:
    model = nn.Sequential(nn.Sequential(linear(), nn.ReLU()), linear(seed=2))
    model[0] = torch.compile(model[0], backend="eager")
    model(batch())
    assert {layer.name for layer in record(model, batch()).layers} == {"0.0", "0.1", "1"}


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_nothing(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = linear(seed=8)
            self.inner = nn.Sequential(linear(), nn.ReLU(), linear(seed=2))
            self.head = linear(seed=3)
            self.use = True

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.stem(inputs)
            hidden = checkpoint(self.inner, hidden, use_reentrant=reentrant) if self.use else self.inner(hidden)
            return self.head(hidden)

    model = Checkpointed()
    checkpointed = record(model, batch())
    model.use = False
    plain = record(model, batch())
    assert [layer.name for layer in checkpointed.layers] == [layer.name for layer in plain.layers]
    for ours, expected in zip(checkpointed.layers, plain.layers, strict=True):
        assert ours.gap == pytest.approx(expected.gap)
        assert ours.gradient_norm == pytest.approx(expected.gradient_norm)


@pytest.mark.parametrize(("samples", "units"), [(12, 64), (8, 1024)])
def test_under_autocast_metrics_are_not_rounded_to_bfloat16(samples: int, units: int) -> None:
    model = nn.Sequential(linear(units, units), nn.ReLU(), linear(units, units, seed=2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recording = record(model, batch(samples, units))
        output = model[0](batch(samples, units))
    assert output.dtype is torch.bfloat16
    assert_measures(row(recording, "0"), output)
    hidden = output.detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = hidden @ hidden.mT
    exact = hidden.double() @ hidden.double().mT
    assert not torch.allclose(rounded.double(), exact, rtol=1e-4), "a careless Gram matrix is rounded to bfloat16"


def test_batch_norm_uses_the_batch_unless_told_otherwise() -> None:
    model = nn.Sequential(linear(), nn.BatchNorm1d(16)).eval()
    inputs = 5 * batch(64) + 3
    assert row(record(model, inputs), "1").rms == pytest.approx(1.0, abs=1e-3)
    assert row(record(model, inputs, batch_statistics=False), "1").rms > 3


def test_dropout_and_drop_path_are_off() -> None:
    class DropPath(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            keep = torch.rand(len(hidden), 1) > 0.5 if self.training else torch.ones(len(hidden), 1)
            return hidden * keep

    model = nn.Sequential(linear(), nn.Dropout(0.5), DropPath(), nn.BatchNorm1d(16)).train()
    recording = record(model, batch())
    assert row(recording, "2").rms == pytest.approx(row(recording, "0").rms)
    assert "1" in row(recording, "0").also, "dropout that is off passes the same tensor on"


def test_sequence_first_outputs_are_read_by_their_samples() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = nn.LSTM(16, 16)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.core(inputs.transpose(0, 1))[0][-1]

    inputs = torch.randn(12, 5, 16, generator=torch.Generator().manual_seed(0))
    model = Recurrent()
    output = model.core(inputs.transpose(0, 1))[0].transpose(0, 1)
    assert_measures(row(record(model, inputs), "core"), output)


def test_a_parametrized_weight_is_one_layer() -> None:
    layer = torch.nn.utils.parametrizations.orthogonal(linear())
    recording = record(nn.Sequential(layer, nn.Tanh()), batch())
    assert [entry.name for entry in recording.layers] == ["0", "1"]
    assert recording.layers[0].depth == 1
    assert recording.layers[0].kind == "Linear", "not the class that torch made for it"
    assert recording.layers[0].weight_gradient_norm > 0


def test_progress_names_every_layer_on_the_way_there_and_back() -> None:
    seen: list[str] = []
    record(nn.Sequential(linear(), nn.Tanh()), batch(), progress=seen.append)
    assert seen == ["0", "1", "1", "0"]


def test_channels_of_a_convolution_over_time_are_no_tokens_also_after_its_activation() -> None:
    model = nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Flatten(), linear(8 * 14, 5))
    recording = record(model, torch.randn(12, 4, 16, generator=torch.Generator().manual_seed(0)))
    assert row(recording, "0").token_view is None
    assert row(recording, "1").token_view is None


def test_sparse_gradients_have_norms() -> None:
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.layer = nn.Embedding(20, 16, sparse=True), linear()

        def forward(self, ids: Tensor) -> Tensor:
            return self.layer(self.table(ids))

    ids = torch.randint(20, (12, 5), generator=torch.Generator().manual_seed(0))
    assert row(record(Sparse(), ids), "layer").weight_gradient_norm > 0


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_reentrant_checkpointing_of_the_first_layers_cuts_them_off_as_it_does_in_training() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = linear(), linear(seed=2)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(checkpoint(self.inner, inputs, use_reentrant=True))

    model = Cut()
    model(batch()).sum().backward()
    assert model.inner.weight.grad is None, "PyTorch itself gives none"
    model.zero_grad()
    assert row(record(model, batch()), "inner").gradient_norm is None
