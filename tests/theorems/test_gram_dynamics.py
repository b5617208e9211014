"""Batch normalization in real and simulated networks: Gram matrices at finite width, and gradients that grow."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.metrics import depth_slope, log_norm
from orthoscope.models import MLP
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.finite_width import finite_width_gram_error, gram_response, one_layer_noise
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope_papers.joudaki2024.errata.gram import total_variation_below


def gram_after(activation: str, batch: int, width: int, depth: int, chains: int, seed: int = 0) -> Tensor:
    """Gram matrices of independent networks, layer by layer: given the last one, units are independent Gaussians."""
    generator = torch.Generator().manual_seed(seed)
    phi = nonlinearity(activation)
    gram = torch.eye(batch, dtype=torch.float64).expand(chains, batch, batch)
    for _ in range(depth):
        eigenvalues, basis = torch.linalg.eigh(gram)
        root = basis * eigenvalues.clamp_min(0).sqrt()[:, None]
        hidden = torch.randn(chains, width, batch, generator=generator, dtype=torch.float64) @ root.mT
        hidden = hidden - hidden.mean(-1, keepdim=True)
        outputs = phi(hidden / hidden.square().mean(-1, keepdim=True).sqrt())
        gram = outputs.mT @ outputs / width
    return gram


@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
def test_real_networks_have_the_gram_matrix_of_the_fixed_point(activation: str) -> None:
    width, batch = 1500, 6
    generator = torch.Generator().manual_seed(0)
    network = MLP(depth=8, width=width, activation=activation, norm="batch", out_features=None, generator=generator)
    with torch.no_grad():
        hidden = network(torch.randn(batch, width, generator=generator)).double()
    distance = float((hidden @ hidden.mT / width - gram_fixed_point(activation, batch)).norm())
    expected = finite_width_gram_error(activation, batch, width, generator=generator).value
    assert distance < 2 * expected
    others = {"relu", "tanh", "identity"} - {activation}
    assert all(
        float((hidden @ hidden.mT / width - gram_fixed_point(other, batch)).norm()) > 4 * expected for other in others
    )


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
@pytest.mark.parametrize("batch", [4, 10])
def test_finite_width_error_is_the_one_of_linear_response(activation: str, batch: int) -> None:
    """The law of (3.9) with its constant: measured over predicted is 1 within 4 standard errors and 3 percent."""
    width, chains = 200, 2400 // batch
    deviation = gram_after(activation, batch, width, 20, chains) - gram_fixed_point(activation, batch)
    predicted = finite_width_gram_error(activation, batch, width, generator=torch.Generator().manual_seed(1)).value ** 2
    ratio = deviation.square().sum((-2, -1)) / predicted
    error = float(ratio.std()) / math.sqrt(chains)
    assert abs(float(ratio.mean()) - 1) < 4 * error + 0.03
    noise_of_one_layer = one_layer_noise(nonlinearity(activation), batch) / width / predicted
    assert float(ratio.mean()) - noise_of_one_layer > 4 * error, "errors of earlier layers must be seen"


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "identity"])
def test_error_falls_as_width_to_the_minus_one_half(activation: str) -> None:
    widths, batch = [50, 100, 200, 400], 10
    fixed_point = gram_fixed_point(activation, batch)
    logs = [
        float((gram_after(activation, batch, width, 20, 60, seed=width) - fixed_point).norm(dim=(-2, -1)).log().mean())
        for width in widths
    ]
    steps = torch.tensor(widths, dtype=torch.float64).log()
    steps = steps - steps.mean()
    slope = float((steps * torch.tensor(logs, dtype=torch.float64)).sum() / steps.square().sum())
    assert -0.55 < slope < -0.45


def test_an_unstable_fixed_point_is_left() -> None:
    """For exp and ten samples depth singles out some samples; for ReLU it does not. Both have the fixed point."""

    def spread_of_lengths(activation: str) -> float:
        diagonal = gram_after(activation, 10, 1000, 40, 4).diagonal(dim1=-2, dim2=-1)
        return float((diagonal.amax(-1) / diagonal.amin(-1)).min())

    assert gram_response("relu", 10).stable
    assert not gram_response("exp", 10).stable
    assert spread_of_lengths("relu") < 2
    assert spread_of_lengths("exp") > 10


def test_total_variation_of_lemma_3_3_does_not_fall_with_width() -> None:
    limit = 0.0978  # of Gaussians of variances 2 and 3, by the event |x| < √(3 log 3/2) in units of the first
    for width in (100, 10_000, 1_000_000):
        printed = 2 * 4 / width * math.log(width / 2)
        assert total_variation_below(width) == pytest.approx(limit, abs=0.3 / math.sqrt(width) + 1e-4)
        assert printed > 0.3 or total_variation_below(width) > 10 * printed


def slopes_of_gradients(activation: str, norm: str, batch: int, seeds: int) -> Tensor:
    """Growth of log‖∇W‖ per layer toward the input in real networks, beyond the layers that are not yet deep."""
    width, depth, found = 400, 24, []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        network = MLP(depth=depth, width=width, activation=activation, norm=norm, generator=generator)
        outputs = network(torch.randn(batch, width, generator=generator))
        (outputs * torch.randn(outputs.shape, generator=generator)).sum().backward()
        gradients = [network.get_parameter(f"layers.{index}.linear.weight").grad for index in range(depth)]
        norms = [log_norm(gradient) for gradient in gradients if gradient is not None]
        found.append(depth_slope(torch.stack(norms)[3:]).value)
    return torch.stack(found)


@pytest.mark.slow
@pytest.mark.parametrize(("norm", "batch"), [("batch", 8), ("batch", 16), ("batch-uncentered", 8)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
def test_gradients_of_real_networks_grow_as_predicted(norm: str, activation: str, batch: int) -> None:
    """Within Student's 99 percent interval of five seeds and 3 percent for a width of 400."""
    seeds = 5
    slopes = slopes_of_gradients(activation, norm, batch, seeds)
    expected = gradient_growth(batch, centered=norm == "batch", activation=activation)
    allowed = 4.6 * float(slopes.std()) / math.sqrt(seeds) + 0.03 * expected
    assert abs(float(slopes.mean()) - expected) < allowed
    assert abs(float(slopes.mean()) - expected / 2) > allowed, "growth must be told from half of it"
