"""Deviations and gradients through batch norm: against derivatives, sampled units, and sampled networks."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from orthoscope.activations import Nonlinearity, nonlinearity
from orthoscope.theory import Hyperparameters, LinearLaw, gaussian_inputs, propagate
from orthoscope.theory.gram.dynamics import fixed_point_entries, gram_trajectory, pair_law
from orthoscope.theory.gram.gradient_growth import uncentered_multiplier
from orthoscope.theory.network._layer_moments import LARGEST, sphere_difference_noise
from orthoscope.theory.network._sphere_layer import SphereLayer, centered_layer, linear_layer, uncentered_layer


def uncentered(activation: str, samples: int, overlap: float) -> SphereLayer:
    phi = nonlinearity(activation)
    return uncentered_layer(phi, samples, overlap, pair_law(phi, samples, centered=False))


@pytest.mark.parametrize("overlap", [-0.05, 0.0, 0.4])
def test_linear_layers_are_one_integral_or_three(overlap: float) -> None:
    samples = 6
    one, three = linear_layer(samples, overlap), uncentered("identity", samples, overlap)
    # The noise of differences is by quasi-random points.
    assert one.difference_noise == pytest.approx(three.difference_noise, rel=5e-3)
    assert one[:4] == pytest.approx(three[:4], rel=1e-6)
    assert one.gradient is not None
    assert three.gradient is not None
    assert torch.allclose(one.gradient, three.gradient, rtol=1e-6)


@pytest.mark.parametrize("samples", [4, 16])
def test_without_overlap_linear_rates_and_noise_are_those_of_the_sphere(samples: int) -> None:
    layer = linear_layer(samples, 0.0)
    assert (layer.rate, layer.noise, layer.difference_noise) == pytest.approx([samples / (samples + 2)] * 3, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "samples"), [("tanh", 4), ("hardtanh", 8)])
def test_without_overlap_odd_activations_have_the_rate_and_noise_of_two_samples(activation: str, samples: int) -> None:
    phi = nonlinearity(activation)
    law = pair_law(phi, samples, centered=False)
    first, second = phi(law.first), phi(law.second)
    square = law.average(first.square())
    layer = uncentered_layer(phi, samples, 0.0, law)
    assert layer.rate == pytest.approx(law.average(first * second * law.first * law.second) / square, rel=1e-6)
    noise = law.average((first * second).square()) / square**2
    assert layer.noise == pytest.approx(noise, rel=1e-6)
    assert layer.difference_noise == pytest.approx(noise, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0.1, 0.5])
def test_common_slope_is_the_derivative_of_the_overlap(overlap: float) -> None:
    step = 1e-4
    found = []
    for sign in (1, -1):
        gram = gram_trajectory("relu", 5, overlap=overlap + sign * step, depth=1, centered=False)[1]
        found.append(float(gram[0, 1] / gram[0, 0]))
    layer = uncentered("relu", 5, overlap)
    assert layer.common_slope == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-5)
    assert layer.common_slope != pytest.approx(layer.rate, rel=0.1), "it is not the rate of differences"


@pytest.mark.slow
def test_gradients_at_the_fixed_point_grow_by_the_multiplier() -> None:
    phi = nonlinearity("relu")
    diagonal, off = fixed_point_entries(phi, 5, centered=False)
    layer = uncentered("relu", 5, off / diagonal)
    assert layer.gradient is not None
    largest = float(torch.linalg.eigvals(layer.gradient).real.max()) / diagonal
    assert largest == pytest.approx(uncentered_multiplier(phi, 5), rel=1e-6)


@pytest.mark.parametrize(("activation", "samples"), [("relu", 4), ("tanh", 4), ("silu", 16)])
def test_noise_of_differences_is_that_of_sampled_units(
    activation: str, samples: int, generator: torch.Generator
) -> None:
    phi, draws = nonlinearity(activation), 100_000
    h = torch.randn(draws, samples, generator=generator, dtype=torch.float64)
    h = h - h.mean(-1, keepdim=True)
    values = phi(h / h.square().mean(-1, keepdim=True).sqrt())
    products = (values[:, 0] - values[:, 1]) * (values[:, 2] - values[:, 3])
    spread = values.var(-1).mean()
    sampled = products.square() / (2 * spread) ** 2
    error = 4 * float(sampled.std()) / math.sqrt(draws)
    found = sphere_difference_noise(phi, samples, 0.0)
    assert float(sampled.mean()) == pytest.approx(found, abs=error)
    assert abs(float(sampled.mean()) - (samples - 1) / (samples + 1)) > error, "that of a linear layer is rejected"


def test_more_samples_than_points_are_served_are_gaussian() -> None:
    phi = nonlinearity("relu")
    few, many = (sphere_difference_noise(phi, samples, 0.0) for samples in (LARGEST, LARGEST + 1))
    assert few == pytest.approx(many, rel=0.01)
    with pytest.raises(ValueError, match="at least 4 samples"):
        sphere_difference_noise(phi, 3, 0.0)


def test_two_samples_about_their_mean_do_not_deviate() -> None:
    assert centered_layer(nonlinearity("tanh"), 2).noise == pytest.approx(0.0, abs=1e-12)


WIDTH, NETWORKS = 400, 250


class Case(NamedTuple):
    activation: str
    norm: str
    samples: int
    layer: int
    bias: float = 0.0
    gain: float = 1.0


def sampled(case: Case, phi: Nonlinearity, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Squared deviations of cosines of samples and of differences, a mean for every network.

    Given the Gram matrix of a layer, the units of the next are independent Gaussians with that covariance: no weights.
    """
    shape = (NETWORKS, case.samples, WIDTH)
    hidden = torch.randn(shape, generator=generator) + torch.randn(NETWORKS, 1, WIDTH, generator=generator)
    hidden = hidden / math.sqrt(2.0)
    for _ in range(case.layer):
        gram = hidden.double() @ hidden.double().mT / WIDTH + case.bias
        values, vectors = torch.linalg.eigh(gram)
        root = (vectors * values.clamp_min(0.0).sqrt()[:, None]).float()
        hidden = root @ torch.randn(shape, generator=generator)
        if case.norm == "batch":
            hidden = hidden - hidden.mean(1, keepdim=True)
        hidden = phi((hidden / hidden.square().mean(1, keepdim=True).sqrt()).double()).float()
    directions = torch.nn.functional.normalize(hidden.double(), dim=-1)
    cosines = (directions @ directions.mT)[:, *torch.triu_indices(case.samples, case.samples, 1)]
    pairs = hidden.double().diff(dim=1)[:, ::2]
    differences = torch.nn.functional.normalize(pairs, dim=-1)
    others = (differences @ differences.mT)[:, *torch.triu_indices(case.samples // 2, case.samples // 2, 1)]
    return (cosines - cosines.mean()).square().mean(-1), others.square().mean(-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        Case("elu", "batch", 32, 1),
        Case("elu", "batch", 32, 1, bias=0.5),
        Case("tanh", "batch", 4, 6),
        Case("relu", "batch", 16, 4),
        Case("tanh", "batch", 16, 4, gain=3.0),
        Case("hardtanh", "batch-uncentered", 16, 2),
        Case("tanh", "batch-uncentered", 8, 6),
        Case("elu", "batch-uncentered", 8, 3, bias=0.5),
        Case("identity", "batch-uncentered", 16, 3),
    ],
    ids=str,
)
def test_variances_of_angles_from_half_overlapping_samples(case: Case, generator: torch.Generator) -> None:
    """To 4 standard errors, the order 1/width left out, and what theory leaves out, 6 percent at most here."""
    phi = nonlinearity(case.activation, case.gain)
    hyper = Hyperparameters(phi, LinearLaw(WIDTH, 1.0, case.bias), norm=case.norm)
    output = propagate(hyper, gaussian_inputs(case.samples, WIDTH, 0.5), case.layer).layers[-1].output
    for seen, expected in zip(
        sampled(case, phi, generator), (output.overlap_variance, output.difference_variance), strict=True
    ):
        error = 4 * float(seen.std()) / math.sqrt(NETWORKS) + 0.06 * expected
        assert float(seen.mean()) == pytest.approx(expected, abs=error)
        assert abs(float(seen.mean()) - 1.6 * expected) > error, "60 percent more would be seen"
