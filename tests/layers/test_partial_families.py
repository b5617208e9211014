"""Few reflections or rotations: a family that begins anew, trains, and keeps its members."""

import itertools

import pytest
import torch
from torch import nn

from layers.maps import (
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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("options", "count"),
    [({"num_reflections": 2}, 2 * 9), ({"num_rotations": 8 + 7}, 15)],
    ids=["2 reflections", "2 fans of rotations"],
)
@pytest.mark.parametrize("shape", [(9, 9), (9, 5), (5, 9)], ids=["square", "tall", "wide"])
def test_a_partial_family_begins_anew_trains_and_keeps_its_members(
    options: dict[str, int], count: int, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    layer = plain(*shape).to(dtype)
    with pytest.warns(UserWarning, match=r"replaced by a random member of the family: start='haar' does so silently"):
        orthogonal(layer, **options, generator=seeded())
    assert coordinates_of(layer).numel() == count
    assert error(layer.weight) < rounding(dtype)
    train(layer)
    assert error(layer.weight) < rounding(dtype)
    again = plain(*shape)
    with torch.no_grad():
        member = orthogonal(plain(*shape), **options, start="haar", generator=seeded(1)).weight.detach().clone()
        again.weight.copy_(member)
    assert close(orthogonal(again, **options, start="keep").weight, member, slack=4)
    again.weight = member
    assert close(again.weight, member, slack=4)
    with pytest.raises(ValueError, match=r"."):
        again.weight = orthonormal(shape, seed=5)
    assert close(again.weight, member, slack=4)


@pytest.mark.parametrize("options", [{"num_reflections": 2}, {"num_rotations": 8}], ids=["reflections", "rotations"])
def test_a_partial_family_cannot_keep_or_approach_any_weight(options: dict[str, int]) -> None:
    for start, weight in itertools.product(("keep", "nearest"), (orthonormal((9, 9)), 2 * orthonormal((9, 9)))):
        layer = nn.Linear(9, 9)
        with torch.no_grad():
            layer.weight.copy_(weight)
        with pytest.raises(ValueError, match=r"choose start=.*'haar'"):
            orthogonal(layer, **options, start=start)
        assert torch.equal(layer.weight, weight)


def test_the_full_number_is_the_full_family() -> None:
    for options in ({"num_reflections": 5}, {"num_rotations": 8 + 7 + 6 + 5 + 4}):
        layer = linear("auto", (9, 5), **options)
        assert parametrization_of(layer).size is None
        assert close(layer.weight, orthonormal((9, 5)))
