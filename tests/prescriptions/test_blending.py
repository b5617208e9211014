"""How far activations are blended toward the identity, and the critical gain of weights."""

import math
from typing import Any

import pytest
from torch import nn

from orthoscope.activations import toward_identity, value_and_slope_at_zero
from orthoscope.prescriptions._blending import blending_strength, critical_gain
from orthoscope.theory import kernel_map

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.SELU(), nn.ELU()], ids=lambda a: type(a).__name__
)
def test_the_strength_of_an_activation_is_the_largest_that_the_depth_allows(activation: nn.Module) -> None:
    """Checked with the kernel map of the module itself: within the allowance, and half as much again is not."""
    depth = 60
    strength = blending_strength(activation, depth)
    deviation = [_deviation(toward_identity(activation, factor * strength)) * depth for factor in (1.0, 1.3)]
    assert deviation[0] <= 0.51
    assert deviation[1] > 0.5


def _deviation(activation: nn.Module) -> float:
    kernel = kernel_map(activation)
    step = 1e-4
    lengths = [math.log(kernel_map(activation, input_variance=math.exp(s)).scale) for s in (-step, step)]
    return max(abs(kernel.slope_at_one - 1), kernel.at_zero, (lengths[1] - lengths[0]) / step - 1)


def test_critical_gains_are_those_of_the_textbook() -> None:
    assert critical_gain(nn.ReLU()) == pytest.approx(math.sqrt(2), abs=1e-3)
    assert critical_gain(nn.Tanh()) == 1
    assert critical_gain(nn.Sigmoid()) == pytest.approx(1 / 0.54164, rel=1e-3)
    assert critical_gain(nn.SELU()) == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("kind", [nn.ReLU, nn.ELU, nn.SiLU, nn.Hardswish])
def test_in_place_activations_give_the_same_numbers(kind: Any) -> None:
    assert critical_gain(kind(inplace=True)) == critical_gain(kind())
    assert blending_strength(kind(inplace=True), 30) == blending_strength(kind(), 30)
    assert value_and_slope_at_zero(kind(inplace=True)) == value_and_slope_at_zero(kind())
