"""Optimizers with and without a manifold per group keep the rules and the interface of `torch.optim`."""

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from optim.optimizers import CASES, Case, frame, gaussian, on_stiefel, walk
from orthoscope.layers import orthogonal
from orthoscope.linalg.polar import orthonormality_error
from orthoscope.manifolds import Stiefel
from orthoscope.optim import Landing, RiemannianAdam, RiemannianSGD, project_, stiefel_parameter_groups

cases = pytest.mark.parametrize("case", CASES, ids=str)


def plain(*shape: int, seed: int = 0) -> nn.Parameter:
    return nn.Parameter(gaussian(*shape, seed=seed))


@pytest.mark.parametrize("extra", [{}, {"weight_decay": 0.1}, {"maximize": True}], ids=str)
@cases
def test_parameters_off_the_manifold_follow_torch_bit_for_bit(case: Case, extra: dict[str, Any]) -> None:
    ours, theirs = [plain(3, 4), plain(5)], [plain(3, 4), plain(5)]
    walk(case([{"params": ours}, *on_stiefel([frame(4, 2)], weight_decay=0.0)], **extra), 6)
    reference = case.plain([*theirs, frame(4, 2)], lr=case.lr, **case.options, **extra)  # type: ignore[call-arg]
    walk(reference, 6)
    for own, their in zip(ours, theirs, strict=True):
        assert torch.equal(own, their)
        assert not torch.equal(own, plain(*own.shape))


@cases
def test_a_run_continues_from_a_saved_state_bit_for_bit(case: Case) -> None:
    def start() -> tuple[list[nn.Parameter], torch.optim.Optimizer]:
        parameters = [frame(6, 3), frame(3, 6), plain(4, 2), frame(5, 2, 2)]
        groups = [*on_stiefel(parameters[:2]), {"params": [parameters[2]]}, *on_stiefel([parameters[3]], "canonical")]
        return parameters, case(groups)

    parameters, optimizer = start()
    walk(optimizer, 3, seed=1)
    file = io.BytesIO()
    torch.save({"optimizer": optimizer.state_dict(), "weights": [p.detach() for p in parameters]}, file)
    walk(optimizer, 3, seed=2)
    resumed, other = start()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other.load_state_dict(saved["optimizer"])
    with torch.no_grad():
        for parameter, weight in zip(resumed, saved["weights"], strict=True):
            parameter.copy_(weight)
    walk(other, 3, seed=2)
    for one, two in zip(parameters, resumed, strict=True):
        assert torch.equal(one, two)
    assert other.param_groups[0]["manifold"] == Stiefel()
    with pytest.raises(
        ValueError, match=r"on Stiefel\(metric='euclidean'\), these are on Stiefel\(metric='canonical'\)"
    ):
        case([*on_stiefel(parameters[:2], "canonical")]).load_state_dict(saved["optimizer"])


@cases
def test_optimizers_are_copied_and_pickled(case: Case) -> None:
    parameter = frame(6, 3)
    optimizer = case(on_stiefel([parameter]))
    walk(optimizer, 2)
    for twin in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (other,) = twin.param_groups[0]["params"]
        expected = nn.Parameter(parameter.detach().clone())
        reference = case(on_stiefel([expected]))
        reference.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        walk(twin, 1, seed=5)
        walk(reference, 1, seed=5)
        assert torch.equal(other, expected)


@cases
def test_gradients_may_be_missing_and_are_not_modified(case: Case) -> None:
    early, late, never = frame(6, 3, seed=0), frame(6, 3, seed=1), frame(6, 3, seed=2)
    optimizer = case(on_stiefel([early, late, never]))
    for step in range(4):
        gradients = {early: gaussian(6, 3, seed=step)}
        if step >= 2:
            gradients[late] = gaussian(6, 3, seed=step)
        for parameter, gradient in gradients.items():
            parameter.grad = gradient.clone()
        optimizer.step()
        for parameter, gradient in gradients.items():
            assert torch.equal(parameter.grad, gradient)
    alone = frame(6, 3, seed=1)
    reference = case(on_stiefel([alone]))
    for step in (2, 3):
        alone.grad = gaussian(6, 3, seed=step)
        reference.step()
    torch.testing.assert_close(late.detach(), alone.detach(), rtol=0, atol=1e-14)
    assert torch.equal(never, frame(6, 3, seed=2))


@cases
def test_the_gradient_of_a_large_matrix_is_not_modified(case: Case) -> None:
    """A large matrix is moved in place, where the gradient is not copied into a stack."""
    parameter = frame(300, 300)
    optimizer = case(on_stiefel([parameter]))
    for seed in range(2):
        gradient = gaussian(300, 300, seed=seed)
        parameter.grad = gradient.clone()
        optimizer.step()
        assert torch.equal(parameter.grad, gradient)


@cases
def test_closures_groups_added_later_and_schedulers_work(case: Case) -> None:
    first, second = frame(6, 3), plain(2, 2)
    optimizer = case(on_stiefel([first]))
    optimizer.add_param_group({"params": [second], "lr": 0.5})
    third = frame(4, 4, seed=1)
    optimizer.add_param_group({"params": [third], "manifold": Stiefel("canonical")})
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def closure() -> float:
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = first.sum() + second.square().sum() + third[0, 0]
        loss.backward()
        return loss.item()

    losses = []
    for _ in range(3):
        losses.append(optimizer.step(closure))
        schedule.step()
    assert losses[2] < losses[0]
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.0625)
    assert orthonormality_error(third.detach()).item() < 1e-14


@cases
def test_weight_decay_is_refused_on_the_manifold_and_the_optimizer_stays_usable(case: Case) -> None:
    with pytest.raises(ValueError, match=r"weight_decay=0.1 has no effect on the Stiefel manifold"):
        case(on_stiefel([frame(4, 2)]), weight_decay=0.1)
    optimizer = case([plain(3)], weight_decay=0.1)
    with pytest.raises(ValueError, match=r"set it to 0 in this group"):
        optimizer.add_param_group(on_stiefel([frame(4, 2)])[0])
    assert len(optimizer.param_groups) == 1
    with pytest.raises(TypeError, match=r"must be a Stiefel\(\) or None, got 'stiefel'"):
        optimizer.add_param_group({"params": [frame(4, 2)], "manifold": "stiefel", "weight_decay": 0.0})
    with pytest.raises(ValueError, match=r"shape \(3,\) is not a matrix"):
        optimizer.add_param_group({"params": [plain(3)], "manifold": Stiefel(), "weight_decay": 0.0})


@pytest.mark.parametrize("case", [case for case in CASES if case.build is not Landing], ids=str)
def test_a_weight_that_is_not_orthonormal_is_refused_with_a_remedy(case: Case) -> None:
    for shape, side in (((6, 3), "columns"), ((3, 6), "rows"), ((4, 3, 2, 2), "rows")):
        parameter = plain(*shape)
        optimizer = case(on_stiefel([parameter]))
        parameter.grad = torch.ones_like(parameter)
        with pytest.raises(ValueError, match=rf"does not have orthonormal {side}, .*call orthoscope.optim.project_"):
            optimizer.step()
        assert torch.equal(parameter, plain(*shape)), "a refused weight is not touched"
        project_(parameter)
        optimizer.step()
        assert orthonormality_error(parameter.detach().flatten(1)).item() < 1e-14


def test_landing_refuses_a_weight_too_far_from_the_manifold() -> None:
    parameter = nn.Parameter(frame(6, 3).detach() * 1.3)
    parameter.grad = torch.zeros_like(parameter)
    with pytest.raises(ValueError, match=r"too far from orthonormal to land, ‖WᵀW - I‖ is 0.69 and may be 0.5"):
        Landing(on_stiefel([parameter])).step()
    parameter.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"too far from orthonormal to land, ‖WᵀW - I‖ is nan"):
        Landing(on_stiefel([parameter])).step()


@cases
def test_sparse_gradients_are_refused(case: Case) -> None:
    parameter = frame(6, 3)
    parameter.grad = torch.ones(6, 3, dtype=torch.float64).to_sparse()
    with pytest.raises(ValueError, match=r"takes dense gradients"):
        case(on_stiefel([parameter])).step()


def test_invalid_options_are_refused() -> None:
    for build in (RiemannianSGD, Landing):
        with pytest.raises(ValueError, match=r"momentum must be at least 0, got -1"):
            build([plain(2)], momentum=-1.0)
        with pytest.raises(ValueError, match=r"needs momentum > 0 and dampening 0, got momentum=0"):
            build([plain(2)], nesterov=True)
    for build in (RiemannianSGD, RiemannianAdam, Landing):
        with pytest.raises(ValueError, match=r"lr must be at least 0, got -0.1"):
            build([plain(2)], lr=-0.1)
        with pytest.raises(ValueError, match=r"weight_decay must be at least 0, got -1"):
            build([plain(2)], weight_decay=-1.0)
    with pytest.raises(ValueError, match=r"betas must be .* got \(0.9, 1.0\)"):
        RiemannianAdam([plain(2)], betas=(0.9, 1.0))
    with pytest.raises(ValueError, match=r"eps must be at least 0, got -1"):
        RiemannianAdam([plain(2)], eps=-1.0)


@cases
def test_options_of_groups_are_checked_like_those_of_the_optimizer(case: Case) -> None:
    def build(**options: Any) -> torch.optim.Optimizer:
        return case([{"params": [frame(4, 2)], **options}])

    with pytest.raises(TypeError, match=r"lr must be a number, got '0.1': convert it with float\(\)"):
        build(lr="0.1")
    with pytest.raises(ValueError, match=r"lr must be at least 0, got -1"):
        build(lr=-1.0)
    for slip in ("manifolds", "Stiefel"):
        with pytest.raises(ValueError, match=rf"unknown key '{slip}' in a parameter group: write 'manifold'"):
            build(**{slip: Stiefel()})
    with pytest.raises(ValueError, match=r"unknown key 'weight_decays' .* write 'weight_decay'"):
        build(weight_decays=0.1)
    for own in ("name", "initial_lr", "lr_scale", "max_momentum"):
        assert build(**{own: 0.1}).param_groups[0][own] == 0.1


@cases
def test_an_optimizer_without_a_manifold_warns_once(case: Case) -> None:
    optimizer = case([plain(3)])
    with pytest.warns(UserWarning, match=r"no group of this .* has a manifold.*stiefel_parameter_groups") as caught:
        walk(optimizer, 3)
    assert len(caught) == 1
    walk(optimizer, 1)  # warnings are errors


@cases
def test_messages_name_the_parameter(case: Case) -> None:
    model = Net()
    optimizer = case(stiefel_parameter_groups(model, "body.*"))
    model(torch.ones(2, 3, 4, 4)).sum().backward()
    with pytest.raises(ValueError, match=r"^body\.0\.weight of shape \(8, 8\) "):
        optimizer.step()
    with pytest.raises(ValueError, match=r"^stem\.bias of shape \(8,\) is not a matrix"):
        case([{"params": [("stem.bias", model.stem.bias)], "manifold": Stiefel()}])


@cases
def test_integer_and_empty_parameters_are_refused(case: Case) -> None:
    whole = nn.Parameter(torch.eye(3, dtype=torch.int64), requires_grad=False)
    with pytest.raises(TypeError, match=r"\(3, 3\) has type torch.int64, .* convert it with .float\(\)"):
        case(on_stiefel([whole]))
    with pytest.raises(ValueError, match=r"\(0, 3\) is empty: leave it off the manifold"):
        case(on_stiefel([nn.Parameter(torch.zeros(0, 3))]))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.body = nn.ModuleList([nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4)])
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.body[0].weight  # type: ignore[assignment]

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images).mean((-2, -1))
        return self.body[2](self.body[1](self.tied(self.body[0](hidden))))


def test_groups_of_a_model_hold_each_parameter_once() -> None:
    model = Net()
    chosen, rest = stiefel_parameter_groups(model)
    assert chosen["manifold"] == Stiefel()
    assert [p.shape for p in chosen["params"]] == [(8, 3, 3, 3), (8, 8), (4, 8)]
    ids = [id(p) for group in (chosen, rest) for p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in model.parameters())
    some, _ = stiefel_parameter_groups(model, include=["stem.*", "body.2.*"], manifold=Stiefel("canonical"))
    assert [p.shape for p in some["params"]] == [(8, 3, 3, 3), (4, 8)]
    assert some["manifold"] == Stiefel("canonical")
    with pytest.raises(ValueError, match=r"'head.\*' matches no weight.*stem.weight, body.0.weight, body.2.weight"):
        stiefel_parameter_groups(model, include="head.*")


def test_transposed_and_grouped_convolutions_are_not_chosen_and_refused_if_included() -> None:
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ConvTranspose2d(8, 4, 3), nn.Conv2d(4, 4, 3, groups=4))
    chosen, rest = stiefel_parameter_groups(model)
    assert chosen["param_names"] == ["0.weight"]
    assert {"1.weight", "2.weight"} <= set(rest["param_names"])
    for name in ("1", "2.weight"):
        with pytest.raises(
            ValueError, match=f"{name[0]}.weight of Sequential .*transposed or grouped.*layers.orthogonal"
        ):
            stiefel_parameter_groups(model, name)
    with pytest.raises(ValueError, match="transposed or grouped"):
        stiefel_parameter_groups(model[1])


class Tied(nn.Module):
    """A language model whose head shares the weight of its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight


def test_a_head_tied_to_an_embedding_is_on_the_manifold_only_if_included() -> None:
    model = Tied()
    chosen, rest = stiefel_parameter_groups(model)
    assert (chosen["param_names"], rest["param_names"]) == (["body.weight"], ["words.weight", "body.bias"])
    asked, _ = stiefel_parameter_groups(model, "head.weight")
    assert asked["params"][0] is model.words.weight


def test_parametrized_weights_are_not_on_the_manifold() -> None:
    model = nn.Sequential(orthogonal(nn.Linear(8, 8), start="haar"), nn.Linear(8, 4))
    chosen, rest = stiefel_parameter_groups(model)
    assert chosen["param_names"] == ["1.weight"]
    assert "0.parametrizations.weight.original" in rest["param_names"]
    with pytest.raises(ValueError, match=r"^weight of ParametrizedLinear is parametrized already .*model.parameters"):
        stiefel_parameter_groups(model[0])


def test_states_load_with_and_without_parameter_names() -> None:
    model = Tied()
    groups = stiefel_parameter_groups(model)
    bare = [{key: value for key, value in group.items() if key != "param_names"} for group in groups]
    named, nameless = RiemannianSGD(groups), RiemannianSGD(bare)
    named.load_state_dict(nameless.state_dict())
    nameless.load_state_dict(named.state_dict())
    assert [group["param_names"] for group in named.param_groups] == [group["param_names"] for group in groups]
    project_(model.body.weight.detach().mul_(3))
    model.head(model.body(model.words(torch.arange(4)))).sum().backward()
    for optimizer in (named, nameless):
        before = model.body.weight.detach().clone()
        optimizer.step()
        assert not torch.equal(model.body.weight, before)
        assert float(orthonormality_error(model.body.weight.detach())) < 1e-6


@pytest.mark.slow
@cases
def test_a_model_learns_with_orthonormal_weights(case: Case) -> None:
    torch.manual_seed(0)
    model = Net()
    groups = stiefel_parameter_groups(model)
    for weight in groups[0]["params"]:
        project_(weight)
    optimizer = case(groups)
    images, labels = torch.randn(16, 3, 5, 5), torch.arange(16) % 4
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    for weight in groups[0]["params"]:
        assert orthonormality_error(weight.detach().flatten(1)).item() <= 1e-6


@cases
def test_steps_under_autocast_are_those_without(case: Case) -> None:
    ends = []
    for enabled in (False, True):
        weights = [frame(12, 8, seed=seed, dtype=torch.float32) for seed in range(2)]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            walk(case(on_stiefel(weights)), 3)
        ends.append(weights)
    for without, under in zip(*ends, strict=True):
        assert torch.equal(without, under)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_second_moment_of_a_half_precision_matrix_is_kept_in_float32(dtype: torch.dtype) -> None:
    weight = frame(16, 8, dtype=torch.float32)
    weight.data = weight.data.to(dtype)
    optimizer = RiemannianAdam(on_stiefel([weight]), lr=1e-3)
    for _ in range(20):
        weight.grad = (1e-4 * gaussian(16, 8)).to(dtype)
        optimizer.step()
    second = optimizer.state[weight]["exp_avg_sq"]
    assert second.dtype is torch.float32
    assert 1e-11 < float(second) < 1e-9, "float16 would make it 0"
    saved = copy.deepcopy(optimizer.state_dict())
    again = RiemannianAdam(on_stiefel([weight]), lr=1e-3)
    again.load_state_dict(saved)
    assert torch.equal(again.state[weight]["exp_avg_sq"], second)


@cases
def test_a_batch_that_is_no_stack_in_memory_is_refused(case: Case) -> None:
    spread = nn.Parameter(torch.stack([frame(4, 4, seed=seed) for seed in range(6)]).view(2, 3, 4, 4).transpose(0, 1))
    with pytest.raises(ValueError, match="contiguous"):
        case(on_stiefel([spread], batched=True))
