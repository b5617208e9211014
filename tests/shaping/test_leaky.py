"""The slope of leaky ReLUs that leaves samples apart, and models made leaky."""

import copy
import math
import statistics

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor, nn

from orthoscope.models import MLP
from orthoscope.probe import record
from orthoscope.shaping import gain_of_slope, leaky_slope, shape_leaky_
from orthoscope.theory import kernel_map
from orthoscope.theory.kernel.leaky_slope import overlap_after


@pytest.mark.parametrize(("depth", "overlap", "start"), [(20, 0.9, 0.0), (300, 0.5, 0.2)])
def test_the_general_kernel_map_reaches_the_target_with_that_slope(depth: int, overlap: float, start: float) -> None:
    slope = leaky_slope(depth, overlap, start)
    assert 0 < slope < 1
    found = kernel_map(nn.LeakyReLU(slope)).trajectory(start, depth)[-1].item()
    assert found == pytest.approx(overlap, abs=1e-9)


@pytest.mark.parametrize(("depth", "theirs"), [(20, 0.1813802719116211), (100, 0.5704395323991776)])
def test_it_is_that_of_tailored_activation_transformation(depth: int, theirs: float) -> None:
    """The negative slopes that dks 0.1.2 gives for "TAT" with the target 0.9."""
    assert leaky_slope(depth) == pytest.approx(theirs, abs=1e-6)


def test_where_relu_keeps_samples_apart_it_stays_relu() -> None:
    assert leaky_slope(5) == 0
    assert overlap_after(0.0, 5, 0.0) < 0.9
    with pytest.raises(ValueError, match="overlaps only grow"):
        leaky_slope(10, overlap=0.3, start=0.4)


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.9])
def test_the_slope_of_the_map_at_one_does_not_depend_on_the_leak(slope: float) -> None:
    assert kernel_map(nn.LeakyReLU(slope)).slope_at_one == pytest.approx(1)


def test_measured_networks_have_the_overlap_that_was_asked_for() -> None:
    depth, target = 30, 0.7
    slope = leaky_slope(depth, target)
    collapsed, shaped = [], []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        model = MLP(depth=depth, width=256, out_features=None, activation="relu", init="he", generator=generator)
        inputs = torch.randn(16, 256, generator=generator)
        collapsed.append(record(model, inputs).layers[-1].overlap)
        assert len(shape_leaky_(model, slope).activations) == depth
        shaped.append(record(model, inputs).layers[-1].overlap)
    # The noise of 256 units over 30 layers, in the mean of four networks.
    assert statistics.fmean(shaped) == pytest.approx(target, abs=0.05)
    assert min(collapsed) > target + 0.15


def test_the_size_of_signals_stays_with_the_weights_and_grows_without() -> None:
    generator = torch.Generator().manual_seed(0)
    model = MLP(depth=20, width=200, out_features=None, activation="relu", init="he", generator=generator)
    inputs = torch.randn(16, 200, generator=generator)
    before = record(model, inputs).layers[-1].rms
    left_alone = copy.deepcopy(model)
    assert shape_leaky_(left_alone, 0.6, rescale=False).weights == {}
    assert record(left_alone, inputs).layers[-1].rms > 10 * before
    change = shape_leaky_(model, 0.6)
    assert len(change.weights) == 19, "all but the layer that reads the data"
    assert change.weight_gain == pytest.approx(math.sqrt(2 / 1.36))
    # Undone: both modules and weights.
    shape_leaky_(model, 0.0)
    assert record(model, inputs).layers[-1].rms == pytest.approx(before, rel=1e-4)


def test_a_residual_model_keeps_its_form_and_its_flags() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3))
    model.add_module("block", nn.Sequential(nn.Conv2d(3, 3, 3), nn.LeakyReLU(0.5)).eval())
    before = model[2].weight.detach().clone()
    change = shape_leaky_(model, 0.2)
    assert change.activations == ("1", "block.1")
    assert change.weights == {"2": pytest.approx(1 / math.sqrt(1.04))}
    assert (model[1].inplace, model[1].training, model.block[1].training) == (True, True, False)
    torch.testing.assert_close(model[2].weight, before / math.sqrt(1.04))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs).relu()


def test_a_model_without_modules_to_replace_is_told_so_and_left_alone() -> None:
    model = Functional()
    before = model.linear.weight.detach().clone()
    with pytest.raises(ValueError, match="found no"):
        shape_leaky_(model, 0.3)
    assert torch.equal(model.linear.weight, before)
    with pytest.raises(ValueError, match="between 0"):
        shape_leaky_(nn.Sequential(nn.ReLU()), -0.1)
    frozen = nn.Sequential(nn.ReLU(), torch.nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)))
    with pytest.raises(ValueError, match="rescale=False"):
        shape_leaky_(frozen, 0.3)
    assert isinstance(frozen[0], nn.ReLU)


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
