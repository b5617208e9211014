"""Leaky slopes that reach a cosine at a depth, and gains that give the kernel map a slope."""

import math

import pytest
from scipy.integrate import quad
from torch import nn

from orthoscope.theory import gain_of_slope, kernel_map, leaky_slope
from orthoscope.theory.kernel.kernel_map import overlap_after


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "overlap", "start"), [(20, 0.9, 0.0), (300, 0.5, 0.2)])
def test_the_general_kernel_map_reaches_the_target_with_that_slope(depth: int, overlap: float, start: float) -> None:
    slope = leaky_slope(depth, overlap, start)
    assert 0 < slope < 1
    found = kernel_map(nn.LeakyReLU(slope)).trajectory(start, depth)[-1].item()
    assert found == pytest.approx(overlap, abs=1e-9)


@pytest.mark.parametrize(("depth", "theirs"), [(20, 0.1813802719116211), (100, 0.5704395323991776)])
def test_leaky_slope_agrees_with_tailored_activation_transformation(depth: int, theirs: float) -> None:
    """The negative slopes that dks 0.1.2 gives for "TAT" with the target 0.9."""
    assert leaky_slope(depth) == pytest.approx(theirs, abs=1e-6)


def test_leaky_slope_is_zero_where_relu_keeps_samples_apart() -> None:
    assert leaky_slope(5) == 0
    assert overlap_after(0.0, 5, 0.0) < 0.9
    with pytest.raises(ValueError, match="overlaps only grow"):
        leaky_slope(10, overlap=0.3, start=0.4)


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.9])
def test_the_slope_of_the_map_at_one_does_not_depend_on_the_leak(slope: float) -> None:
    assert kernel_map(nn.LeakyReLU(slope)).slope_at_one == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.01, 1.3])
def test_the_gain_of_a_slope_gives_that_slope_by_plain_integration(slope: float) -> None:
    gain = gain_of_slope("tanh", slope)

    def density(x: float) -> float:
        return math.exp(-x * x / 2)

    steep = quad(lambda x: (1 - math.tanh(gain * x) ** 2) ** 2 * density(x), -12, 12)[0]
    size = quad(lambda x: (math.tanh(gain * x) / gain) ** 2 * density(x), -12, 12)[0]
    assert steep / size == pytest.approx(slope, rel=1e-8)


def test_slopes_that_no_gain_has_are_refused() -> None:
    with pytest.raises(ValueError, match="above 1"):
        gain_of_slope("tanh", 1.0)
    with pytest.raises(ValueError, match="no gain"):
        gain_of_slope("relu", 1.1)
