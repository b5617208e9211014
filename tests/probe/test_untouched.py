"""Diagnosing leaves no trace: everything a model holds is the same, bit for bit, also when it fails half-way."""

import copy
import gc
import random
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from orthoscope.probe import record, restore


class Restless(nn.Module):
    """Changes everything a forward pass can: buffers, parameters, attributes, random state; fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("signed_zero", torch.tensor([-0.0, torch.nan]))
        self.calls = 0
        self.cache: list[Tensor] = []
        self.fail = False

    def forward(self, inputs: Tensor) -> Tensor:
        self.steps += 1
        self.signed_zero = self.signed_zero + 0
        self.calls += 1
        hidden = self.drop(self.norm(self.layer(inputs)))
        self.cache.append(hidden)
        self.last = hidden
        with torch.no_grad():
            self.layer.weight.data.mul_(0.5)  # invisible to version counters
        torch.rand(3), random.random(), np.random.rand()
        if self.fail:
            raise RuntimeError("in the middle")
        return hidden


@pytest.fixture(params=["copied", "guarded"], autouse=True)
def size_of_the_model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of small models are copied, those of large ones just before something writes to them."""
    if request.param == "guarded":
        monkeypatch.setattr(restore, "_SMALL_MODEL", -1)


def snapshot(model: Restless) -> dict[str, Any]:
    bits = {name: value.detach().clone().flatten().view(torch.uint8) for name, value in model.state_dict().items()}
    return {
        "bits": bits,
        "identity": {name: id(value) for name, value in model.named_parameters()},
        "grads": {name: value.grad for name, value in model.named_parameters()},
        "flags": [
            (module.training, len(module._forward_hooks), len(module._backward_hooks)) for module in model.modules()
        ],
        "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
        "calls": model.calls,
        "cache": list(model.cache),
        "last": hasattr(model, "last"),
        "torch_rng": torch.get_rng_state().tolist(),
        "python_rng": random.getstate(),
        "numpy_rng": (np.random.get_state()[1].tolist(), np.random.get_state()[2]),
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    bits_before, bits_after = before.pop("bits"), after.pop("bits")
    assert all(torch.equal(bits_before[name], bits_after[name]) for name in bits_before)
    grads_before, grads_after = before.pop("grads"), after.pop("grads")
    assert all(grads_before[name] is grads_after[name] for name in grads_before), "the very same gradient tensors"
    assert before == after


@pytest.mark.parametrize("fail", [False, True], ids=["completes", "raises"])
def test_the_model_is_left_bit_identical(fail: bool) -> None:
    torch.manual_seed(0)
    model = Restless().train()
    model.norm.eval()
    model.layer.bias.requires_grad_(False)
    model.layer.weight.grad = torch.ones(6, 6)
    seen: list[int] = []
    model.layer.register_forward_hook(lambda *_: seen.append(1))
    model.fail = fail
    inputs = torch.randn(5, 6)
    kept = inputs.clone()
    before = snapshot(model)
    if fail:
        with pytest.raises(RuntimeError, match="in the middle"):
            record(model, inputs)
    else:
        record(model, inputs)
    assert_same(before, snapshot(model))
    assert torch.equal(inputs, kept)
    assert inputs.grad is None
    assert seen == [1], "hooks of the user's own still run"


def test_a_failing_loss_leaves_the_model_alone_too() -> None:
    model = Restless().train()
    before = snapshot(model)

    def loss(output: Tensor) -> Tensor:
        raise KeyError("no such label")

    with pytest.raises(KeyError):
        record(model, torch.randn(5, 6, generator=torch.Generator().manual_seed(0)), loss)
    assert_same(before, snapshot(model))


def test_a_naive_pass_would_have_left_traces() -> None:
    model = Restless().train()
    before = snapshot(model)
    model(torch.randn(5, 6)).sum().backward()
    with pytest.raises(AssertionError):
        assert_same(before, snapshot(model))


def test_hooks_can_still_be_removed_by_their_handles() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    handle = model[0].register_forward_hook(lambda *_: None)
    record(model, torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
    handle.remove()
    assert not model[0]._forward_hooks


@pytest.mark.slow
def test_training_goes_on_as_if_nothing_had_happened() -> None:
    def losses(probe: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        values = []
        for _ in range(5):
            inputs = torch.randn(8, 6)
            optimizer.zero_grad()
            value = model(inputs).square().mean()
            value.backward()
            if probe:
                record(copy.deepcopy(model), inputs)
                record(model, inputs)
            optimizer.step()
            values.append(value.item())
        return values

    assert losses(probe=True) == losses(probe=False)


@pytest.mark.slow
def test_nothing_of_the_pass_is_kept_alive() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    seen: list[weakref.ref[Tensor]] = []
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(weakref.ref(output)))
    record(model, torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    gc.collect()
    assert [reference() for reference in seen] == [None]


def test_no_hook_stays_on_a_parameter_that_was_returned() -> None:
    class Returning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(5, 6))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.table

    model = nn.Sequential(Returning(), nn.Linear(6, 6))
    record(model, torch.randn(5, 6))
    assert not model[0].table._backward_hooks


def test_an_optimizer_in_the_backward_pass_takes_no_step() -> None:
    model = nn.Linear(6, 6)
    steps: list[int] = []
    handle = model.weight.register_post_accumulate_grad_hook(lambda parameter: steps.append(1))
    recording = record(model, torch.randn(5, 6))
    assert steps == []
    assert recording.layers[0].weight_gradient_norm is not None
    model(torch.randn(5, 6)).sum().backward()
    assert steps == [1], "and it is still there afterwards"
    handle.remove()


def test_a_model_that_unfreezes_itself_is_frozen_again() -> None:
    class Thawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6).requires_grad_(False)

        def forward(self, inputs: Tensor) -> Tensor:
            self.layer.requires_grad_(True)
            return self.layer(inputs)

    model = Thawing()
    record(model, torch.randn(5, 6))
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_only_parameters_that_are_written_to_are_copied() -> None:
    first, second = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
    view = first.data[1:]
    with restore._WriteGuard([first, second]) as guard:
        view.mul_(3)
        torch.add(first.detach(), second.detach())
        (first * second).sum().backward()
    assert [copy.tolist() for _, copy in guard.copies] == [[1.0, 1.0, 1.0, 1.0]]
    assert guard.copies[0][0].data_ptr() == first.data_ptr()


def test_flex_attention_runs_while_a_model_is_probed() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.projection = nn.Linear(8, 24)

        def forward(self, inputs: Tensor) -> Tensor:
            heads = self.projection(inputs).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(2, 3)
            query, key, value = heads.detach().unbind()  # it has no backward pass on a CPU
            return flex_attention(query, key, value).flatten(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # flex_attention asks to be compiled
        recording = record(Flex(), torch.randn(6, 16, 8))
    assert [layer.name for layer in recording.layers] == ["projection", ""]


class Converting(nn.Module):
    """Gives its parameters and buffers other memory, type or shape, which no operator on tensors does."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.register_buffer("counts", torch.zeros(2))
        self.change = change

    def forward(self, inputs: Tensor) -> Tensor:
        if self.change == "memory":
            self.layer.weight.data = self.layer.weight.data * 2
        elif self.change == "shape":
            self.counts.resize_(5).fill_(2.0)
        else:
            self.layer.double(), self.norm.double()
            inputs = inputs.double()
        return self.norm(self.layer(inputs))


@pytest.mark.parametrize("change", ["memory", "shape", "type"])
def test_memory_shape_and_type_of_tensors_come_back_with_their_grads(change: str) -> None:
    model = Converting(change)
    before = {name: (value.data_ptr(), value.dtype, value.clone()) for name, value in model.state_dict().items()}
    grad = model.layer.weight.grad = torch.ones(6, 6)
    record(model, torch.randn(5, 6))
    assert model.layer.weight.grad is grad
    for name, value in model.state_dict().items():
        address, dtype, copy_of_it = before[name]
        assert value.dtype is dtype, name
        assert torch.equal(value, copy_of_it), name
        assert value.data_ptr() == address or change == "shape", name
