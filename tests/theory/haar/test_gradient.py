"""Gradients through batch norm with Haar weights: Jacobians by automatic differentiation, chains by sampling."""

from math import log

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.metrics import isometry_gap
from orthoscope.theory.haar.batch_norm import (
    batch_norm_jacobian_bound,
    batch_norm_log_jacobian_bound,
    drift_gradient_log_norm_bound,
    gradient_log_norm_bound,
    hitting_time_bound,
    near_isometry,
    second_phase_bound,
    smallest_eigenvalue_bound,
    spectral_isometry_gap,
)
from references.haar_cases import batch_norm, layer, normalized_inputs, random_inputs, random_spectra, spectrum_of

ROUNDING = 1e-9


def jacobian_norms(hidden: Float[Tensor, "cases width width"]) -> Float[Tensor, "cases"]:
    """Operator norm of the derivative of batch norm, all entries by all entries."""
    jacobians = torch.func.vmap(torch.func.jacrev(batch_norm))(hidden)
    return torch.linalg.matrix_norm(jacobians.flatten(1, 2).flatten(2, 3), ord=2)


def scaled_to_width(hidden: Float[Tensor, "cases width width"]) -> Float[Tensor, "cases width width"]:
    return hidden * (hidden.shape[-1] / hidden.square().sum((-2, -1), keepdim=True)).sqrt()


@pytest.mark.parametrize("width", [2, 3, 4])
def test_jacobian_of_batch_norm_is_below_lemma_c_16(width: int, generator: torch.Generator) -> None:
    hidden = random_inputs(width, 1000, generator)
    norms, bound = jacobian_norms(hidden), batch_norm_jacobian_bound(spectrum_of(hidden))
    assert (norms <= bound * (1 + ROUNDING)).all()
    assert float((norms / bound).max()) > 0.999
    diagonal = torch.diag_embed(torch.rand(100, width, generator=generator, dtype=torch.float64) + 0.1)
    equal = jacobian_norms(diagonal) / batch_norm_jacobian_bound(spectrum_of(diagonal))
    assert float((equal - 1).abs().max()) < ROUNDING, "equality for orthogonal units"


@pytest.mark.parametrize("width", [2, 3, 5, 10])
def test_smallest_eigenvalue_is_above_lemma_c_17(width: int, generator: torch.Generator) -> None:
    spectra = random_spectra(width, 2000, generator)
    gaps = spectral_isometry_gap(spectra)
    ratio = spectra.amin(-1).log() / smallest_eigenvalue_bound(width, gaps).log()
    near = gaps <= near_isometry(width)
    assert float(ratio[(gaps > 1e-8)].max()) <= 1
    assert near.sum() > 500
    assert (~near).sum() > 400
    # One small eigenvalue: -log λ reaches dψ + log(d/(d-1))(d-1), and near isometry sqrt(1-1/d)/sqrt 2 of the root.
    assert float(ratio[~near].max()) > 0.95
    assert float(ratio[near & (gaps > 1e-8)].max()) > 0.95 * ((1 - 1 / width) / 2) ** 0.5


@pytest.mark.parametrize("width", [2, 3, 4])
def test_log_jacobian_is_below_half_of_lemma_c_13_if_the_trace_is_the_width(
    width: int, generator: torch.Generator
) -> None:
    left, right = haar(width, width, 2, 600, generator=generator, dtype=torch.float64)
    diagonal = random_spectra(width, 600, generator).sqrt().unsqueeze(-1) * right
    hidden = torch.cat([scaled_to_width(random_inputs(width, 600, generator)), left @ diagonal, diagonal])
    gaps = isometry_gap(hidden.mT)
    ratio = jacobian_norms(hidden).log() / batch_norm_log_jacobian_bound(width, gaps)
    ratio = ratio[gaps > 1e-8]
    assert float(ratio.max()) <= 0.5
    assert float(ratio.max()) > 0.45, "and not below much less than half"
    shrunk = jacobian_norms(hidden / 100).log()
    assert (shrunk > batch_norm_log_jacobian_bound(width, gaps)).any(), "without the trace it is false"


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 4])
def test_the_first_phase_is_shorter_than_lemma_c_14(width: int, generator: torch.Generator) -> None:
    chains, limit = 8, near_isometry(width)
    start = normalized_inputs(width, 6000, generator)
    start = start[isometry_gap(start.mT) > limit][:1000]
    initial = isometry_gap(start.mT)
    assert len(start) == 1000
    hidden, layers = start.expand(chains, -1, -1, -1), torch.zeros(chains, 1000, dtype=torch.float64)
    far = torch.ones(chains, 1000, dtype=torch.bool)
    while bool(far.any()):
        layers += far
        hidden = layer(hidden, generator)
        far = isometry_gap(hidden.mT) > limit
    mean, error = layers.mean(0), layers.std(0) / chains**0.5
    bound = hitting_time_bound(width, initial)
    assert (mean <= bound + 4 * error).all()
    assert float((mean / bound).max()) > 0.5 / width**2, "just above the threshold S is at least 1, and the bound 2d²"
    assert float(hitting_time_bound(width, torch.tensor(limit))) == 0


@pytest.mark.slow
def test_the_second_phase_sums_to_less_than_lemma_c_15(generator: torch.Generator) -> None:
    width, chains, closest = 3, 32, 0.0
    start = normalized_inputs(width, 1000, generator)
    initial = isometry_gap(start.mT)
    hidden, total = start.expand(chains, -1, -1, -1), torch.zeros(chains, len(start), dtype=torch.float64)
    started = (initial <= near_isometry(width)).expand(chains, -1)
    for depth in range(1, 13):
        hidden = layer(hidden, generator)
        gaps = isometry_gap(hidden.mT)
        total = total + torch.where(started, (width * gaps).sqrt(), 0.0)  # from the layer after S on
        started = started | (gaps <= near_isometry(width))
        mean, error = total.mean(0), total.std(0) / chains**0.5
        bound = second_phase_bound(width, initial, depth)
        assert (mean <= bound + 4 * error + ROUNDING).all()
        closest = max(closest, float((mean / bound).max()))
    assert closest > 0.7, "after one layer the bound is sqrt(d psi_0), and the truth sqrt(d/(d+2)) of it"


def gradient_log_norms(
    start: Float[Tensor, "cases width width"], depth: int, generator: torch.Generator
) -> Float[Tensor, "cases depth"]:
    """Log-norms of the gradients of every layer's weights, of a random linear loss with Lipschitz constant 1."""
    cases, width, _ = start.shape
    weights = haar(width, width, depth, cases, generator=generator, dtype=torch.float64).requires_grad_()
    hidden = start
    for weight in weights:
        hidden = batch_norm(weight @ hidden)
    direction = torch.randn(cases, width, width, generator=generator, dtype=torch.float64)
    direction = direction / direction.norm(dim=(-2, -1), keepdim=True)
    (gradient,) = torch.autograd.grad((direction * hidden).sum(), weights)
    return gradient.norm(dim=(-2, -1)).log().T


@pytest.mark.parametrize("width", [2, 4, 8])
def test_gradients_of_every_layer_are_below_theorem_6_5(width: int, generator: torch.Generator) -> None:
    start = normalized_inputs(width, 1000, generator)
    initial = isometry_gap(start.mT)
    largest = gradient_log_norms(start, 30, generator).amax(-1)
    drift, printed = drift_gradient_log_norm_bound(width, initial), gradient_log_norm_bound(width, initial)
    # The bounds are on means over weights; they are so wide that not one sample exceeds them.
    assert (largest <= drift).all()
    assert (drift <= printed).all()
    isometric = initial < 1e-6
    slack = (drift - largest)[isometric]
    assert isometric.sum() > 50
    assert float(slack.min()) < log(width) / 2 + 0.5, "at isometry it is within the half log d of |X| <= sqrt d"


def test_bounds_have_the_powers_of_width_that_are_claimed() -> None:
    gap = torch.tensor(1.0, dtype=torch.float64)
    for bound, power in ((gradient_log_norm_bound, 5), (drift_gradient_log_norm_bound, 4)):
        growth = bound(2000, gap) / bound(1000, gap)
        assert float(growth.log2()) == pytest.approx(power, abs=0.01)
    isometric = torch.tensor(0.0, dtype=torch.float64)
    assert float(gradient_log_norm_bound(7, isometric, 3.0)) == pytest.approx(log(3 * 7))
    assert float(drift_gradient_log_norm_bound(7, isometric, 3.0)) == pytest.approx(log(3 * 7**0.5))
    assert float(second_phase_bound(3, gap, torch.inf)) == pytest.approx(32 * 3**4.5)


def test_bad_input_is_refused() -> None:
    gap = torch.tensor(0.1)
    with pytest.raises(ValueError, match="all positive"):
        batch_norm_jacobian_bound(torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"gap is 0 or more, got -0\.1"):
        batch_norm_log_jacobian_bound(3, -gap)
    with pytest.raises(ValueError, match="depth is 0 or more layers, got -1"):
        second_phase_bound(3, gap, -1)
    with pytest.raises(ValueError, match="Lipschitz constant is positive, got 0"):
        gradient_log_norm_bound(3, gap, 0.0)
    with pytest.raises(ValueError, match="width is 2 or more here, got 1"):
        drift_gradient_log_norm_bound(1, gap)
