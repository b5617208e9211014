"""The grid is as wide as it is said to be, and its halves share no family."""

from orthoscope_papers.calibration.grid import DEPTHS, grid
from orthoscope_papers.calibration.networks import Network
from orthoscope_papers.calibration.records import outcomes

MEMBERS = grid()
NETWORKS = [member.network for member in MEMBERS]


def test_there_are_at_least_400_networks_of_every_kind_asked_for() -> None:
    assert len(MEMBERS) >= 400
    assert len(set(MEMBERS)) == len(MEMBERS)
    assert {network.kind for network in NETWORKS} == set(DEPTHS)
    assert min(network.depth for network in NETWORKS) == 5
    assert max(network.depth for network in NETWORKS) == 300
    assert {32, 512} <= {network.width for network in NETWORKS if network.kind == "mlp"}
    assert len({network.activation for network in NETWORKS}) >= 8
    assert {"none", "batch", "layer", "rms", "pre", "post"} <= {network.norm for network in NETWORKS}
    assert {"he", "xavier", "torch", "orthogonal", "lsuv", "whitening", "zero"} <= {n.init for n in NETWORKS}
    assert {True, False} == {network.residual for network in NETWORKS}
    assert {"digits", "fashion-mnist"} == {member.task for member in MEMBERS}


def test_families_are_held_out_whole_and_half_of_each_kind() -> None:
    for kind in DEPTHS:
        held = {member.network.family for member in MEMBERS if member.held_out and member.network.kind == kind}
        seen = {member.network.family for member in MEMBERS if not member.held_out and member.network.kind == kind}
        assert not held & seen
        assert abs(len(held) - len(seen)) <= 1


def test_the_outcome_of_every_member_is_known() -> None:
    assert set(outcomes()) == set(range(len(MEMBERS)))
    assert all(outcomes()[number].family == member.network.family for number, member in enumerate(MEMBERS))


def outcome_of(network: Network) -> list[bool]:
    return [outcomes()[number].trains for number, member in enumerate(MEMBERS) if member.network == network]


def test_the_cases_that_mislead_simpler_tools_are_among_them() -> None:
    tailored = [n for n in NETWORKS if n.activation == "leaky_relu" and n.init == "orthogonal" and n.slope == 0.6]
    closed = [n for n in NETWORKS if n.init == "zero"]
    assert tailored
    assert all(outcome_of(network) == [True] for network in [*tailored, *closed])
    deep_unit_variance = [n for n in NETWORKS if n.init == "lsuv" and n.depth >= 100]
    assert deep_unit_variance
    assert not any(trains for network in deep_unit_variance for trains in outcome_of(network))
