"""The recurrent network: its recursion, its starts, and a memory that stays orthogonal while it trains."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.linalg.polar import orthonormality_error
from orthoscope.models import ModReLU
from orthoscope_papers.ju2025.recurrent_network import RecurrentNetwork, rotations


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(**options: object) -> RecurrentNetwork:
    arguments: dict[str, object] = {"in_features": 3, "hidden": 8, "out_features": 2, "generator": seeded()}
    return RecurrentNetwork(**{**arguments, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("orthogonal", [True, False], ids=["orthogonal", "free"])
def test_it_is_the_recursion_of_its_docstring(orthogonal: bool) -> None:
    model = network(orthogonal=orthogonal, activation="tanh").double()
    inputs = torch.randn(4, 5, 3, generator=seeded(1), dtype=torch.float64)
    outputs = model(inputs)
    assert outputs.shape == (4, 5, 2)
    for sample in range(4):
        hidden = torch.zeros(8, dtype=torch.float64)
        for step in range(5):
            hidden = torch.tanh(model.recurrent.weight @ hidden + model.inputs.weight @ inputs[sample, step])
            expected = model.head.weight @ hidden + model.head.bias
            torch.testing.assert_close(outputs[sample, step], expected)


def test_outputs_depend_on_the_past_and_not_on_the_future() -> None:
    model = network()
    inputs = torch.randn(1, 6, 3, generator=seeded(1)).requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs)[0, 3].sum(), inputs)
    assert (gradient[0, :4].abs().amax(-1) > 0).all()
    assert (gradient[0, 4:] == 0).all()


@pytest.mark.parametrize("map", ["cayley", "householder", "exponential"])
def test_an_orthogonal_memory_stays_one_whatever_trains_it(map: str) -> None:
    model = network(map=map, hidden=16)
    before = model.recurrent.weight.detach().clone()
    inputs = torch.randn(8, 10, 3, generator=seeded(1))
    optimizer = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    assert (model.recurrent.weight - before).norm() > 0.5, "it must have moved for this to mean anything"
    assert orthonormality_error(model.recurrent.weight.detach()) < 1e-5


def test_a_free_memory_does_not_stay_orthogonal() -> None:
    model = network(orthogonal=False)
    assert orthonormality_error(model.recurrent.weight.detach()) < 1e-6
    model(torch.randn(8, 10, 3, generator=seeded(1))).square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    assert orthonormality_error(model.recurrent.weight.detach()) > 1e-3


def test_the_orthogonal_and_the_free_network_of_one_seed_begin_as_one_function() -> None:
    inputs = torch.randn(4, 30, 3, generator=seeded(1))
    torch.testing.assert_close(network()(inputs), network(orthogonal=False)(inputs), rtol=1e-4, atol=1e-5)


def test_an_orthogonal_linear_memory_keeps_the_length_of_what_it_saw() -> None:
    model = network(activation="identity", hidden=12, out_features=12, recurrent_init="orthogonal")
    with torch.no_grad():
        model.head.weight.copy_(torch.eye(12))
    inputs = torch.zeros(2, 200, 3)
    inputs[:, 0] = torch.randn(2, 3, generator=seeded(1))
    states = model(inputs).norm(dim=-1)
    torch.testing.assert_close(states[:, -1], states[:, 0], rtol=1e-4, atol=0)


def test_the_orthogonal_weight_is_computed_once_per_pass() -> None:
    model = network()
    calls: list[object] = []
    model.recurrent.parametrizations["weight"][0].register_forward_hook(  # type: ignore[index, union-attr]
        lambda *seen: calls.append(seen)
    )
    model(torch.ones(2, 50, 3))
    assert len(calls) == 1


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_rotations_turn_planes_and_leave_an_odd_last_coordinate(size: int) -> None:
    matrix = rotations(size, seeded())
    identity = torch.eye(size, dtype=torch.float64)
    torch.testing.assert_close(matrix.mT @ matrix, identity)
    assert torch.linalg.det(matrix).item() == pytest.approx(1)
    within = torch.arange(size) // 2
    assert (matrix[within[:, None] != within] == 0).all()
    if size % 2:
        assert matrix[-1, -1] == 1
    if size > 1:
        assert (matrix - identity).abs().max() > 0.1


def test_angles_of_rotations_are_uniform() -> None:
    matrix = rotations(2_000, seeded())
    angles = torch.atan2(matrix[1::2, ::2].diagonal(), matrix[::2, ::2].diagonal())
    places = torch.linspace(-torch.pi, torch.pi, 1_000, dtype=torch.float64)
    assert (angles.sort().values - places).abs().max() < 2 * torch.pi * 1.95 / 1_000**0.5  # Kolmogorov, 0.1 %


def test_modrelu_is_the_identity_at_the_start_and_a_threshold_on_the_length_after() -> None:
    layer, inputs = ModReLU(3), torch.tensor([[-2.0, 0.5, 0.0], [0.25, -0.5, 3.0]])
    assert torch.equal(layer(inputs), inputs)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([-0.5, 1.0, -4.0]))
    assert torch.equal(layer(inputs), torch.tensor([[-1.5, 1.5, 0.0], [0.0, -1.5, 0.0]]))


def test_a_generator_decides_every_weight_and_the_global_one_is_untouched() -> None:
    before = torch.get_rng_state()
    first, again, other = (network(generator=seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    weights: list[list[Tensor]] = [[m.inputs.weight, m.recurrent.weight, m.head.weight] for m in (first, again, other)]
    assert all(torch.equal(a, b) for a, b in zip(weights[0], weights[1], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(weights[0], weights[2], strict=True))


@pytest.mark.parametrize("init", ["gaussian", "orthogonal", "torch"])
def test_any_scheme_may_begin_it_and_an_orthogonal_one_takes_the_nearest(init: str) -> None:
    free, held = (network(recurrent_init=init, orthogonal=flag).recurrent.weight.detach() for flag in (False, True))
    left, _, right = torch.linalg.svd(free.double())
    torch.testing.assert_close(held.double(), left @ right, rtol=0, atol=1e-5)


def test_activations_come_by_name_module_or_function() -> None:
    assert isinstance(network().activation, ModReLU)
    assert isinstance(network(activation=nn.ReLU).activation, nn.ReLU)
    assert network(activation=torch.abs)(torch.ones(1, 2, 3)).shape == (1, 2, 2)


def test_no_samples_and_no_steps_are_no_outputs() -> None:
    model = network()
    assert model(torch.ones(0, 4, 3)).shape == (0, 4, 2)
    assert model(torch.ones(4, 0, 3)).shape == (4, 0, 2)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"takes sequences \(samples, steps, 3\), got a batch of shape \(2, 4, 5\)"):
        network()(torch.ones(2, 4, 5))
    with pytest.raises(ValueError, match=r"unknown weight scheme 'rotation'"):
        network(recurrent_init="rotation")
    with pytest.raises(ValueError, match=r"hidden is 0"):
        network(hidden=0)


def test_torch_caches_the_orthogonal_weight() -> None:
    model = network()
    with parametrize.cached():
        assert torch.equal(model(torch.ones(1, 3, 3)), model(torch.ones(1, 3, 3)))
        assert model.recurrent.weight is model.recurrent.weight
