"""Activations as functions of one real number: kinks, derivatives, and what is refused."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from orthoscope.activations import ACTIVATIONS, nonlinearity

POINTS = torch.linspace(-6.0, 6.0, 1001, dtype=torch.float64)


@pytest.mark.parametrize(
    ("given", "kinks"),
    [
        (nn.LeakyReLU(0.3), (0.0,)),
        (nn.GELU(approximate="tanh"), ()),
        (nn.ReLU(inplace=True), (0.0,)),
        (nn.SELU, (0.0,)),
        (nn.Hardsigmoid(), (-3.0, 3.0)),
        (lambda x: x.clamp(-1 / 3, 2 / 7), (-1 / 3, 2 / 7)),
        (lambda x: (x > math.e).double(), (math.e,)),
        (lambda x: torch.where(x > 1, (x - 1) ** 2, 0.0), (1.0,)),
        (torch.tanh, ()),
    ],
)
def test_kinks_of_value_slope_and_curvature_are_found_to_rounding(
    given: nn.Module | Callable[[Tensor], Tensor], kinks: tuple[float, ...]
) -> None:
    assert nonlinearity(given).kinks == pytest.approx(kinks, abs=1e-14)


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in ("sign", "step")])
def test_derivative_is_the_limit_of_differences_off_the_kinks(name: str) -> None:
    phi, step = nonlinearity(name), 1e-5
    away = torch.stack([(POINTS - kink).abs() > 10 * step for kink in (*phi.kinks, 99.0)]).all(0)
    points = POINTS[away]
    differences = (phi(points + step) - phi(points - step)) / (2 * step)
    torch.testing.assert_close(phi.derivative(points), differences, rtol=1e-7, atol=1e-7)


def test_gain_and_input_variance_stretch_the_function_and_move_its_kinks() -> None:
    gained = nonlinearity("hardtanh", gain=4.0)
    assert gained.kinks == (-0.25, 0.25)
    torch.testing.assert_close(gained(POINTS), POINTS.clamp(-0.25, 0.25))
    wide = nonlinearity("hardtanh").with_input_scale(4.0)
    assert wide.kinks == (-0.5, 0.5)
    torch.testing.assert_close(wide(POINTS), (2 * POINTS).clamp(-1.0, 1.0))


def test_modules_are_copied_and_not_moved_to_float64() -> None:
    module = nn.PReLU(init=0.3)
    phi = nonlinearity(module)
    assert module.weight.dtype == torch.float32
    torch.testing.assert_close(phi(POINTS), torch.where(POINTS > 0, POINTS, module.weight.double() * POINTS))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("swish", "unknown activation 'swish'"),
        (nn.Softmax(dim=-1), "depends on the other entries"),
        (nn.Linear(3, 3), "not elementwise"),
        (lambda x: x.cumsum(-1), "depends on the other entries"),
        (lambda x: x.sum(), "must be elementwise"),
        (lambda x: 1.0, "must be elementwise"),
        (nn.Dropout(), "must not be random"),
        (torch.log, "NaN"),
        (lambda x: torch.from_numpy(np.tanh(x.numpy())), "cannot be differentiated"),
        (lambda x: x.detach().tanh(), "another slope"),
    ],
)
def test_what_is_not_a_function_of_one_number_is_refused(given: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        nonlinearity(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("gain", "variance"), [(0.0, 1.0), (math.inf, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, math.nan)])
def test_gain_zero_and_nonpositive_variances_are_refused(gain: float, variance: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        nonlinearity("tanh", gain).with_input_scale(variance)


@pytest.mark.parametrize("module", [nn.SiLU, nn.ELU])
def test_a_module_that_works_in_place_is_the_same_function(module: type[nn.Module]) -> None:
    points = torch.linspace(-2, 2, 9, dtype=torch.float64)
    given = points.clone()
    assert torch.equal(nonlinearity(module(inplace=True))(given), nonlinearity(module())(points))
    assert torch.equal(given, points), "the arguments are not overwritten"
