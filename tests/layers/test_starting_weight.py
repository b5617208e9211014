"""How a layer begins: the weight that is kept, replaced or drawn, and the component of the group it is on."""

import warnings

import pytest
import torch
from torch import Tensor, nn

from layers.maps import (
    MAPS,
    close,
    coordinates_of,
    error,
    linear,
    orthonormal,
    parametrization_of,
    plain,
    rounding,
    seeded,
    train,
)
from orthoscope.layers import orthogonal
from orthoscope.linalg import polar_factor

every_map = pytest.mark.parametrize("map", MAPS)


@every_map
def test_a_start_that_is_not_orthonormal_is_replaced_by_the_nearest_and_said_aloud(map: str) -> None:
    layer = plain(7, 4)
    nearest = polar_factor(layer.weight.detach())
    with pytest.warns(UserWarning, match=r"is not orthonormal \(max \|W'W - I\| is .*start='nearest' does so silently"):
        orthogonal(layer, map=map)
    assert close(layer.weight, nearest)
    silent = orthogonal(plain(7, 4), map=map, start="nearest")
    assert torch.equal(silent.weight, layer.weight)


@every_map
def test_keep_refuses_to_replace_and_leaves_the_module_alone(map: str) -> None:
    layer = plain(7, 4)
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"is not orthonormal .* choose start='nearest' or start='haar'"):
        orthogonal(layer, map=map, start="keep")
    assert type(layer) is nn.Linear
    assert torch.equal(layer.weight, before)
    kept = linear(map, (7, 4), start="keep")
    assert close(kept.weight, orthonormal((7, 4)))


@every_map
def test_haar_starts_depend_on_the_generator_alone(map: str) -> None:
    first, same, other = (
        orthogonal(plain(7, 4, seed), map=map, start="haar", generator=seeded(draw)).weight.detach()
        for seed, draw in ((0, 0), (1, 0), (0, 1))
    )
    assert torch.equal(first, same)
    assert not close(first, other, slack=1e4)
    assert error(first) < rounding(torch.float32)


def test_haar_starts_are_uniform() -> None:
    r"""$E\,W_{11}^4 = 3/(n(n+2))$ for a real unit vector, $2/(n(n+1))$ for $E|W_{11}|^4$ of a complex one."""
    for dtype, fourth in ((torch.float64, 3 / (4 * 6)), (torch.complex128, 2 / (4 * 5))):
        module = nn.Module()
        module.weight = nn.Parameter(torch.zeros(20_000, 4, 2, dtype=dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # complex modules are new, says torch
            orthogonal(module, map="cayley", start="haar", generator=seeded())
        powers = module.weight.detach()[:, 0, 0].abs().pow(4)
        standard_error = powers.std() / powers.numel() ** 0.5
        assert abs(powers.mean() - fourth) < 4 * standard_error
        assert abs(powers.mean() - 1.15 * fourth) > 4 * standard_error, "the test must be able to reject"


def test_almost_orthonormal_weights_are_kept_within_the_stated_tolerance() -> None:
    eps, rows = torch.finfo(torch.float32).eps, 7
    allowed = 2 * eps + 10 * rows**0.5 * eps
    for factor, kept in ((0.4, True), (0.6, False)):
        # (1 + d)² - 1 is about 2d.
        layer = plain(7, 4)
        with torch.no_grad():
            layer.weight.copy_(orthonormal((7, 4), torch.float64) * (1 + factor * allowed))
        if kept:
            orthogonal(layer, start="keep")
        else:
            with pytest.raises(ValueError, match="is not orthonormal"):
                orthogonal(layer, start="keep")


@pytest.mark.slow
@every_map
@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_the_determinant_is_chosen_said_and_never_left(map: str, determinant: int, size: int) -> None:
    for seed in range(4):
        layer = linear(map, (size, size), seed=seed, determinant=determinant, start="nearest")
        assert parametrization_of(layer).determinants.item() == determinant
        assert f"determinant={determinant:+d}" in repr(layer)
        if size > 1:
            train(layer, steps=20)
        assert abs(torch.linalg.det(layer.weight.detach()).item() - determinant) < 1e-5
        difference = layer.weight.detach().abs() - orthonormal((size, size), seed=seed).abs()
        assert size > 1 or difference.abs().max() < rounding(torch.float32), "only a column was turned round"


@every_map
def test_another_determinant_than_the_weight_has_is_said_aloud(map: str) -> None:
    found = int(torch.linalg.det(orthonormal((4, 4))).round())
    with pytest.warns(
        UserWarning, match=rf"got determinant={-found} by negating a column.*start='nearest' does so sil"
    ):
        linear(map, (4, 4), determinant=-found)
    assert close(linear(map, (4, 4), determinant=found).weight, orthonormal((4, 4))), "the one it has: no warning"


def test_a_start_at_random_takes_any_weight() -> None:
    layer = plain(6, 4)
    layer.weight.data.fill_(torch.nan)
    assert error(orthogonal(layer, start="haar", generator=seeded()).weight) < rounding(torch.float32)


@every_map
def test_without_a_choice_the_determinant_is_that_of_the_weight(map: str) -> None:
    weights = orthonormal((8, 3, 3))
    module = nn.Module()
    module.weight = nn.Parameter(weights.clone())
    orthogonal(module, map=map)
    found = parametrization_of(module).determinants
    assert found.tolist() == torch.linalg.det(weights).round().int().tolist()
    assert set(found.tolist()) == {1, -1}
    assert "determinant=-1 and +1" in repr(module)
    module.weight = weights.flip(0)
    assert parametrization_of(module).determinants.tolist() == found.flip(0).tolist(), "assignment moves it"


@pytest.mark.slow
@every_map
@pytest.mark.parametrize("determinant", [1, -1])
def test_gradient_descent_reaches_the_whole_component_and_only_it(map: str, determinant: int) -> None:
    target = orthonormal((4, 4), torch.float64, seed=7)
    target[:, 0] *= determinant * torch.linalg.det(target).sign()
    for component in (1, -1):
        layer = linear(map, (4, 4), torch.float64, seed=3, determinant=component, start="nearest")
        coordinates = coordinates_of(layer)

        def distance() -> Tensor:
            coordinates.grad = None  # noqa: B023
            value = (layer.weight - target).square().sum()  # noqa: B023
            value.backward()
            return value

        for _ in range(2):
            # One chart reaches all but a set of measure zero, near which its coordinates are large: assigning
            # a layer its own weight writes it in the chart around it.
            layer.weight = parametrization_of(layer).nearest(layer.weight)
            torch.optim.LBFGS([coordinates], max_iter=200, line_search_fn="strong_wolfe").step(distance)
        if component == determinant:
            assert distance().item() < 1e-6
        else:
            # Some eigenvalue of WᵀT is then -1: ‖W - T‖² = 2n - 2 tr WᵀT >= 4.
            assert 4 - 1e-9 <= distance().item() < 4.1, "the nearest of the other component is 4 away"
