"""Linear layers and skip connections: means, second moments and the noise of angles against sampled layers."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.network._layer_moments import difference_noise, layer_moments
from orthoscope.theory.network.hyperparameters import LinearLaw, NoTheory
from orthoscope.theory.network.layers import Response, Signal, linear, skipped

UNITS, DRAWS = 300, 1500


def exchangeable(overlap: float, generator: torch.Generator, samples: int) -> Tensor:
    """Units of standard Gaussian samples with that overlap: (draws, units, samples)."""
    shape = (DRAWS, UNITS, samples)
    own = torch.randn(shape, generator=generator, dtype=torch.float64)
    shared = torch.randn(DRAWS, UNITS, 1, generator=generator, dtype=torch.float64)
    return math.sqrt(overlap) * shared + math.sqrt(1 - overlap) * own


def assert_variance(values: Tensor, expected: float, allowance: float) -> None:
    """The mean of these squares times the units is the prediction, to 4 standard errors and the order left out."""
    scaled = (values - values.mean()).square() * UNITS
    standard_error = float(scaled.std()) / math.sqrt(len(scaled))
    assert abs(float(scaled.mean()) - expected) < 4 * standard_error + allowance * expected
    assert abs(float(scaled.mean()) - 1.4 * expected) > 4 * standard_error + allowance * expected, (
        "40% off would be seen"
    )


@pytest.mark.parametrize(("weight", "bias"), [(1.0, 0.0), (1.7, 0.0), (0.8, 0.5)])
def test_biases_draw_samples_together(weight: float, bias: float, generator: torch.Generator) -> None:
    before = Signal(1.0, 0.3, 0.0, 0.0)
    found = linear(before, LinearLaw(UNITS, weight, bias), rotation=False)
    assert found.signal.mean_square == pytest.approx(weight + bias)
    assert found.signal.mean_square * found.signal.overlap == pytest.approx(weight * 0.3 + bias)
    outputs = math.sqrt(weight) * exchangeable(0.3, generator, 4)
    outputs = outputs + math.sqrt(bias) * torch.randn(DRAWS, UNITS, 1, generator=generator, dtype=torch.float64)
    assert_variance(torch.cosine_similarity(outputs[..., 0], outputs[..., 1], dim=1), found.noise, 4 / UNITS)
    differences = outputs[..., 0] - outputs[..., 1], outputs[..., 2] - outputs[..., 3]
    assert_variance(torch.cosine_similarity(*differences, dim=1), found.difference_noise, 4 / UNITS)


def test_deviations_are_multiplied_by_the_share_of_the_weights() -> None:
    """A bias is common to all, so it hides part of what angles were before."""
    law = LinearLaw(100, 2.0, 1.0)
    high, low = (linear(Signal(1.0, 0.3 + step, 0.0, 0.0), law, False).signal.overlap for step in (1e-6, -1e-6))
    found = linear(Signal(1.0, 0.3, 0.01, 0.02), law, False)
    assert found.slope == pytest.approx((high - low) / 2e-6, rel=1e-8)
    after = found.of(Signal(1.0, 0.3, 0.01, 0.02), 100)
    left = (1 - 0.01 / (1 - 0.3**2)) ** 2
    assert after.overlap_variance == pytest.approx(found.slope**2 * 0.01 + found.noise / 100 * left)
    assert after.difference_variance == pytest.approx(0.02 + 1 / 100)


def test_rotations_add_no_noise_but_that_of_their_bias(generator: torch.Generator) -> None:
    before = Signal(1.0, 0.3, 0.01, 0.02)
    found = linear(before, LinearLaw(100, 2.0), rotation=True)
    assert (found.noise, found.difference_noise) == (0.0, 0.0)
    biased = linear(before, LinearLaw(UNITS, 0.8, 0.5), rotation=True)
    columns = torch.linalg.qr(torch.randn(DRAWS, UNITS, 2, generator=generator, dtype=torch.float64)).Q
    overlaps = torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=torch.float64)
    outputs = math.sqrt(0.8 * UNITS) * columns @ torch.linalg.cholesky(overlaps).mT
    outputs = outputs + math.sqrt(0.5) * torch.randn(DRAWS, UNITS, 1, generator=generator, dtype=torch.float64)
    assert_variance(torch.cosine_similarity(outputs[..., 0], outputs[..., 1], dim=1), biased.noise, 4 / UNITS)
    assert biased.difference_noise == 0.0


@pytest.mark.parametrize(
    ("weight", "size", "reason"), [(0.0, 1.0, "signals vanish"), (1e10, 1e300, "signals overflow")]
)
def test_a_linear_layer_that_leaves_the_floats_says_so(weight: float, size: float, reason: str) -> None:
    with pytest.raises(NoTheory, match=reason):
        linear(Signal(size, 0.0, 0.0, 0.0), LinearLaw(100, weight), rotation=False)


def relu_branch(overlap: float) -> Response:
    r"""What $\phi(Wh)$ makes of samples of that overlap, with He weights."""
    phi = nonlinearity("relu")
    moments = layer_moments(phi, 2.0, overlap)
    signal = Signal(moments.square, moments.overlap, 0.0, 0.0, moments.mean)
    difference_slope = moments.slope_product * 2.0 * (1 - overlap) / moments.spread
    slope = 2.0 * moments.slope_product / moments.square
    return Response(signal, slope, moments.noise, difference_slope, difference_noise(phi, 2.0, overlap))


@pytest.mark.parametrize(("overlap", "scale"), [(0.0, 1.0), (0.4, 0.5), (0.4, -1.5), (0.8, 0.3)])
def test_skip_connections_add_up_spreads_and_noise(overlap: float, scale: float, generator: torch.Generator) -> None:
    """Gaussian samples, and a branch whose units are independent of theirs, as those of random weights are."""
    found = skipped(Signal(1.0, overlap, 0.0, 0.0), relu_branch(overlap), scale)
    hidden = exchangeable(overlap, generator, 4)
    outputs = hidden + scale * torch.relu(math.sqrt(2.0) * exchangeable(overlap, generator, 4))
    squares = outputs.square().mean((1, 2))
    assert float(squares.mean()) == pytest.approx(
        found.signal.mean_square, abs=4 * float(squares.std()) / math.sqrt(DRAWS)
    )
    means = outputs.mean((1, 2))
    assert float(means.mean()) == pytest.approx(found.signal.mean, abs=4 * float(means.std()) / math.sqrt(DRAWS))
    cosine = torch.cosine_similarity(outputs[..., 0], outputs[..., 1], dim=1)
    error = 4 * float(cosine.std()) / math.sqrt(DRAWS) + 1 / UNITS
    assert float(cosine.mean()) == pytest.approx(found.signal.overlap, abs=error)
    # The samples are drawn anew, so their own angles are noise too: (1 - ρ²)² through the skip connection alone.
    share = 1.0 / found.signal.mean_square
    assert_variance(cosine, found.noise + share**2 * own_noise(overlap, found.signal.overlap), 0.05)
    difference = torch.cosine_similarity(outputs[..., 0] - outputs[..., 1], outputs[..., 2] - outputs[..., 3], dim=1)
    kept = (1 - overlap) / (found.signal.mean_square * (1 - found.signal.overlap))
    assert_variance(difference, found.difference_noise + kept**2, 0.05)


def own_noise(overlap: float, after: float) -> float:
    r"""$\operatorname{Var}(XY - \tfrac{r}{2}(X^2 + Y^2))$ of Gaussians of that overlap, $r$ the cosine afterwards."""
    return (1 + overlap**2) - 4 * after * overlap + after**2 * (1 + overlap**2)


def test_slope_through_a_skip_connection_is_the_derivative_of_the_overlap() -> None:
    step = 1e-5
    high, low = (
        skipped(Signal(1.3, 0.5 + sign * step, 0.0, 0.0), relu_branch(0.5 + sign * step), 0.7).signal.overlap
        for sign in (1, -1)
    )
    found = skipped(Signal(1.3, 0.5, 0.0, 0.0), relu_branch(0.5), 0.7)
    assert found.slope == pytest.approx((high - low) / (2 * step), rel=1e-6)


def test_samples_that_are_one_stay_one_through_a_skip_connection() -> None:
    collapsed = Response(Signal(0.5, 1.0, 0.0, 0.0), 1.0, 0.0, 1.0, math.inf)
    before = Signal(1.0, 1.0, 0.0, math.inf)
    after = skipped(before, collapsed, 0.5).of(before, 100)
    assert after.overlap == 1.0
    assert after.difference_variance == math.inf


def test_a_branch_that_makes_samples_one_leaves_the_differences_of_the_skip() -> None:
    collapsed = Response(Signal(0.5, 1.0, 0.0, 0.0), 0.0, 0.0, 1.0, math.inf)
    before = Signal(1.0, 0.4, 0.01, 0.03)
    after = skipped(before, collapsed, 0.5).of(before, 100)
    assert after.difference_variance == pytest.approx(0.03)


def test_a_norm_divides_sizes_and_means_but_no_angles() -> None:
    response = Response(Signal(4.0, 0.3, 0.0, 0.0, 1.0), 0.9, 0.8, 0.7, 0.6)
    assert response.scaled(4.0) == response._replace(signal=Signal(1.0, 0.3, 0.0, 0.0, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "layers", "error"), [(0.0, 10, 0.06), (0.0, 50, 0.08), (0.5, 50, 0.15)])
def test_cosines_stop_spreading_where_they_must(
    overlap: float, layers: int, error: float, generator: torch.Generator
) -> None:
    """Fifty linear layers of 100 units: half as much again by linear response, 6 to 11 percent off as it is."""
    units, networks = 100, 400
    hidden = exchangeable(overlap, generator, 4)[:networks, :units].mT
    shape = hidden.shape
    signal = Signal(1.0, overlap, (1 - overlap**2) ** 2 / units, 1 / units)
    for _ in range(layers):
        # Given the Gram matrix of the samples, units are independent Gaussians of that covariance: no weights.
        root = torch.linalg.cholesky(hidden @ hidden.mT / units)
        hidden = root @ torch.randn(shape, generator=generator, dtype=torch.float64)
        signal = linear(signal, LinearLaw(units), rotation=False).of(signal, units)
    directions = torch.nn.functional.normalize(hidden, dim=-1)
    cosines = (directions @ directions.mT)[:, *torch.triu_indices(4, 4, 1)]
    squares = (cosines - cosines.mean()).square().mean(-1)
    allowed = 4 * float(squares.std()) / math.sqrt(networks) + error * signal.overlap_variance
    assert float(squares.mean()) == pytest.approx(signal.overlap_variance, abs=allowed)
    linear_response = (layers + 1) / units * (1 - overlap**2) ** 2
    if layers == 50:
        assert abs(float(squares.mean()) - linear_response) > 1.5 * error * signal.overlap_variance


def test_variances_never_leave_what_is_possible() -> None:
    signal = Signal(1.0, 0.6, 0.0, 0.0)
    seen = []
    for _ in range(3000):
        signal = linear(signal, LinearLaw(30), rotation=False).of(signal, 30)
        seen.append(signal.overlap_variance)
    assert seen == sorted(seen)
    assert 0.9 * (1 - 0.6**2) < seen[-1] <= 1 - 0.6**2
    # The spread of eigenvalues knows no bound: 3000 layers of 30 units leave one direction in a hundred e-folds.
    assert signal.difference_variance == pytest.approx(100.0)


def test_deviations_in_common_have_their_own_slope() -> None:
    r"""Of a variance of 0.03, differences of variance 0.04 at overlap 0.5 see 0.01."""
    response = Response(Signal(1.0, 0.2, 0.0, 0.0), 0.5, 0.0, 1.0, 0.0, common_slope=0.1)
    after = response.of(Signal(1.0, 0.5, 0.03, 0.04), 100)
    assert after.overlap_variance == pytest.approx(0.25 * 0.01 + 0.01 * 0.02)
    less = response.of(Signal(1.0, 0.5, 0.005, 0.04), 100)
    assert less.overlap_variance == pytest.approx(0.25 * 0.01), "never a negative rest"
