"""Groups bound the memory of a simulation and change nothing else."""

import pytest
import torch
from torch import Tensor

from orthoscope.chains import Chain, gradients, gradients_by_depth, simulate, simulation
from orthoscope.chains.simulation import groups
from orthoscope.metrics import orthogonality_gap


def batch(samples: int, units: int) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("networks", "held", "most"), [(1, 10, 1), (10, 10, 10), (23, 10, 8), (7, 1000, 1)])
def test_groups_cover_all_networks_within_the_budget(networks: int, held: int, most: int) -> None:
    """A network that needs more than the budget is a group by itself."""
    found = groups(networks, held, 100)
    assert [place for group in found for place in range(networks)[group]] == list(range(networks))
    assert max(group.stop - group.start for group in found) <= most
    assert len(found) == -(-networks // max(1, 100 // held))


@pytest.mark.slow
def test_simulated_networks_do_not_depend_on_their_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"seeds": range(40), "record": {"V": orthogonality_gap}, "layers": [0, 100]}
    chain = Chain(64, "orthogonal", norm="batch_uncentered")
    sizes: list[int] = []
    one = simulate(batch(32, 64), chain, 100, **arguments)
    monkeypatch.setitem(simulation.GROUP_BYTES, "cpu", 1 << 20)
    arguments["record"]["size"] = lambda hidden: sizes.append(len(hidden)) or hidden[:, 0, 0]
    many = simulate(batch(32, 64), chain, 100, **arguments)
    assert max(sizes) < 10
    torch.testing.assert_close(one.values["V"], many.values["V"], rtol=1e-8, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["identity", "tanh"])
@pytest.mark.parametrize("units", [130, 150])
def test_gradients_do_not_depend_on_groups_and_segments(
    activation: str, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of two networks and of one, each in segments of four layers and of three.

    Layers of so many weights are drawn one by one, whatever the segments.
    """
    start, chain, seeds = batch(12, units), Chain(130, "orthogonal", activation, "batch"), range(5)
    together = gradients_by_depth(start, chain, [3, 11], seeds=seeds)
    segment = 4 * gradients.kept_numbers(chain, 12)
    monkeypatch.setattr(gradients, "SEGMENT", segment)
    monkeypatch.setattr(gradients, "GROUP_BYTES", 2 * 8 * segment)
    sizes: list[int] = []
    drawn = gradients.drawn_weights
    monkeypatch.setattr(gradients, "drawn_weights", lambda *given: sizes.append(len(given[1])) or drawn(*given))
    apart = gradients_by_depth(start, chain, [3, 11], seeds=seeds)
    assert set(sizes) == {1, 2}
    torch.testing.assert_close(apart, together, rtol=1e-9, atol=1e-9)
