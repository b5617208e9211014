"""Layers with batch norm: exact overlaps, the floor of the gap, and the growth of gradients."""

import math
from itertools import pairwise

import pytest
import torch

from orthoscope.activations import nonlinearity
from orthoscope.theory import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    NoTheory,
    gap_of_overlaps,
    gaussian_inputs,
    propagate,
)
from orthoscope.theory.chain.batch_norm import stationary_gap_squared
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.gradient_growth import gradient_growth

ROUNDING = 1e-10


def network(activation: str, norm: str, width: int = 256, **rest: object) -> Hyperparameters:
    return Hyperparameters(nonlinearity(activation), LinearLaw(width), last=LinearLaw(10), norm=norm, **rest)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("samples", [2, 5, 12])
def test_linear_samples_end_centered_or_orthogonal(samples: int) -> None:
    """Centering leaves -1/(n-1) at once; without it the overlap is forgotten layer by layer."""
    inputs = gaussian_inputs(samples, 256, overlap=0.5)
    centered = propagate(network("identity", "batch"), inputs, 3)
    for layer in centered.layers:
        assert layer.output.overlap == pytest.approx(-1 / (samples - 1), abs=ROUNDING)
        assert layer.output.mean_square == pytest.approx(1.0, rel=ROUNDING)
    free = propagate(network("identity", "batch-uncentered"), inputs, 10 * samples)
    assert free.layers[0].output.overlap > 0.1
    assert free.layers[-1].output.overlap == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("activation", "samples"), [("relu", 8), ("tanh", 16), ("gelu", 64)])
def test_centered_layers_reach_the_gram_fixed_point_at_once(activation: str, samples: int) -> None:
    fixed = gram_fixed_point(activation, samples)
    for layer in propagate(network(activation, "batch"), gaussian_inputs(samples, 256, overlap=0.7), 3).layers:
        assert layer.output.mean_square == pytest.approx(float(fixed[0, 0]), rel=ROUNDING)
        assert layer.output.overlap == pytest.approx(float(fixed[0, 1] / fixed[0, 0]), rel=1e-8)
        assert layer.norm is not None
        assert layer.norm.overlap == pytest.approx(-1 / (samples - 1))


@pytest.mark.slow
def test_uncentered_layers_lead_to_the_gram_fixed_point() -> None:
    fixed = gram_fixed_point("relu", 4, centered=False)
    found = propagate(network("relu", "batch-uncentered"), gaussian_inputs(4, 256, overlap=0.1), 15)
    assert found.layers[-1].output.overlap == pytest.approx(float(fixed[0, 1] / fixed[0, 0]), abs=1e-4)
    assert abs(found.layers[0].output.overlap - float(fixed[0, 1] / fixed[0, 0])) > 0.05


@pytest.mark.parametrize("samples", [4, 16])
@pytest.mark.parametrize("width", [128, 4096])
def test_floor_of_the_linear_gap_is_the_angles_share_of_the_exact_one(samples: int, width: int) -> None:
    r"""`stationary_gap_squared` counts lengths of samples too. Of the noise of a Gram matrix, the angles are

    $n(n-1)\,\mathbb{E}a_1^2a_2^2$ of $1 - 1/n$, that is $n/(n+2)$: 6 percent of the gap less at 16 samples, 18 at 4.
    """
    inputs = gaussian_inputs(samples, width)
    output = propagate(network("identity", "batch-uncentered", width), inputs, 6 * samples + 10).layers[-1].output
    floor = gap_of_overlaps(samples, output.overlap, output.overlap_variance) ** 2
    exact = stationary_gap_squared(samples, width)
    # As deviations grow, noise falls short by twice their variance.
    assert floor == pytest.approx(exact * samples / (samples + 2), rel=2 * floor + 1e-6)
    assert floor < exact


@pytest.mark.slow
def test_floor_is_the_one_of_a_sampled_chain(generator: torch.Generator) -> None:
    """The variance of a cosine deep in the linear chain, 200 networks at once."""
    samples, width, networks = 8, 256, 200
    hidden = torch.randn(networks, samples, width, generator=generator)
    for _ in range(12):
        weights = torch.randn(networks, width, width, generator=generator)
        hidden = hidden @ weights
        hidden = hidden / hidden.square().mean(1, keepdim=True).sqrt()
    directions = torch.nn.functional.normalize(hidden.double(), dim=-1)
    squares = (directions @ directions.mT)[:, *torch.triu_indices(samples, samples, 1)].square().mean(-1)
    found = propagate(network("identity", "batch-uncentered", width), gaussian_inputs(samples, width), 12)
    expected = found.layers[-1].output.overlap_variance
    error = 4 * float(squares.std()) / math.sqrt(networks) + samples / width * expected
    assert float(squares.mean()) == pytest.approx(expected, abs=error)
    assert abs(float(squares.mean()) - 1.3 * expected) > error, "30% more would be seen"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "samples", "norm"),
    [
        ("relu", 16, "batch"),
        ("tanh", 64, "batch"),
        ("identity", 8, "batch"),
        ("identity", 16, "batch-uncentered"),
        ("relu", 4, "batch-uncentered"),
    ],
)
def test_gradients_grow_as_the_theory_of_the_fixed_point_says(activation: str, samples: int, norm: str) -> None:
    depth = 24
    gradients = propagate(network(activation, norm), gaussian_inputs(samples, 256), depth).log_gradients()
    growth = gradient_growth(samples, centered=norm == "batch", activation=activation)
    steps = [before - after for before, after in pairwise(gradients[12:18])]  # far from both ends
    assert steps == pytest.approx([growth] * len(steps), rel=1e-3)
    assert growth > 0.001


def test_size_of_the_weights_is_forgotten_but_divides_gradients() -> None:
    inputs = gaussian_inputs(16, 256)
    plain, scaled = (
        propagate(Hyperparameters(nonlinearity("relu"), LinearLaw(256, variance), norm="batch"), inputs, 4)
        for variance in (1.0, 9.0)
    )
    assert plain.layers[-1].output.overlap == scaled.layers[-1].output.overlap
    shift = [a - b for a, b in zip(plain.log_gradients(), scaled.log_gradients(), strict=True)]
    assert shift == pytest.approx([math.log(3.0)] * 4)


def test_gradients_that_are_unknown_are_not_numbers_and_infinite_ones_are_infinite() -> None:
    for hyper in (network("tanh", "batch", rotation=True), network("sign", "batch")):
        unknown = propagate(hyper, gaussian_inputs(16, 256), 3).log_gradients()
        assert all(math.isnan(value) for value in unknown[:-1])
    for norm, samples in (("batch", 3), ("batch", 2), ("batch-uncentered", 2)):
        infinite = propagate(network("identity", norm), gaussian_inputs(samples, 256), 3).log_gradients()
        assert all(value == math.inf for value in infinite[:-1])


def test_rotations_are_quieter() -> None:
    gaussian, rotated = (
        propagate(network("tanh", "batch", rotation=rotation), Inputs(64), 10).layers[-1].output
        for rotation in (False, True)
    )
    assert rotated.overlap == gaussian.overlap
    assert rotated.overlap_variance < 0.2 * gaussian.overlap_variance


@pytest.mark.parametrize(("samples", "overlap"), [(2, -1.0), (3, -0.5)])
def test_cosines_that_cannot_vary_do_not(samples: int, overlap: float) -> None:
    """Two samples about their mean are opposite; three of one size are at 120 degrees, give or take their noise."""
    output = propagate(network("tanh", "batch"), gaussian_inputs(samples, 256), 3).layers[-1].output
    assert output.overlap == pytest.approx(overlap, abs=0.05)
    assert 0 <= output.overlap_variance <= max(0.0, 1 - output.overlap**2)
    if samples == 2:
        assert output.overlap_variance == pytest.approx(0.0, abs=ROUNDING)


def test_what_gradients_share_is_forgotten_with_the_head() -> None:
    """The largest eigenvalue of a layer is the growth only once gradients have gone through alike layers."""
    found = propagate(network("identity", "batch-uncentered"), gaussian_inputs(8, 256), 20)
    steps = [before - after for before, after in pairwise(found.log_gradients()[:-1])]
    growth = gradient_growth(8, centered=False)
    assert steps[0] == pytest.approx(growth, rel=1e-4)
    assert found.layers[-1].to_input / 2 == pytest.approx(growth, rel=1e-4)


@pytest.mark.parametrize(
    ("hyper", "inputs", "reason"),
    [
        (network("relu", "batch", order="activation-norm"), Inputs(16), "batch norm after the activation"),
        (network("relu", "batch-uncentered"), Inputs(33), "at most 32 samples"),
        (network("tanh", "batch-uncentered"), Inputs(4, overlap=1.0), "samples are too alike"),
        (network("exp", "batch"), Inputs(16), "samples of one size are unstable"),
    ],
)
def test_what_has_no_theory_says_why(hyper: Hyperparameters, inputs: Inputs, reason: str) -> None:
    with pytest.raises(NoTheory, match=reason):
        propagate(hyper, inputs, 40)


@pytest.mark.parametrize(("samples", "reason"), [(3, "signals vanish at layer 1"), (4, "all samples become equal")])
def test_an_activation_that_batch_norm_never_reaches_leaves_nothing(samples: int, reason: str) -> None:
    """Of n samples, no normalized entry is above √(n-1)."""

    def far(inputs: torch.Tensor) -> torch.Tensor:
        return torch.relu(inputs - 1.8)

    hyper = Hyperparameters(nonlinearity(far), LinearLaw(64), norm="batch")
    with pytest.raises(NoTheory, match=reason):
        propagate(hyper, Inputs(samples), 2)
