"""The loss of every step is read where the backward pass starts, and the module that makes the first nan is named."""

import gc
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import orthoscope
from orthoscope import watcher
from orthoscope.report.document import WatchRecordDocument, to_data
from orthoscope.watcher import _backward
from orthoscope.watcher.hooks import RiskWarning, Watch

BACKWARD = torch.autograd.backward


@pytest.fixture(autouse=True)
def torch_is_as_it_was() -> Iterator[None]:
    yield
    gc.collect()
    assert torch.autograd.backward is BACKWARD
    assert not _backward._listeners


def network(*middle: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), *(middle or (nn.Tanh(),)), nn.Linear(16, 4))


def watch(model: nn.Module, **options: object) -> Watch:
    return orthoscope.watch(model, **{"logger": None, "profile": False, **options})  # type: ignore[arg-type]


def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.randn(12, 8, generator=generator), torch.randint(4, (12,), generator=generator)


def train(model: nn.Module, steps: int, rate: float = 0.05) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), rate)
    losses = []
    for inputs, labels in batches(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_losses_are_those_of_the_loop_and_guessing_is_that_of_its_classes() -> None:
    model = network()
    with watch(model) as w:
        expected = train(model, 5)
    assert w.losses == list(enumerate(expected))
    assert w.as_document().guessing == pytest.approx(torch.tensor(4.0).log().item())
    assert [one.loss for one in w.as_document().losses] == expected
    assert w.warnings == []
    assert f"first {expected[0]:.4g}" in str(w.as_document() and orthoscope.report.text(w.document()))


def test_training_is_the_same_to_the_last_bit() -> None:
    plain, watched = network(), network()
    expected = train(plain, 6)
    with watch(watched):
        assert train(watched, 6) == expected
    for one, two in zip(plain.parameters(), watched.parameters(), strict=True):
        assert torch.equal(one, two)


def test_backward_passes_of_one_step_are_added_and_those_that_do_not_reach_the_model_are_not() -> None:
    model, other = network(), network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model) as w:
        for inputs, _ in batches(2):
            model(inputs)  # its output is not used
            other(inputs).square().sum().backward()
            parts = [model(inputs).square().mean() / 2 for _ in range(2)]
            for part in parts:
                part.backward()
            optimizer.step()
    assert w.losses[-1] == (1, pytest.approx(float(sum(parts).detach())))  # type: ignore[attr-defined]
    assert len(w.losses) == 2


def test_a_closure_is_read_once_a_step() -> None:
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    inputs, labels = next(batches(1))
    seen = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        seen.append(float(loss.detach()))
        return loss

    with watch(model) as w:
        optimizer.step(closure)
    assert len(seen) > 1
    assert w.losses == [(0, seen[0])]


def test_the_factor_of_a_gradient_scaler_is_no_part_of_the_loss() -> None:
    model = network()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    inputs, labels = next(batches(1))
    with watch(model) as w:
        loss = F.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert w.losses == [(0, pytest.approx(float(loss.detach())))]


def test_a_loss_that_the_loop_tells_counts_instead() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model) as w:
        for inputs, _ in batches(3):
            w.loss(torch.tensor(7.0))
            model(inputs).square().mean().backward()
            optimizer.step()
    assert w.losses == [(0, 7.0), (1, 7.0), (2, 7.0)]


def test_watches_within_each_other_read_the_same_and_leave_in_any_order() -> None:
    model = network()
    one, two = watch(model), watch(model)
    one.__enter__()
    two.__enter__()
    assert torch.autograd.backward is not BACKWARD
    train(model, 2)
    one.__exit__(None, None, None)
    train(model, 1)
    two.__exit__(None, None, None)
    assert (len(one.losses), len(two.losses)) == (2, 3)
    assert torch.autograd.backward is BACKWARD


def test_a_wrapper_of_another_program_stays() -> None:
    model, calls = network(), []
    w = watch(model)
    w.__enter__()
    ours = torch.autograd.backward

    def theirs(*args: object, **kwargs: object) -> None:
        calls.append(1)
        ours(*args, **kwargs)  # type: ignore[arg-type]

    torch.autograd.backward = theirs
    try:
        w.__exit__(None, None, None)
        assert torch.autograd.backward is theirs
        train(model, 1)
        with watch(model) as again:
            train(model, 1)
        assert len(again.losses) == 1
        assert len(calls) == 2
    finally:
        torch.autograd.backward = BACKWARD


def test_a_watch_that_was_never_left_listens_no_more_once_it_is_gone() -> None:
    model = network()
    w = watch(model)
    w.__enter__()
    handles = w._handles
    del w
    gc.collect()
    assert torch.autograd.backward is BACKWARD
    for handle in handles:
        handle.remove()


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs)


def overflow(inputs: Tensor) -> Tensor:
    return (inputs.half() * 30000 * 30000).float()


PLANTED = {
    "a logarithm of negative numbers": (Function(torch.log), "nan", "`log`"),
    "a division by zero": (Function(lambda x: x / (x - x)), "inf", "`div`"),
    "zero divided by zero": (Function(lambda x: (x - x) / (x - x)), "nan", "`div`"),
    "an overflow in half precision": (Function(overflow), "inf", "`mul`"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_module_that_makes_the_first_nan_is_named_and_those_that_pass_it_on_are_counted(name: str) -> None:
    planted, kind, operator = PLANTED[name]
    model = network(nn.Tanh(), planted, nn.Linear(16, 16))
    with pytest.warns(RiskWarning, match="the loss is nan") as caught, watch(model, on_risk="warn") as w:
        train(model, 1)
    assert [one.kind for one in w.warnings] == ["loss"]
    assert (w.warnings[0].layer, w.warnings[0].step) == ("2", 0)
    assert w.warnings[0].sentence.startswith(f"the loss is nan: `2` (Function) makes {kind} of finite inputs")
    assert operator in w.warnings[0].sentence
    assert "2 module calls after it pass it on" in w.warnings[0].sentence
    assert len(caught) == 1


class Masked(nn.Module):
    """Attention whose mask holds -inf on purpose; from the third step on, its parent divides by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)
        self.calls = 0

    def forward(self, inputs: Tensor) -> Tensor:
        tokens = inputs[:, None].expand(-1, 3, -1)
        mask = torch.full((3, 3), -torch.inf).triu(1)
        hidden, _ = self.attention(tokens, tokens, tokens, attn_mask=mask)
        self.calls += torch.is_grad_enabled()
        if self.calls > 2:
            hidden = hidden / torch.zeros_like(hidden)
        return self.head(hidden[:, -1])


def test_an_operation_outside_all_children_is_of_the_module_that_holds_it_and_masks_are_no_nan() -> None:
    model = Masked()
    with watch(model) as w:
        train(model, 4)
    assert [(one.kind, one.step, one.layer) for one in w.warnings] == [("loss", 2, "")]
    assert "the forward of the model itself (Masked) makes" in w.warnings[0].sentence


def test_a_loss_function_that_makes_nan_of_a_finite_output_is_told_from_the_model() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model) as w:
        (model(torch.ones(2, 8)) - 100).log().sum().backward()
        optimizer.step()
    assert w.warnings[0].layer is None
    assert "the output of the model is finite, so the loss function makes it" in w.warnings[0].sentence


def test_a_batch_that_holds_nan_is_told_from_the_model() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model) as w:
        model(torch.full((2, 8), torch.nan)).sum().backward()
        optimizer.step()
    assert "the batch itself holds nan" in w.warnings[0].sentence


def test_a_gradient_that_is_not_finite_is_placed_between_two_layers() -> None:
    model = network(Function(lambda x: (x - x.detach()).abs().sqrt() + x), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model) as w:
        model(torch.randn(6, 8)).square().sum().backward()
        optimizer.step()
    assert [(one.kind, one.step, one.layer) for one in w.warnings] == [("gradient", 0, "0")]
    assert "made by an operation between the output of `0` and the input of `2`" in w.warnings[0].sentence


def test_a_step_of_the_optimizer_that_makes_weights_nan_is_named() -> None:
    """Adam with ε = 0 divides zero by zero where a gradient is zero."""
    model = network(nn.ReLU())
    assert isinstance(model[0].bias, Tensor)
    with torch.no_grad():
        model[0].bias[3] = -100.0  # this unit is dead: its gradients are zero
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, eps=0.0)
    with watch(model) as w:
        for inputs, labels in batches(3):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    assert [(one.kind, one.step, one.layer) for one in w.warnings] == [("weights", 1, "0.weight")]
    sentence = w.warnings[0].sentence
    assert "step 1 of Adam made them so, although its gradients were finite" in sentence


def test_a_stop_comes_before_the_optimizer_spreads_nan() -> None:
    model = network(Function(torch.log))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.warns(RiskWarning, match="after 0 steps the loss is nan"), watch(model, on_risk="stop") as w:
        train(model, 2)
    assert "makes nan" in w.stopped
    assert w.step == 0
    assert all(torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))


def test_the_last_healthy_snapshot_is_kept_and_its_step_is_said(tmp_path: Path) -> None:
    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.calls = network(nn.Tanh(), nn.Linear(16, 16)), 0

        def forward(self, inputs: Tensor) -> Tensor:
            self.calls += torch.is_grad_enabled()
            hidden = self.network(inputs)
            return hidden * torch.nan if w.step >= 5 else hidden

    model = Fragile()
    w = watch(model, profile=True, every=2, on_risk="warn", log=tmp_path / "run.jsonl")
    with pytest.warns(RiskWarning) as caught, w:
        train(model, 8)
    assert "after 5 steps the loss is nan" in str(caught[0].message)
    assert "(last healthy snapshot: after 4 steps)" in str(caught[0].message)
    assert (w.last_healthy_step, w.history[-1].step) == (4, 6)
    assert w.last_healthy is not None
    assert w.last_healthy is not w.latest
    made = w.as_document()
    assert made.last_healthy is not None
    assert made.last_healthy.layers[0].status == "measured"
    assert w.history[-1].verdict == "SICK"
    records = [record for record, _ in watcher.read_watch_log(tmp_path / "run.jsonl")]
    assert [loss["step"] for record in records for loss in record["losses"]] == list(range(6))
    assert [one["kind"] for record in records for one in record["warnings"]] == ["loss", "network"]


def test_a_log_of_before_losses_is_read(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    record = WatchRecordDocument(
        run="a", name="x", step=0, time=0.0, scalars={}, diagnosis=None, updates=(), losses=(), warnings=()
    )
    older = to_data(record) | {"schema": "orthoscope.watch-record/2"}
    del older["losses"], older["warnings"]
    log.write_text(json.dumps(older) + "\n")
    watcher.WatchLog(log).append(record)
    assert [(one["step"], one["losses"], one["warnings"]) for one, _ in watcher.read_watch_log(log)] == [
        (0, [], [])
    ] * 2


def test_without_losses_nothing_of_a_step_is_read() -> None:
    model = network()
    with watch(model, losses=False, profile=True) as w, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.autograd.backward is BACKWARD
        train(model, 2)
    assert w.losses == []
    assert w.as_document().guessing is None
