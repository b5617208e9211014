"""An intervention changes what a network computes or learns, wherever it is said to be applied."""

import pytest
import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families import FAMILIES, Settings
from orthoscope_papers.calibration.families.parts import Residual
from orthoscope_papers.calibration.interventions import INTERVENTIONS, SCALES, UNTOUCHED, Member, members
from orthoscope_papers.calibration.specimens import built, diagnosed_batch

pytestmark = pytest.mark.usefixtures("without_data")


def learned_from(member: Member) -> tuple[Tensor, list[Tensor | None]]:
    """Output and gradients of one batch."""
    network, batch = member.built(0), next(member.batches(0))
    output = network(*batch.args)
    member.task.loss(output, batch.target).backward()
    return output.detach(), [p.grad for p in network.parameters()]


def same(first: tuple[Tensor, list[Tensor | None]], second: tuple[Tensor, list[Tensor | None]]) -> bool:
    if not torch.equal(first[0], second[0]) or len(first[1]) != len(second[1]):
        return False
    pairs = zip(first[1], second[1], strict=True)
    return all((p is None and q is None) or (p is not None and q is not None and torch.equal(p, q)) for p, q in pairs)


def applied(intervention: str) -> list[Member]:
    return [member for member in members() if member.intervention == intervention]


@pytest.mark.parametrize("intervention", [name for name in INTERVENTIONS if name != UNTOUCHED])
def test_an_intervention_changes_what_is_computed_or_learned(intervention: str) -> None:
    chosen = applied(intervention)
    assert len(chosen) >= 6
    for member in chosen[:: max(1, len(chosen) // 2)]:
        assert not same(learned_from(member), learned_from(Member(member.family, UNTOUCHED))), member.name


def test_members_are_built_alike_each_time() -> None:
    for member in members()[::60]:
        assert same(learned_from(member), learned_from(member)), member.name


def test_a_fault_is_a_module_of_the_network() -> None:
    faulty = [member for member in members()[::7] if member.fault]
    assert len(faulty) > 15
    for member in faulty:
        assert member.built(0).get_submodule(member.fault) is not None


def test_interventions_are_skipped_by_what_the_network_is() -> None:
    by_family = {name: {one.intervention for one in members() if one.family == name} for name in FAMILIES}
    assert "wrong softmax axis" in by_family["bert"]
    assert "wrong softmax axis" not in by_family["resnet"]
    assert "no normalization" not in by_family["vgg"], "it has none"
    assert "gates of 1e-6" not in by_family["convnext"], "it begins so"
    assert "dead biases" not in by_family["llama"], "it has no biases"
    assert "softmax before the loss" not in by_family["u-net"], "it does not classify"
    assert "raw inputs" not in by_family["gpt"], "characters have no scale"
    for name, own in by_family.items():
        assert UNTOUCHED in own
        assert len(own & set(SCALES)) == 3, name
        assert len(own & {"weights as in torch", "weights of He"}) == 1


def test_frozen_gates_stay_shut_and_trainable_ones_get_a_gradient() -> None:
    for intervention, open_ in (("gates of 0", True), ("frozen gates of 0", False)):
        member = Member("vit", intervention)
        network, batch = member.built(0), next(member.batches(0))
        member.task.loss(network(*batch.args), batch.target).backward()
        gates = [module.gate for module in network.modules() if isinstance(module, Residual)]
        assert len(gates) == 8
        assert all((gate.gamma.grad is not None) is open_ for gate in gates)
        branch = next(module.branch for module in network.modules() if isinstance(module, Residual))
        assert not any(p.grad.any() for p in branch.parameters() if p.grad is not None)


def test_no_normalization_is_left() -> None:
    for family in ("convnext", "resnet", "llama", "generator"):
        kinds = {type(module).__name__ for module in Member(family, "no normalization").built(0).modules()}
        assert not {kind for kind in kinds if "Norm" in kind}


def test_raw_inputs_leave_times_and_edges_as_they_are() -> None:
    for family, raw in (("diffusion u-net", 1), ("gcn", 1), ("siamese", 2)):
        own, changed = (next(Member(family, name).batches(0)) for name in (UNTOUCHED, "raw inputs"))
        equal = [torch.equal(a, b) for a, b in zip(own.args, changed.args, strict=True)]
        assert equal.count(False) == raw
        assert torch.equal(own.target, changed.target)


def test_a_member_comes_as_a_diagnosis_takes_it() -> None:
    member = Member("encoder-decoder", UNTOUCHED)
    network = built(member, 0)
    call, loss = diagnosed_batch(member)
    assert call.samples == 64
    assert loss(network(*call.args), call.target).isfinite()
    assert isinstance(network, nn.Module)
    assert Settings() == INTERVENTIONS[member.intervention].settings
