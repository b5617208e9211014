"""Muon keeps the interface of `torch.optim`: groups, states, schedulers, copies, compilation; its AdamW is torch's."""

import copy
import io
import math
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import _muon as torch_muon

from optim.optimizers import gaussian, quintic, walk
from orthoscope.optim import MatrixView, Muon
from orthoscope.optim.muon.views import SCALES


def parameter(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    return nn.Parameter(gaussian(*shape, seed=seed, dtype=dtype))


def mixed() -> list[nn.Parameter]:
    """A matrix, a convolution, fused query, key and value, experts; a table, a bias and a scalar."""
    shapes: list[tuple[int, ...]] = [(6, 4), (4, 3, 2, 2), (6, 2), (3, 4, 5), (9, 4), (4,), ()]
    return [nn.Parameter(like(shape, i)) for i, shape in enumerate(shapes)]


def like(shape: Sequence[int], seed: int) -> Tensor:
    return gaussian(math.prod(shape), seed=seed).reshape(tuple(shape))


def groups(parameters: list[nn.Parameter]) -> list[dict[str, Any]]:
    return [
        {"params": parameters[:2], "use_muon": True},
        {"params": parameters[2:4], "views": [MatrixView(parts=3), MatrixView(batched=True)], "scale": "rms_to_rms"},
        {"params": parameters[4:], "use_muon": False},
    ]


@pytest.mark.parametrize(
    "extra", [{}, {"weight_decay": 0.1}, {"maximize": True}, {"lr": torch.tensor(0.01, dtype=torch.float64)}], ids=str
)
def test_other_parameters_follow_torchs_adamw_bit_for_bit(extra: dict[str, Any]) -> None:
    ours, theirs = mixed()[4:], mixed()[4:]
    options = {"lr": 0.01, "weight_decay": 0.0, **extra}
    muon = Muon(
        [{"params": ours, "use_muon": False}],
        maximize=options.get("maximize", False),
        adamw_lr=options["lr"],
        adamw_weight_decay=options["weight_decay"],
        adamw_betas=(0.8, 0.9),
        adamw_eps=1e-6,
    )
    walk(muon, 6)
    walk(torch.optim.AdamW(theirs, betas=(0.8, 0.9), eps=1e-6, **options), 6)
    for own, their, start in zip(ours, theirs, mixed()[4:], strict=True):
        assert torch.equal(own, their)
        assert not torch.equal(own, start)


def test_parameters_without_groups_are_divided_by_their_shape() -> None:
    """Vectors and scalars go to AdamW with its own rate; a convolution is a matrix."""
    parameters = mixed()
    optimizer = Muon(parameters, lr=0.05, weight_decay=0.1, adamw_lr=0.002, adamw_weight_decay=0.3)
    matrices, rest = optimizer.param_groups
    assert [p.ndim for p in matrices["params"]] == [2, 4, 2, 3, 2]
    assert [p.ndim for p in rest["params"]] == [1, 0]
    assert (matrices["use_muon"], matrices["lr"], matrices["weight_decay"]) == (True, 0.05, 0.1)
    assert (rest["use_muon"], rest["lr"], rest["weight_decay"]) == (False, 0.002, 0.3)
    walk(optimizer, 1)
    assert set(optimizer.state[parameters[0]]) == {"momentum_buffer"}
    assert set(optimizer.state[parameters[-1]]) == {"step", "exp_avg", "exp_avg_sq"}


def test_a_group_may_set_its_own_rates_and_names_follow_the_parameters() -> None:
    named = {"weight": parameter(3, 3), "bias": parameter(3), "gain": parameter(3, seed=1)}
    optimizer = Muon(
        [
            {"params": [("bias", named["bias"])], "use_muon": False, "lr": 0.7},
            {"params": [*named.items()][::2], "lr": 0.4},
        ],
        adamw_lr=0.1,
    )
    assert [group["param_names"] for group in optimizer.param_groups] == [["bias"], ["weight"], ["gain"]]
    assert [group["lr"] for group in optimizer.param_groups] == [0.7, 0.4, 0.1]
    assert len(Muon([parameter(3, 3), parameter(2, 3)]).param_groups) == 1


def saved_and_loaded(state: dict[str, Any]) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("nesterov", [True, False])
def test_a_run_continues_from_a_saved_state_bit_for_bit(nesterov: bool) -> None:
    parameters = mixed()
    optimizer = Muon(groups(parameters), nesterov=nesterov, dtype=torch.float64)
    walk(optimizer, 3, seed=1)
    saved = saved_and_loaded({"optimizer": optimizer.state_dict(), "weights": [p.detach() for p in parameters]})
    walk(optimizer, 3, seed=2)
    resumed = mixed()
    other = Muon(groups(resumed), lr=0.9, nesterov=nesterov)
    other.load_state_dict(saved["optimizer"])
    assert other.param_groups[0]["lr"] == 0.02
    with torch.no_grad():
        for own, weight in zip(resumed, saved["weights"], strict=True):
            own.copy_(weight)
    walk(other, 3, seed=2)
    for one, two in zip(parameters, resumed, strict=True):
        assert torch.equal(one, two)


def test_a_state_of_other_groups_is_refused() -> None:
    state = Muon(groups(mixed())).state_dict()
    parameters = mixed()
    turned = [{"params": g["params"], "use_muon": not g.get("use_muon", True)} for g in groups(parameters)[:1]]
    with pytest.raises(ValueError, match=r"saved with use_muon=True and this group has False"):
        Muon([*turned, *groups(parameters)[1:]]).load_state_dict(state)
    other = groups(mixed())
    other[1]["views"] = [MatrixView(), MatrixView(batched=True)]
    with pytest.raises(ValueError, match=r"saved with views=\[\(3, 1, False, False\), .* build the optimizer"):
        Muon(other).load_state_dict(state)
    with pytest.raises(ValueError, match=r"different number of parameter groups"):
        Muon(mixed()[:2]).load_state_dict(state)


@pytest.mark.parametrize(
    "options",
    [
        {"adjust_lr_fn": None, "nesterov": False},
        {"adjust_lr_fn": "original", "ns_steps": 3},
        {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0},
    ],
    ids=str,
)
def test_a_state_of_torchs_muon_continues_as_in_torch(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """All options differ before loading; in double precision, since torch's products are in bfloat16."""
    monkeypatch.setattr(torch_muon, "_zeropower_via_newtonschulz", quintic)
    weights = [parameter(6, 4), parameter(3, 7, seed=1)]
    torchs = torch.optim.Muon(weights, lr=0.03, momentum=0.8, **options)
    walk(torchs, 2)
    continued = [nn.Parameter(weight.detach().clone()) for weight in weights]
    ours = Muon(continued, scale="rms_to_rms", method="polar_express", steps=7)
    ours.load_state_dict(saved_and_loaded(torchs.state_dict()))
    (group,) = ours.param_groups
    assert set(group) == set(Muon([parameter(2, 2)]).param_groups[0])
    assert (group["method"], group["steps"]) == ("keller", options.get("ns_steps", 5))
    walk(torchs, 4, seed=1)
    walk(ours, 4, seed=1)
    for own, their in zip(continued, weights, strict=True):
        torch.testing.assert_close(own.detach(), their.detach(), rtol=0, atol=1e-12)


def test_a_state_of_torchs_muon_without_a_counterpart_is_refused() -> None:
    other = torch.optim.Muon([parameter(6, 4)], ns_coefficients=(1.5, -0.5, 0.0)).state_dict()
    with pytest.raises(ValueError, match=r"ns_coefficients=\(1\.5, -0\.5, 0\.0\), and only \(3\.4445, .* 'keller'"):
        Muon([parameter(6, 4)]).load_state_dict(other)
    with pytest.raises(ValueError, match=r"saved with use_muon=True and this group has False"):
        Muon([{"params": [parameter(6, 4)], "use_muon": False}]).load_state_dict(
            torch.optim.Muon([parameter(6, 4)]).state_dict()
        )


def test_views_that_were_saved_as_lists_are_loaded_as_tuples() -> None:
    """As JSON and YAML save them."""
    ours, theirs = mixed(), mixed()
    optimizer, other = Muon(groups(ours)), Muon(groups(theirs))
    state = copy.deepcopy(optimizer.state_dict())
    for group in state["param_groups"][:2]:
        group["views"] = [list(view) for view in group["views"]]
    other.load_state_dict(state)
    assert other.param_groups[1]["views"] == optimizer.param_groups[1]["views"]
    for optimizer_ in (optimizer, other):
        walk(optimizer_, 2)
    assert all(torch.equal(one, two) for one, two in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("default", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_steps_are_counted_in_the_type_in_which_torch_counts_them(default: torch.dtype) -> None:
    """In bfloat16 256 + 1 is 256."""
    own, their = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        ours, theirs = Muon([own]), torch.optim.AdamW([their])
        for optimizer in (ours, theirs):
            walk(optimizer, 1)
    finally:
        torch.set_default_dtype(before)
    assert ours.state[own]["step"].dtype == theirs.state[their]["step"].dtype != torch.bfloat16


def test_optimizers_are_copied_and_pickled() -> None:
    parameters = mixed()
    optimizer = Muon(groups(parameters))
    walk(optimizer, 2)
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        expected = [nn.Parameter(p.detach().clone()) for p in parameters]
        reference = Muon(groups(expected))
        reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        walk(twin, 1, seed=5)
        walk(reference, 1, seed=5)
        moved = [p for group in twin.param_groups for p in group["params"]]
        assert all(torch.equal(one, two) for one, two in zip(moved, expected, strict=True))
        twin.add_param_group({"params": [parameter(2, 2), parameter(2)]})
        assert [group["lr"] for group in twin.param_groups[-2:]] == [0.02, 3e-4]


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("shape", [(6, 3), (300, 300)], ids=str)
def test_gradients_may_be_missing_and_are_not_modified(shape: tuple[int, int], nesterov: bool) -> None:
    early, late, never = (parameter(*shape, seed=seed) for seed in range(3))
    optimizer = Muon([early, late, never], nesterov=nesterov)
    for step in range(3):
        gradients = {early: gaussian(*shape, seed=step)}
        if step >= 1:
            gradients[late] = gaussian(*shape, seed=step)
        for weight, gradient in gradients.items():
            weight.grad = gradient.clone()
        optimizer.step()
        for weight, gradient in gradients.items():
            assert torch.equal(weight.grad, gradient)  # type: ignore[arg-type]
    alone = parameter(*shape, seed=1)
    reference = Muon([alone], nesterov=nesterov)
    for step in (1, 2):
        alone.grad = gaussian(*shape, seed=step)
        reference.step()
    torch.testing.assert_close(late.detach(), alone.detach(), rtol=0, atol=1e-9)
    assert torch.equal(never, parameter(*shape, seed=2))


def test_closures_groups_added_later_and_schedulers_work() -> None:
    first, second = parameter(6, 3), parameter(2)
    optimizer = Muon([first])
    optimizer.add_param_group({"params": [second], "use_muon": False, "lr": 0.5})
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def closure() -> float:
        optimizer.zero_grad()
        assert torch.is_grad_enabled()
        loss = first.square().sum() + second.square().sum()
        loss.backward()
        return loss.item()

    before = (first.square().sum() + second.square().sum()).item()
    losses = []
    for _ in range(3):
        losses.append(optimizer.step(closure))
        schedule.step()
    assert losses[0] == before
    assert losses[2] < losses[1] < losses[0]
    torch.testing.assert_close([group["lr"] for group in optimizer.param_groups], [0.02 / 8, 0.5 / 8])


def test_one_cycle_moves_the_momentum_of_muon() -> None:
    optimizer = Muon([parameter(3, 3), parameter(3)])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.1, 0.01], total_steps=10)
    walk(optimizer, 3, after=lambda step: schedule.step())
    assert 0.85 <= optimizer.param_groups[0]["momentum"] < 0.95


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_learning_rate_may_be_a_tensor(weight_decay: float, shape: tuple[int, ...]) -> None:
    ours, theirs = mixed(), mixed()
    rate = torch.full(shape, 0.03, dtype=torch.float64)
    walk(Muon(ours, lr=rate, weight_decay=weight_decay, adamw_lr=rate), 4)
    walk(Muon(theirs, lr=0.03, weight_decay=weight_decay, adamw_lr=0.03), 4)
    for own, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.detach(), their.detach(), rtol=0, atol=1e-13)


def test_default_learning_rates_depend_on_the_scale() -> None:
    def rates(**options: Any) -> list[float]:
        return [group["lr"] for group in Muon([parameter(3, 3), parameter(3)], **options).param_groups]

    assert rates() == rates(scale="rms_to_rms") == [0.02, 3e-4]
    assert rates(lr=0.1) == [0.1, 3e-4]
    assert rates(scale="match_rms_adamw") == [3e-4, 3e-4]
    assert rates(scale="match_rms_adamw", lr=0.001) == [0.001, 0.001]
    assert rates(scale="match_rms_adamw", lr=0.001, adamw_lr=0.002) == [0.001, 0.002]
    apart = [{"params": [parameter(3, 3)], "lr": 0.5}, {"params": [parameter(3)], "use_muon": False}]
    assert [g["lr"] for g in Muon(apart, lr=0.1, scale="match_rms_adamw").param_groups] == [0.5, 0.1]
    together = {"params": [parameter(3, 3), parameter(3)], "scale": "match_rms_adamw", "lr": 0.004}
    assert [g["lr"] for g in Muon([together]).param_groups] == [0.004, 0.004]


def test_maximizing_is_minimizing_the_negative() -> None:
    ours, theirs = mixed(), mixed()
    up, down = Muon(groups(ours), maximize=True), Muon(groups(theirs))
    for seed in range(3):
        for own, their in zip(ours, theirs, strict=True):
            own.grad = like(own.shape, seed)
            their.grad = -own.grad
        up.step()
        down.step()
    for own, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own.detach(), their.detach(), rtol=0, atol=1e-13)


def test_nan_stays_in_its_own_matrix() -> None:
    ill, well, experts = parameter(4, 4), parameter(4, 4, seed=1), parameter(3, 4, 4, seed=2)
    optimizer = Muon([{"params": [ill, well]}, {"params": [experts], "views": MatrixView(batched=True)}])
    for weight in (ill, well, experts):
        weight.grad = gaussian(*weight.shape, seed=5)
    ill.grad[0, 0] = experts.grad[1, 2, 3] = torch.nan  # type: ignore[index]
    optimizer.step()
    assert ill.isnan().all()
    assert well.isfinite().all()
    assert [bool(matrix.isnan().any()) for matrix in experts] == [False, True, False]


def test_a_zero_gradient_leaves_only_weight_decay() -> None:
    weight, empty = parameter(4, 3), nn.Parameter(torch.zeros(0, 3))
    weight.grad, empty.grad = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(0, 3)
    for scale in SCALES:
        Muon([weight, empty], scale=scale, lr=0.1).step()
    assert torch.equal(weight, parameter(4, 3))
    Muon([weight], lr=0.1, weight_decay=0.5).step()
    torch.testing.assert_close(weight.detach(), 0.95 * parameter(4, 3).detach())


def test_a_sparse_gradient_is_refused_before_anything_moves() -> None:
    weight, table = parameter(3, 3), nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1])).sum().backward()
    weight.grad = gaussian(3, 3)
    with pytest.raises(ValueError, match=r"dense gradients, got a sparse one"):
        Muon([{"params": [weight]}, {"params": table.parameters(), "use_muon": False}]).step()
    assert torch.equal(weight, parameter(3, 3))


COMPILED = """
import copy, sys, torch
from torch import nn
from orthoscope.optim import Muon, muon_parameter_groups

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)).double()  # Muon's, and AdamW's
batch = torch.randn(5, 3, dtype=torch.float64)

def trained(compiled):
    net, rate = copy.deepcopy(model), torch.tensor(0.02, dtype=torch.float64)
    optimizer = Muon(muon_parameter_groups(net), lr=rate, weight_decay=0.1, steps=1)
    step = torch.compile(optimizer.step, backend="eager") if compiled else optimizer.step
    graphs = []
    for _ in range(3):
        optimizer.zero_grad()
        net(batch).square().sum().backward()
        step()
        rate.mul_(0.9)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"] if compiled else 0)
    return net, graphs

(compiled, graphs), (plain, _) = trained(True), trained(False)
for one, two, start in zip(compiled.parameters(), plain.parameters(), model.parameters(), strict=True):
    torch.testing.assert_close(one, two, rtol=0, atol=1e-7)  # compiled, torch counts AdamW's steps in float32
    assert not torch.equal(one, start)
assert graphs[0] > 0 and len(set(graphs[1:])) == 1, graphs
assert not [name for name in sys.modules if "muon.distributed" in name], "one process needs no code for many"
"""


@pytest.mark.slow
def test_a_compiled_step_gives_the_same_numbers_and_is_not_compiled_again() -> None:
    """In a process of its own, since `torch.compile` cannot trace the type checks of the tests."""
    run = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
