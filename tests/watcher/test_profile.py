"""Looking at a network while it trains: the numbers of a diagnosis, the same training to the last bit, a whole log."""

import errno
import functools
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

import orthoscope
from orthoscope import report, watcher
from orthoscope.report.document import WatchRecordDocument
from orthoscope.watcher.hooks import RiskWarning, StopTraining

watch = functools.partial(orthoscope.watch, logger=None)


def network(depth: int = 6, gain: float = 1.0) -> nn.Sequential:
    """Convolution, batch norm, dropout and tanh: buffers and random numbers that a look must leave alone."""
    generator = torch.manual_seed(0)
    hidden = [
        layer for _ in range(depth) for layer in (nn.Linear(24, 24), nn.BatchNorm1d(24), nn.Tanh(), nn.Dropout(0.1))
    ]
    model = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.Flatten(), nn.Linear(54, 24), *hidden, nn.Linear(24, 5))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.orthogonal_(parameter, gain, generator=generator)
    return model


def batches(steps: int, samples: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        yield torch.randn(samples, 1, 8, 8, generator=generator), torch.randint(5, (samples,), generator=generator)


def train(model: nn.Module, steps: int, optimizer: torch.optim.Optimizer | None = None) -> list[float]:
    """A loop with dropout from torch's own generator, and an evaluation that is no step of training."""
    torch.manual_seed(2)
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for images, labels in batches(steps):
        with torch.no_grad():
            model(images[:3])
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    assert not torch_optimizer._global_optimizer_pre_hooks
    assert not torch_optimizer._global_optimizer_post_hooks


@pytest.mark.slow
@pytest.mark.parametrize("updates", [False, True])
def test_training_is_the_same_to_the_last_bit(updates: bool, tmp_path: Path) -> None:
    plain, watched = network(), network()
    one, two = (torch.optim.AdamW(model.parameters(), 1e-3) for model in (plain, watched))
    expected, drawn_next = train(plain, 7, one), torch.randn(3)
    with watch(watched, every=3, updates=updates, log=tmp_path / "run.jsonl") as w:
        assert train(watched, 7, two) == expected
    assert torch.equal(torch.randn(3), drawn_next)
    for left, right in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(left, right)
    for left_state, right_state in zip(one.state.values(), two.state.values(), strict=True):
        assert all(torch.equal(left_state[key], right_state[key]) for key in left_state)
    assert [record.step for record in w.history] == [0, 3, 6]
    assert sorted({row.step for row in w.rows}) == ([1, 4, 7] if updates else [])
    assert w.step == 7
    assert not w.problems
    assert not watched._forward_pre_hooks


@pytest.mark.slow
def test_a_snapshot_is_the_diagnosis_of_the_network_at_that_step_on_the_batch_of_that_step() -> None:
    model, twin = network(), network()
    with watch(model, every=4) as w:
        train(model, 6)
    train(twin, 4)
    images, _ = list(batches(5))[4]
    expected = orthoscope.diagnose(twin, images)
    assert w.latest is not None
    assert [layer.sample_view for layer in w.latest.layers] == [layer.sample_view for layer in expected.layers]
    assert w.latest.slope == expected.slope
    assert w.latest.expected.reason.startswith("the weights are in training")
    full = [layer for layer in expected.layers if layer.sample_view and layer.capacity >= 21]
    assert [layer.name for layer in expected.layers[len(full) :]] == ["27"], "all but the head"
    assert w.history[-1].step == 4
    assert w.history[-1].scalars == {
        "orthoscope/worst_gap": max(layer.gap for layer in full),
        "orthoscope/min_effective_rank": min(layer.effective_rank for layer in full),
        "orthoscope/mean_overlap": full[-1].overlap,
        "orthoscope/gradient_slope": expected.slope,
        "orthoscope/risk": expected.risk,
        "orthoscope/record_seconds": w.latest.seconds,
    }


def test_a_snapshot_takes_at_most_the_first_samples() -> None:
    model = network()
    with watch(model, samples=8) as w:
        train(model, 1)
    assert w.latest is not None
    assert w.latest.recording.samples == 8


@pytest.mark.slow
def test_every_record_is_one_line_that_follows_the_schema(tmp_path: Path) -> None:
    model, seen = network(), []
    log = tmp_path / "run.jsonl"
    with watch(model, every=2, updates=True, log=log, logger=lambda scalars, step: seen.append((step, scalars))) as w:
        train(model, 4)
    records = [record for record, _ in watcher.read_watch_log(log)]
    validator = jsonschema.Draft202012Validator(report.schema())
    for record in records:
        validator.validate(record)
    assert [(record["step"], record["diagnosis"] is None, len(record["updates"])) for record in records] == [
        (0, False, 0),
        (0, True, 9),
        (2, False, 0),
        (2, True, 9),
    ]
    assert [(record["step"], record["scalars"]) for record in records] == seen
    assert max(len(scalars) for _, scalars in seen) + 1 <= 8, "with the step, eight at most"
    assert w.latest is not None
    assert records[2]["diagnosis"] == json.loads(w.latest.to_json())
    validator.validate(json.loads(w.to_json()))


def test_the_log_goes_on_after_a_crash_and_other_files_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    writer = watcher.WatchLog(log)
    nothing: dict[str, tuple[()]] = {"losses": (), "warnings": ()}
    content = WatchRecordDocument(
        run="a", name="x", step=0, time=0.0, scalars={}, diagnosis=None, updates=(), **nothing
    )
    writer.append(content)
    writer.append(replace(content, step=1))
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    assert [record["step"] for record, _ in watcher.read_watch_log(log)] == [0], "half a line is not read"
    watcher.WatchLog(log).append(replace(content, step=2))
    assert [record["step"] for record, _ in watcher.read_watch_log(log)] == [0, 2]
    log.write_bytes(whole[:-1])
    watcher.WatchLog(log).append(replace(content, step=2))
    assert [record["step"] for record, _ in watcher.read_watch_log(log)] == [0, 1, 2], "only the newline was missing"
    (_, second), *_ = watcher.read_watch_log(log)
    assert [record["step"] for record, _ in watcher.read_watch_log(log, second)] == [1, 2]
    for stranger in (b"my notes", b"my notes\n", b'{"schema": "other"}\n'):
        log.write_bytes(stranger)
        with pytest.raises(ValueError, match="is not a log of a watch"):
            watcher.WatchLog(log)
        assert log.read_bytes() == stranger
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        watch(network(), log=tmp_path / "nowhere" / "run.jsonl")
    with pytest.raises(ValueError, match="is a folder"):
        watch(network(), log=tmp_path)


def sick() -> nn.Sequential:
    """Fifty layers of ReLU with PyTorch's own weights: samples collapse and gradients vanish."""
    torch.manual_seed(0)
    hidden = [layer for _ in range(50) for layer in (nn.Linear(24, 24), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 24), *hidden, nn.Linear(24, 5))


@pytest.mark.slow
def test_a_sick_network_stops_a_plain_loop_and_the_context_says_why() -> None:
    model = sick()
    w = watch(model, on_risk="stop")

    def training() -> None:
        with w:
            train(model, 3)
            pytest.fail("the loop must have ended")

    with pytest.warns(RiskWarning, match="after 0 steps the network is SICK"):
        training()
    assert w.step == 0
    assert "SICK" in w.stopped
    assert "stopped" in str(w)
    assert not model._forward_pre_hooks


def test_other_exceptions_and_other_requests_to_stop_pass_through() -> None:
    def stopped_by_somebody() -> None:
        with watch(network(), on_risk="stop"):
            raise StopTraining("somebody else's")

    with pytest.raises(StopTraining, match="somebody else's"):
        stopped_by_somebody()


@pytest.mark.slow
def test_a_warning_is_given_once_for_each_time_the_verdict_is_worse_than_ever() -> None:
    model = sick()
    with warnings.catch_warnings(record=True) as caught, watch(model, every=1, on_risk="warn") as w:
        warnings.simplefilter("always")
        train(model, 3)
    assert [type(warning.message) for warning in caught] == [RiskWarning]
    assert [record.verdict for record in w.history] == ["SICK"] * 3
    healthy = network()
    with warnings.catch_warnings(), watch(healthy, every=1, on_risk="stop") as w:
        warnings.simplefilter("error")
        train(healthy, 2)
    assert w.step == 2


class Moody(nn.Module):
    """A model that cannot be run a second time, as the look does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 5)
        self.calls: list[int] = []
        self.spent = iter([False, True, False, True])

    def forward(self, images: Tensor) -> Tensor:
        if torch.is_grad_enabled() and next(self.spent, False) is False:
            raise ArithmeticError("not now")
        return self.linear(images.flatten(1))


def test_a_snapshot_that_fails_does_not_end_the_training() -> None:
    model = Moody()
    with (
        pytest.warns(RiskWarning, match="could not take a snapshot at step 0: ArithmeticError: not now"),
        watch(model) as w,
    ):
        train(model, 1)
    assert w.step == 1
    assert w.problems == ["step 0: ArithmeticError: not now"]
    assert w.history == []
    assert "failed   step 0: ArithmeticError: not now" in str(w)


def test_a_logger_or_a_log_that_fails_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, model, seen = network(2), network(2), []
    write, calls = os.write, iter(range(100))

    def full_disk(descriptor: int, content: bytes) -> int:
        """The first record is torn in its middle."""
        call = next(calls)
        if call == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content[:50] if call == 0 else content)

    def away(scalars: dict[str, float], step: int) -> None:
        raise ConnectionError("refused")

    log = tmp_path / "run.jsonl"
    loggers = [away, lambda scalars, step: seen.append(step)]
    with warnings.catch_warnings(record=True) as caught, watch(
        model, every=2, updates=True, log=log, logger=loggers
    ) as w:  # fmt: skip
        warnings.simplefilter("always")
        monkeypatch.setattr(os, "write", full_disk)
        losses = train(model, 3)
    assert losses == train(plain, 3)
    assert seen == [0, 0, 2, 2], "of a look and of an update, each"
    refused = [f"step {step}, not logged: ConnectionError: refused" for step in seen]
    assert w.problems == ["step 0, not logged: OSError: [Errno 28] No space left on device", *refused]
    assert [str(one.message) for one in caught] == [f"orthoscope could not log {w.problems[0]}"]
    assert [record["step"] for record, _ in watcher.read_watch_log(log)] == [0, 2, 2], "half a line was taken away"


@pytest.mark.slow
def test_closures_accumulation_and_resumed_counts_take_one_snapshot_per_step() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def closure() -> Tensor:
        optimizer.zero_grad()
        for images, labels in batches(2):
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
        return loss

    with watch(model, every=2) as w:
        w.step = 100
        for _ in range(3):
            optimizer.step(closure)
    assert [record.step for record in w.history] == [100, 102]


@pytest.mark.slow
def test_a_compiled_model_gets_snapshots_without_a_new_graph() -> None:
    model = network()
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> object:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend)
    train(compiled, 2)
    before = len(graphs)
    with watch(compiled, every=2) as w:
        train(compiled, 4)
    assert len(w.history) == 2
    assert w.latest is not None
    assert w.latest.layers[0].name == "0"
    assert len(graphs) == before


def test_under_autocast_training_is_the_same_to_the_last_bit() -> None:
    results = []
    for look in (False, True):
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 5)
        )
        nn.init.ones_(model[1].bias)
        torch.manual_seed(3)
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0, 0.2)
        with watch(model, every=1) as w, torch.autocast("cpu", torch.bfloat16):
            if not look:
                w.__exit__(None, None, None)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for images, labels in batches(2):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
        assert len(w.history) == 2 * look
        results.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


@pytest.mark.slow
def test_the_views_of_a_watch_hold_what_it_saw(tmp_path: Path) -> None:
    model = nn.Sequential()
    for index, layer in enumerate(network()):
        model.add_module("<script>alert(1)</script>" if index == 2 else f"layer_{index}", layer)
    with watch(model, every=2, updates=True) as w:
        train(model, 5)
    text, page = str(w), report.html([w.document()])
    assert text.startswith("watch of Sequential: 3 snapshots, every 2 steps, 5 steps taken")
    assert "updates of Sequential: 3 recorded steps" in text
    assert f"{w.history[-1].scalars['orthoscope/worst_gap']:.2f}" in text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    w.save(tmp_path / "watch.html")
    assert (tmp_path / "watch.html").read_text() == page
    assert repr(w).startswith("<Watch of Sequential: 3 snapshots, ")
    assert "<script" not in w._repr_html_()
    assert list(w.to_frame()["step"]) == [0, 2, 4]


def test_bad_arguments_are_refused_in_one_sentence() -> None:
    for options, sentence in (
        ({"every": 0}, "snapshots are at least 1 step apart"),
        ({"samples": 0}, "at least 1 sample"),
        ({"on_risk": "panic"}, 'on_risk must be "warn", "stop" or None'),
        ({"profile": False, "losses": False}, "nothing to record"),
        ({"logger": 3}, "a logger has add_scalar, log_metrics or log"),
    ):
        with pytest.raises(ValueError, match=sentence):
            orthoscope.watch(network(), **options)  # type: ignore[arg-type]
