"""Gradient growth against closed forms, the limit of large batches, and automatic differentiation of one layer."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.gradient_growth import centered_multiplier, gradient_growth, uncentered_multiplier

EXACT = 1e-12


def z_score(samples: Tensor, expected: float) -> float:
    return abs(float(samples.mean()) - expected) / (float(samples.std()) / math.sqrt(len(samples)))


@pytest.mark.parametrize("batch", [4, 5, 8, 100])
def test_linear_growth_is_the_closed_form(batch: int) -> None:
    assert gradient_growth(batch) == 0.5 * math.log((batch - 2) / (batch - 3))
    assert gradient_growth(batch, centered=False) == 0.5 * math.log((batch - 1) / (batch - 2))
    assert gradient_growth(batch, activation=lambda inputs: -3 * inputs) == gradient_growth(batch)
    # The general formulas know nothing of the closed forms.
    assert centered_multiplier(nonlinearity("identity"), batch) == pytest.approx((batch - 2) / (batch - 3), abs=EXACT)
    if batch <= 8:
        found = uncentered_multiplier(nonlinearity("identity"), batch)
        assert found == pytest.approx((batch - 1) / (batch - 2), abs=EXACT)


def relu_multiplier(batch: int) -> float:
    """The same trace from orthant probabilities and arc-cosine kernels, which are exact for ReLU."""
    overlap = -1 / (batch - 1)
    both = 0.25 + math.asin(overlap) / (2 * math.pi)
    kernel = (math.sqrt(1 - overlap**2) + (math.pi - math.acos(overlap)) * overlap) / (2 * math.pi)
    trace = (batch - 2) / 2 - 0.5 + (1 + (batch - 1) * (both + kernel)) / batch
    return batch * trace / ((batch - 3) * (batch - 1) * (0.5 - kernel))


@pytest.mark.parametrize("batch", [4, 5, 6, 16, 1000])
def test_relu_growth_is_the_closed_form(batch: int) -> None:
    assert gradient_growth(batch, activation="relu") == pytest.approx(0.5 * math.log(relu_multiplier(batch)), abs=EXACT)


def test_relu_tends_to_the_limit_of_large_batches() -> None:
    r"""$\pi/(\pi-1)$ a layer, the gradient explosion of Yang et al. (2019)."""
    limit = 0.5 * math.log(math.pi / (math.pi - 1))
    excess = [gradient_growth(batch, activation="relu") - limit for batch in (1000, 10_000)]
    assert excess[0] == pytest.approx(10 * excess[1], rel=0.02)
    assert 0 < excess[1] < 1e-4


def backward(activation: str, fixed_point: Tensor, centered: bool, outer: Tensor, seed: int) -> Tensor:
    """Gradients at the input of one layer at the fixed point, by automatic differentiation, for many units."""
    generator, batch = torch.Generator().manual_seed(seed), len(fixed_point)
    eigenvalues, basis = torch.linalg.eigh(fixed_point)
    root = basis * eigenvalues.clamp_min(0).sqrt()
    draw = torch.randn(2, 40_000, batch, generator=generator, dtype=torch.float64)
    hidden = (draw[0] @ root.mT).requires_grad_(True)
    shifted = hidden - hidden.mean(-1, keepdim=True) if centered else hidden
    outputs = nonlinearity(activation).function(shifted / shifted.square().mean(-1, keepdim=True).sqrt())
    (gradient,) = torch.autograd.grad(outputs, hidden, draw[1] @ outer)
    return gradient


@pytest.mark.parametrize("activation", ["relu", "tanh", "hardtanh"])
def test_one_centered_layer_multiplies_the_gradient_as_predicted(activation: str) -> None:
    batch = 9  # fourth moments of 1/‖h‖ exist, so standard errors mean something
    projection = torch.eye(batch, dtype=torch.float64) - 1 / batch
    gradient = backward(activation, gram_fixed_point(activation, batch), True, projection, seed=0)
    growth = gradient.square().sum(-1) / (batch - 1)
    multiplier = math.exp(2 * gradient_growth(batch, activation=activation))
    assert z_score(growth, multiplier) < 4
    assert z_score(growth, (batch - 2) / (batch - 3)) > 10, "the test must be able to reject the linear value"


@pytest.mark.slow
def test_without_centering_a_gradient_covariance_is_an_eigenvector() -> None:
    r"""Iterating $K \mapsto E[\ldots K \ldots]$ by sampling leads to the multiplier, from another start."""
    batch, activation = 9, "relu"
    fixed_point = gram_fixed_point(activation, batch, centered=False)
    covariance = torch.eye(batch, dtype=torch.float64)
    ratios = []
    for step in range(14):
        gradient = backward(activation, fixed_point, False, torch.linalg.cholesky(covariance).mT, seed=step)
        after = gradient.mT @ gradient / len(gradient)
        # Relabeling samples changes nothing: averaging over it takes out noise.
        off = (after.sum() - after.trace()) / (batch * (batch - 1))
        after = torch.full_like(after, float(off)).fill_diagonal_(float(after.trace()) / batch)
        ratios.append(float(after.trace() / covariance.trace()))
        covariance = after / after.trace() * batch
    settled = torch.tensor(ratios[4:], dtype=torch.float64)
    multiplier = math.exp(2 * gradient_growth(batch, centered=False, activation=activation))
    assert z_score(settled, multiplier) < 4
    assert z_score(settled, math.exp(2 * gradient_growth(batch, activation=activation))) > 10


def test_gain_moves_the_growth_from_linear_to_that_of_the_activation() -> None:
    growth = [gradient_growth(8, activation="tanh", gain=gain) for gain in (0.001, 0.3, 1.0, 3.0)]
    assert growth[0] == pytest.approx(gradient_growth(8), abs=1e-6)
    assert growth == sorted(growth)
    assert growth[-1] > 3 * growth[0]


def test_mistakes_get_one_clear_sentence() -> None:
    with pytest.raises(ValueError, match="batch is 3, but the mean squared gradient is infinite below 4 samples"):
        gradient_growth(3)
    with pytest.raises(ValueError, match="below 3 samples with batch normalization without centering"):
        gradient_growth(2, centered=False, activation="relu")
    with pytest.raises(ValueError, match="activation sign jumps at 0: there the gradient is not defined"):
        gradient_growth(8, activation="sign")
    with pytest.raises(ValueError, match="is constant on all outputs of batch normalization"):
        gradient_growth(4, activation=lambda inputs: torch.relu(inputs - 10))
    with pytest.raises(ValueError, match="batch is 33"):
        gradient_growth(33, activation="relu", centered=False)


def sampled_growth(name: str, gain: float, batch: int, generator: torch.Generator) -> tuple[float, float]:
    r"""$\tfrac12\log\chi$ from $\operatorname{tr} Q_yDPDQ_y$ and the contrast of sampled units; its standard error."""
    phi, draws = nonlinearity(name, gain), 300_000
    z = torch.randn(draws, batch, dtype=torch.float64, generator=generator)
    y = z - z.mean(-1, keepdim=True)
    y = y / y.square().mean(-1, keepdim=True).sqrt()
    f, outputs = phi.derivative(y), phi(y)
    # tr Q(D² - ff'/n) with Q = I - 11'/n - yy'/n.
    trace = (1 - 2 / batch) * f.square().sum(-1) + (f.sum(-1) / batch).square()
    trace = trace - (y * f).square().sum(-1) / batch + ((y * f).sum(-1) / batch).square()
    contrast = outputs.var(-1)
    ratio = float(trace.mean() / contrast.mean())
    error = float((trace - ratio * contrast).std() / contrast.mean()) / math.sqrt(draws)
    growth = 0.5 * math.log(batch * ratio / ((batch - 3) * (batch - 1)))
    return growth, error / (2 * ratio)


@pytest.mark.slow
@pytest.mark.parametrize("gain", [0.01, 10.0, 30.0, 100.0])
@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_growth_with_a_steep_activation_is_sampled(name: str, gain: float, generator: torch.Generator) -> None:
    """Fixed panels gave .654 for tanh at gain 10 and -1.78 at 30; they are .922 and 1.445."""
    sampled, error = sampled_growth(name, gain, 10, generator)
    found = gradient_growth(10, activation=name, gain=gain)
    assert abs(found - sampled) < 4 * error + EXACT
    linear = gradient_growth(10)
    assert gain < 1 or abs(linear - sampled) > 20 * error, "the linear growth must be told from it"


@pytest.mark.slow
def test_growth_without_centering_tends_to_that_with_it_also_if_steep() -> None:
    """Both have the limit of yang2019: at a batch of 10 they are within a few 1/n of each other."""
    steep = gradient_growth(8, activation="tanh", gain=10.0, centered=False)
    assert steep == pytest.approx(gradient_growth(8, activation="tanh", gain=10.0), abs=0.1)


def test_what_oscillates_too_fast_for_the_sphere_is_refused() -> None:
    with pytest.raises(ValueError, match="too steep, or oscillates too fast"):
        gradient_growth(10, activation="sin", gain=1000.0)
