"""Watching a training loop: right numbers, the same training to the last bit, no hook left behind."""

import copy
import functools
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim import optimizer as torch_optimizer

import orthoscope
from orthoscope import metrics
from orthoscope.layers import orthogonal
from orthoscope.linalg import weight_matrix
from orthoscope.optim import MatrixView, Muon, muon_parameter_groups
from orthoscope.report.document import WatchDocument
from orthoscope.watcher._updates import UpdateRow

watch = functools.partial(orthoscope.watch, updates=True, profile=False)


class Network(nn.Module):
    """Convolutions of three kinds, a linear layer, tied weights, vectors."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(2, 6, 3)
        self.grouped = nn.Conv2d(6, 4, 3, groups=2)
        self.up = nn.ConvTranspose2d(4, 5, 2)
        self.norm = nn.BatchNorm1d(5 * 25)
        self.linear = nn.Linear(5 * 25, 7)
        self.tied = nn.Linear(7, 7)
        self.again = nn.Linear(7, 7)
        self.again.weight = self.tied.weight
        self.drop = nn.Dropout(0.3)
        self.unused = nn.Linear(3, 3)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.up(self.grouped(self.first(images).relu()).relu()).flatten(1)
        return self.again(self.tied(self.drop(self.linear(self.norm(hidden)))).relu())


def loop(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """An ordinary loop that knows of no watch; dropout draws from torch's own generator."""
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 2, 8, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def hooks() -> int:
    return len(torch_optimizer._global_optimizer_pre_hooks) + len(torch_optimizer._global_optimizer_post_hooks)


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    before = hooks()
    yield
    assert hooks() == before


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), 1e-2),
    "muon": lambda model: Muon(muon_parameter_groups(model), lr=0.02),
}


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True], ids=["any optimizer", "this optimizer"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_same_to_the_last_bit(name: str, named: bool) -> None:
    plain, watched = Network(), Network()
    optimizer, other = OPTIMIZERS[name](plain), OPTIMIZERS[name](watched)
    expected, drawn_next = loop(plain, optimizer, 7), torch.randn(3)
    with watch(watched, other if named else None, every=3) as w:
        measured = loop(watched, other, 7)
    assert torch.equal(torch.randn(3), drawn_next)
    assert measured == expected
    for one, two in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert torch.equal(one, two)
    left, right = optimizer.state_dict()["state"], other.state_dict()["state"]
    for key, state in left.items():
        assert all(torch.equal(torch.as_tensor(state[k]), torch.as_tensor(right[key][k])) for k in state)
    assert sorted({row.step for row in w.rows}) == [1, 4, 7]


def test_rows_are_the_metrics_of_the_step_that_was_taken() -> None:
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model, every=4) as w:
        loop(model, optimizer, 4)
        before = copy.deepcopy(model)
        loop(model, optimizer, 1)
    row = next(row for row in w.rows if row.step == 5 and row.weight == "first.weight")
    assert (row.optimizer, row.shape) == ("SGD", (6, 18))
    old, new = weight_matrix(before.first.weight.detach()), weight_matrix(model.first.weight.detach())
    update = new.double() - old.double()
    assert model.first.weight.grad is not None
    expected = {
        "gradient_norm": model.first.weight.grad.double().norm(),
        "weight_norm": old.double().norm(),
        "update_norm": update.norm(),
        "relative_size": metrics.relative_size(update, old),
        "relative_spectral_size": metrics.relative_size(update, old, norm="spectral"),
        "rms_operator_norm": metrics.rms_operator_norm(update),
        "effective_rank": metrics.effective_rank(update),
        "stable_rank": metrics.stable_rank(update),
        "semi_orthogonality_defect": metrics.semi_orthogonality_defect(update),
        "update_alignment": metrics.update_alignment(update, old),
        "left_share": metrics.subspace_share(update, old, 1, side="left"),
        "right_share": metrics.subspace_share(update, old, 1, side="right"),
        "independence": metrics.parameter_independence(old),
        "independence_change": metrics.independence_change(old, new),
        "angle_change": metrics.angle_change(old, new),
        "conformality_defect": metrics.conformality_defect(old, new),
    }
    for name, value in expected.items():
        assert getattr(row, name) == pytest.approx(float(value), rel=1e-9), name
    values = metrics.singular_values(update)
    assert (row.spectrum[0], row.spectrum[-1]) == pytest.approx((float(values[0]), float(values[-1])))
    assert row.spectrum[2] == pytest.approx(float(values.quantile(0.5)))
    assert row.relative_size == pytest.approx(0.1 * row.gradient_norm / row.weight_norm, rel=1e-5)
    fields = set(UpdateRow.__dataclass_fields__) - {"step", "optimizer", "weight", "shape", "spectrum"}
    assert fields == set(expected), "every number of a row is checked"


def test_every_matrix_is_there_once_and_in_its_own_shape() -> None:
    model = Network()
    with watch(model) as w:
        loop(model, torch.optim.SGD(model.parameters(), 0.1), 1)
    assert {row.weight: row.shape for row in w.rows} == {
        "first.weight": (6, 18),
        "grouped.weight[0]": (2, 27),
        "grouped.weight[1]": (2, 27),
        "up.weight": (5, 16),
        "linear.weight": (7, 125),
        "tied.weight": (7, 7),
    }
    assert len(w.rows) == 6, "tied weights once, what the loss does not reach not at all"


def test_depthwise_filters_are_compared_with_one_another() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Flatten())
    with watch(model) as w:
        model(torch.randn(2, 4, 5, 5)).square().sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert [row.shape for row in w.rows] == [(4, 9)]
    assert w.rows[0].angle_change > 0


@pytest.mark.parametrize("named", [False, True], ids=["any optimizer", "these optimizers"])
def test_several_optimizers_are_watched_each_on_its_own_count(named: bool) -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    one, two = torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[1].parameters(), 0.1)
    stranger = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    with watch(model, [one, two] if named else None, every=2) as w:
        for step in range(4):
            model(torch.randn(6, 5)).square().sum().backward()
            one.step()
            stranger.step()
            if step % 2:
                two.step()
    assert [(row.step, row.optimizer, row.weight) for row in w.rows] == [
        (1, "SGD", "0.weight"),
        (1, "Adam", "1.weight"),
        (3, "SGD", "0.weight"),
    ]


class Twice(torch.optim.Optimizer):
    """An optimizer around another one, as Lookahead and SAM are: its step is two of the inner."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.inner = inner
        super().__init__(inner.param_groups[0]["params"], {})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.inner.step()
        self.inner.step()


def test_of_nested_optimizers_the_outermost_is_recorded() -> None:
    model = nn.Linear(5, 4)
    optimizer = Twice(torch.optim.SGD(model.parameters(), 0.1))
    with watch(model, every=1) as w:
        model(torch.randn(6, 5)).square().sum().backward()
        optimizer.step()
    assert [row.optimizer for row in w.rows] == ["Twice"]
    assert w.rows[0].update_norm == pytest.approx(0.2 * w.rows[0].gradient_norm, rel=1e-5)


def test_closures_are_measured_with_the_gradient_they_made() -> None:
    model = nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(torch.ones(6, 5)).square().sum()
        loss.backward()
        return loss

    with watch(model) as w:
        optimizer.step(closure)
    assert w.rows[0].update_norm == pytest.approx(0.1 * w.rows[0].gradient_norm, rel=1e-5)


@pytest.mark.parametrize("named", [False, True], ids=["any optimizer", "this optimizer"])
def test_an_exception_in_the_loop_or_in_a_step_leaves_no_hook_and_no_copy(named: bool) -> None:
    model = nn.Linear(5, 4)
    optimizer, other = (torch.optim.SGD(model.parameters(), 0.1) for _ in range(2))

    def broken() -> float:
        raise ArithmeticError("the loss is nan")

    w = watch(model, [optimizer, other] if named else None, every=1)

    def training() -> None:
        with w:
            with pytest.raises(ArithmeticError):
                optimizer.step(broken)
            assert w.rows == [], "a step that was not taken is not recorded"
            model(torch.ones(6, 5)).square().sum().backward()
            other.step()
            optimizer.step()
            optimizer.step(broken)

    with pytest.raises(ArithmeticError, match="the loss is nan"):
        training()
    assert [row.step for row in w.rows] == [1, 1]
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert not w._updates._began
    optimizer.step()
    assert len(w.rows) == 2


def test_other_steps_touch_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(6, 5)).square().sum().backward()
    with watch(model, every=10**6) as w:
        optimizer.step()
        monkeypatch.setattr(nn.Module, "named_parameters", lambda *_: pytest.fail("looked at parameters"))
        monkeypatch.setattr(Tensor, "clone", lambda *_: pytest.fail("copied a tensor"))
        for _ in range(20):
            optimizer.step()
    assert len(w.rows) == 1


def test_weights_that_are_not_finite_are_recorded_as_undefined_and_training_goes_on() -> None:
    model = nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 1e38)
    with watch(model, every=1) as w:
        for _ in range(3):
            model(torch.ones(6, 5)).square().sum().backward()
            optimizer.step()
    assert math.isfinite(w.rows[0].weight_norm) or math.isnan(w.rows[0].weight_norm)
    assert math.isnan(w.rows[-1].relative_size)
    assert json.loads(w.to_json())["rows"][-1]["relative_size"] is None
    assert "–" in str(w)


def test_a_first_update_of_zero_weights_has_infinite_relative_size_and_no_angle() -> None:
    model = nn.Linear(5, 4)
    nn.init.zeros_(model.weight)
    with watch(model) as w:
        model(torch.randn(6, 5)).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert w.rows[0].relative_size == math.inf
    assert math.isnan(w.rows[0].angle_change)
    assert "–" in w.table()


def test_what_is_skipped_is_named_with_the_reason() -> None:
    held = orthogonal(nn.Linear(3, 3), start="nearest")
    model = nn.ModuleDict({"table": nn.Embedding(40, 3), "held": held, "free": nn.Linear(3, 3)})
    model.register_parameter("place", nn.Parameter(torch.randn(1, 2, 3)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with watch(model, largest=30) as w:
        hidden = model["table"](torch.arange(2)) + model.get_parameter("place")
        model["free"](model["held"](hidden)).square().sum().backward()
        optimizer.step()
    assert [row.weight for row in w.rows] == ["free.weight"]
    reasons = dict(w.skipped)
    assert reasons.pop("table.weight") == "40 rows: more than largest=30"
    assert reasons.pop("place") == "3 dimensions, and no layer is known that multiplies by it"
    assert set(reasons.values()) <= {"coordinates of a parametrized weight"}
    assert "skipped  table.weight: 40 rows" in str(w)


def test_the_rows_that_are_counted_are_those_of_the_matrices() -> None:
    """Outputs of a transposed convolution are its second dimension, and fused weights are three."""
    model = nn.ModuleDict(
        {
            "up": nn.ConvTranspose2d(4, 50, 1),
            "qkv": nn.Linear(16, 48),
            "depthwise": nn.Conv2d(48, 48, 1, groups=48),
            "grouped": nn.Conv2d(48, 48, 1, groups=4),
        }
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with watch(model, largest=30) as w:
        optimizer.step()
    assert w.skipped == {
        "up.weight": "50 rows: more than largest=30",
        "depthwise.weight": "48 rows: more than largest=30",
    }
    assert {row.weight.partition("[")[0]: row.shape for row in w.rows} == {
        "qkv.weight": (16, 16),
        "grouped.weight": (12, 12),
    }


def test_muon_says_which_matrices_its_parameters_hold() -> None:
    model = nn.ModuleDict({"query_key_value": nn.Linear(4, 12, bias=False), "head": nn.Linear(4, 2, bias=False)})
    model.register_parameter("experts", nn.Parameter(torch.randn(2, 5, 3)))
    views = {"query_key_value.weight": MatrixView(parts=3), "experts": MatrixView(batched=True)}
    optimizer = Muon(muon_parameter_groups(model, views=views))
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    with watch(model) as w:
        optimizer.step()
    assert {row.weight: row.shape for row in w.rows} == {
        **{f"query_key_value.weight[{part}]": (4, 4) for part in range(3)},
        **{f"experts[{expert}]": (5, 3) for expert in range(2)},
        "head.weight": (2, 4),
    }
    moved = [row for row in w.rows if row.weight.startswith("query")]
    assert all(row.semi_orthogonality_defect < 0.3 for row in moved), "each was orthogonalized on its own"


def test_sparse_gradients_have_a_norm() -> None:
    model = nn.Embedding(20, 4, sparse=True)
    with watch(model) as w:
        model(torch.tensor([1, 1, 3])).sum().backward()
        torch.optim.SGD(model.parameters(), 0.1).step()
    assert w.rows[0].gradient_norm == pytest.approx(math.sqrt(4 * (4 + 1)))


def test_sharded_parameters_are_gathered() -> None:
    from torch.distributed import HashStore, destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    model, plain = nn.Linear(5, 4, bias=False), nn.Linear(5, 4, bias=False)
    init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        weight = distribute_tensor(model.weight.detach().clone(), init_device_mesh("cpu", (1,)), [Shard(0)])
        plain.load_state_dict(model.state_dict())
        model.weight = nn.Parameter(weight)
        with watch(model) as w, watch(plain) as v:
            for one in (model, plain):
                one.weight.grad = one.weight.detach() * 0.5 + 1
                torch.optim.SGD(one.parameters(), 0.1).step()
    finally:
        destroy_process_group()
    assert w.rows == v.rows
    assert w.rows[0].shape == (4, 5)


def test_a_watch_runs_again_and_not_twice_at_once() -> None:
    model = nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(6, 5)).square().sum().backward()
    w = watch(model, every=2)
    for _ in range(3):
        with w:
            optimizer.step()
            with pytest.raises(RuntimeError, match="running already"):
                w.__enter__()
    assert [row.step for row in w.rows] == [1, 3]


def test_the_document_is_versioned_strict_json_and_written_whole(tmp_path: Path) -> None:
    model = Network()
    with watch(model, every=2) as w:
        loop(model, torch.optim.SGD(model.parameters(), 0.1), 3)
    w.save(tmp_path / "watch.json")
    assert os.listdir(tmp_path) == ["watch.json"]
    document = json.loads((tmp_path / "watch.json").read_text(encoding="utf-8"))
    assert document == json.loads(w.to_json())
    assert (document["schema"], document["name"], document["every"]) == (WatchDocument.schema, "Network", 2)
    assert len(document["rows"]) == len(w.rows) == 12
    assert list(document["rows"][0]) == list(UpdateRow.__dataclass_fields__)
    assert document["rows"][0]["angle_change"] == w.rows[0].angle_change
    with pytest.raises(ValueError, match=r"the name must end in .html or .json"):
        w.save(tmp_path / "watch.txt")
    with pytest.raises(FileNotFoundError, match=r"there is no folder"):
        w.save(tmp_path / "nowhere" / "watch.json")


def test_the_table_shows_the_latest_step_or_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # room for every column, so no line says which were left out
    model = Network()
    w = watch(model, every=2)
    assert str(w) == "updates of Network: no step recorded\n"
    with w:
        assert repr(w) == "<Watch of Network: 0 rows of 0 matrices, running>"
        loop(model, torch.optim.SGD(model.parameters(), 0.1), 3)
    assert repr(w) == "<Watch of Network: 12 rows of 6 matrices, not running>"
    latest, first = str(w).splitlines(), w.table(step=1).splitlines()
    assert latest[0] == first[0] == "updates of Network: 2 recorded steps, every 2"
    assert len(latest) == len(first) == 3 + 6 + 2  # what the columns are takes two lines
    assert [line.split()[1] for line in latest[3:9]] == ["3"] * 6
    assert [line.split()[1] for line in first[3:9]] == ["1"] * 6
    assert "linear.weight" in str(w)
    with pytest.raises(ValueError, match="step 2 was not recorded: choose among 1, 3"):
        w.table(step=2)


def test_mistakes_are_refused_in_one_sentence() -> None:
    model = nn.Linear(5, 4)
    with pytest.raises(ValueError, match="every=0, but snapshots"):
        watch(model, every=0)
    with pytest.raises(Exception, match=r"pass the model|Type-check"):
        watch(model.parameters())
    with pytest.raises(Exception, match=r"got Parameter|Type-check"):
        watch(model, model.parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own, when it first compiles
def test_compiled_steps_are_watched_too() -> None:
    model = nn.Linear(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = torch.compile(optimizer.step, backend="eager")
    with watch(model, optimizer, every=2) as w:
        for _ in range(3):
            model(torch.ones(6, 5)).square().sum().backward()
            step()
    assert [row.step for row in w.rows] == [1, 3]
