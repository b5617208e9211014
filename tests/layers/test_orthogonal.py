"""The function itself: which map it chooses, what it refuses, and what it leaves as it was."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from layers.maps import (
    COMPLEX_MAPS,
    MAPS,
    close,
    error,
    linear,
    orthonormal,
    parametrization_of,
    plain,
    rounding,
    seeded,
)
from orthoscope.layers import orthogonal
from orthoscope.linalg import cayley_frame, polar_factor


@pytest.mark.parametrize(
    ("shape", "dtype", "chosen"),
    [
        ((8, 8), torch.float32, "cayley"),
        ((65, 65), torch.float32, "cayley"),
        ((16, 8), torch.float32, "householder"),
        ((200, 100), torch.float32, "householder"),
        ((100, 200), torch.float32, "householder"),
        ((199, 100), torch.float32, "cayley"),
        ((8, 8), torch.complex64, "cayley"),
    ],
    ids=str,
)
def test_auto_chooses_by_shape_and_says_what(shape: tuple[int, int], dtype: torch.dtype, chosen: str) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(orthonormal(shape, dtype))
    orthogonal(module)
    assert parametrization_of(module).map == chosen
    assert f"map={chosen!r} (chosen by 'auto')" in repr(module)
    assert "auto" not in repr(linear("cayley", (3, 3)))
    assert parametrization_of(linear("cayley", (3, 3))).map == "cayley"


def test_a_partial_family_chooses_its_map() -> None:
    assert parametrization_of(linear("auto", (5, 5), num_reflections=2, start="haar")).map == "householder"
    layer = linear("auto", (5, 5), num_rotations=7, start="haar")
    assert parametrization_of(layer).map == "givens"
    assert "num_rotations=7" in repr(layer)


def test_a_layer_prints_its_matrices_out_by_in() -> None:
    assert "4 x 6" in repr(linear("cayley", (4, 6)))
    assert "6 x 4" in repr(linear("cayley", (6, 4)))
    assert "2 x 3 x 36" in repr(orthogonal(nn.Conv2d(8, 6, 3, groups=2), start="haar"))


# One sentence each, and the module is as it was.

MISTAKES = {
    "unknown map": (
        {"map": "caylee"},
        ValueError,
        r"unknown map 'caylee': did you mean 'cayley'\? choose one of auto, h",
    ),
    "torch's name": ({"map": "matrix_exp"}, ValueError, r"unknown map 'matrix_exp': .*exponential"),
    "unknown start": ({"start": "random"}, ValueError, r"unknown start 'random': choose one of nearest, haar, keep"),
    "no such name": ({"name": "wait"}, ValueError, r"Linear has no parameter or buffer 'wait': it has weight, bias"),
    "a vector": ({"name": "bias"}, ValueError, r"'bias' has shape \(6,\): only matrices"),
    "determinant 2": ({"determinant": 2}, ValueError, r"determinant=2 of an orthogonal matrix does not exist"),
    "determinant of a tall one": ({"determinant": 1}, ValueError, r"determinant=1 is for square real weights.* 6 x 4"),
    "no reflection": ({"num_reflections": 0}, ValueError, r"num_reflections=0 is not between 1 and 4"),
    "too many reflections": ({"num_reflections": 5}, ValueError, r"num_reflections=5 is not between 1 and 4"),
    "reflections of another map": (
        {"num_reflections": 2, "map": "cayley"},
        ValueError,
        r"num_reflections=2 is for map 'householder', not for 'cayley'",
    ),
    "rotations of another map": (
        {"num_rotations": 5, "map": "householder"},
        ValueError,
        r"num_rotations=5 is for map 'givens', not for 'householder'",
    ),
    "half a fan": ({"num_rotations": 7}, ValueError, r"num_rotations=7 is not a whole .* the nearest are 5 and 9"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_and_leave_the_module_as_it_was(mistake: str) -> None:
    options, kind, message = MISTAKES[mistake]
    layer = plain(6, 4)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    with pytest.raises(kind, match=message):
        orthogonal(layer, **options)
    assert type(layer) is nn.Linear
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_weights_that_cannot_be_orthonormal_are_refused() -> None:
    for value in (torch.nan, torch.inf):
        layer = plain(6, 4)
        layer.weight.data[2, 1] = value
        with pytest.raises(ValueError, match=r"'weight' has entries that are nan or infinite"):
            orthogonal(layer)
        assert type(layer) is nn.Linear
    module = nn.Module()
    module.register_buffer("weight", torch.ones(3, 3, dtype=torch.int32))
    with pytest.raises(TypeError, match=r"'weight' is of torch.int32, .*convert it to a floating-point type"):
        orthogonal(module)
    with pytest.raises(ValueError, match="run one batch through the module first"):
        orthogonal(nn.LazyLinear(3))
    module = nn.Module()
    module.weight = nn.Parameter(torch.zeros(0, 3))
    with pytest.raises(ValueError, match=r"'weight' is empty, of shape \(0, 3\)"):
        orthogonal(module)


def test_a_container_points_to_the_layers_inside() -> None:
    with pytest.raises(ValueError, match=r"Sequential has no .*'weight': call it on a layer inside, such as '0.1', by"):
        orthogonal(nn.Sequential(nn.Sequential(nn.ReLU(), nn.Linear(4, 4))))
    with pytest.raises(ValueError, match=r"ReLU has no parameter .*: it has none of its own, and no layer inside has"):
        orthogonal(nn.ReLU())


@pytest.mark.slow
def test_mistyped_arguments_are_named_and_warnings_point_to_the_caller() -> None:
    """In a process of its own: while tests run, arguments of a wrong type do not get as far as our own checks."""
    script = Path(__file__).with_name("mistyped.py")
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    said = finished.stdout.splitlines()
    for line, expected in zip(said, MISTYPED, strict=True):
        assert re.search(expected, line), line


MISTYPED = [
    r"TypeError: num_reflections=2.5 counts factors: give a whole number",
    r"TypeError: generator=0 is no torch.Generator: use torch.Generator\(\).manual_seed\(seed\), or None",
    r"TypeError: expected the nn.Module that owns the weight, got Tensor: pass that layer",
    r"TypeError: expected the nn.Module that owns the weight, got list: pass that layer",
    r"TypeError: expected the nn.Module that owns the weight, got Tensor: pass that layer",
    r"TypeError: generator=0 is no torch.Generator",
    r"TypeError: weights are chosen from an nn.Module, got list",
    r"ValueError: a penalty needs a matrix \(out, in\), got shape \(4,\)",
    r"TypeError: this layer holds tensors, got ndarray: use torch.as_tensor\(weight\)",
    r"warned in mistyped.py: .*start='nearest' does so silently",
    r"warned in mistyped.py: .*start='haar' does so silently",
]


@pytest.mark.parametrize("map", sorted(set(MAPS) - set(COMPLEX_MAPS)))
def test_real_maps_refuse_complex_weights(map: str) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(orthonormal((3, 3), torch.complex64))
    with pytest.raises(ValueError, match=rf"map '{map}' is for real weights.*choose 'cayley' or 'exponential'"):
        orthogonal(module, map=map)
    with pytest.raises(ValueError, match=r"determinant=1 is for square real weights, and this one is complex"):
        orthogonal(module, determinant=1)
    assert not parametrize.is_parametrized(module)


def test_a_weight_is_not_parametrized_twice() -> None:
    layer = linear("cayley", (4, 4))
    before = layer.weight.detach().clone()
    with pytest.raises(ValueError, match=r"already parametrized \(OrthogonalParametrization\): call .*remove_param"):
        orthogonal(layer)
    assert len(layer.parametrizations.weight) == 1
    assert torch.equal(layer.weight, before)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"already parametrized \(_WeightNorm\)"):
        orthogonal(normed)


def test_two_weights_of_one_module_can_be_orthogonal() -> None:
    layer = nn.RNNCell(4, 4)
    for name in ("weight_ih", "weight_hh"):
        orthogonal(layer, name, start="haar", generator=seeded())
    assert torch.equal(layer.weight_ih, layer.weight_hh)
    layer.load_state_dict(
        {"weight_ih": orthonormal((4, 4), seed=1), "weight_hh": orthonormal((4, 4), seed=2)}, strict=False
    )
    assert close(layer.weight_ih, orthonormal((4, 4), seed=1))
    assert close(layer.weight_hh, orthonormal((4, 4), seed=2))


def test_the_initializers_reach_an_orthogonal_layer() -> None:
    from orthoscope.init import initialize_

    layer = linear("householder", (6, 4))
    initialize_(layer, "orthogonal", generator=seeded(8))
    assert not close(layer.weight, orthonormal((6, 4)), slack=1e3)
    assert error(layer.weight) < rounding(torch.float32)
    with pytest.raises(ValueError, match="is parametrized and refuses scheme 'he'"):
        initialize_(layer, "he")


def test_a_weight_whose_coordinates_float32_cannot_hold_is_refused_not_changed() -> None:
    """A frame that grows Cayley's generator by the square root of two with every column."""
    skew = torch.zeros(1, 1, dtype=torch.float64)
    while len(skew) < 48:
        system = torch.eye(len(skew), dtype=torch.float64) - skew / 2
        column = system @ (1.999 * torch.linalg.svd(system).Vh[0])
        skew = torch.cat([torch.cat([torch.zeros(1, 1), -column[None]], 1), torch.cat([column[:, None], skew], 1)])
    frame = polar_factor(cayley_frame(skew.tril(-1)))
    layer = nn.Linear(48, 48)
    with torch.no_grad():
        layer.weight.copy_(frame)
    with pytest.raises(ValueError, match=r"too large for torch.float32, .*choose 'householder' or 'exponential'"):
        orthogonal(layer, map="cayley", start="keep")
    kept = orthogonal(layer, map="householder", start="keep")
    assert (kept.weight.double() - frame).abs().max() < 1e-5
