"""Batch norm before the activation: every unit's values on the batch become a point of a sphere."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.chain.batch_norm import mean_squared_singular_values
from orthoscope.theory.gram.dynamics import LARGEST_UNCENTRED, eigenvalue_ratio, pair_law, slope_if_linear
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.gram.sphere import PairLaw, stretched
from orthoscope.theory.network.difference_noise import difference_noise
from orthoscope.theory.network.hyperparameters import Hyperparameters, NoTheory, require_signal
from orthoscope.theory.network.layer_moments import LayerMoments, layer_moments
from orthoscope.theory.network.signals import Branch, Response, Signal

FEWEST = 4  # samples of which the return of a deviation is known


class _Normalised(NamedTuple):
    """Overlap after the norm; mean, size and half the squared difference after the activation."""

    overlap: float
    mean: float
    square: float
    spread: float


def batch_normalised(network: Hyperparameters, lifted: Response, before: Signal, samples: int) -> Branch:
    r"""Mean, size and overlap after $\phi \circ \mathrm{BN}$, exact in wide layers; what goes on around them is not.

    Deviations of the angles from their mean return at the rate of `gram_response` if centred; otherwise they are
    multiplied by $m/(m+2)$ times what the activation does to them, $m = n$. So is the noise of a finite width, with
    $m = n - 1$ if centred: exact for a linear activation, to leading order in $1/n$ for others. Rotations of as many samples as units $d$ multiply them by
    $\sqrt{d/(d+2)}$, and add no noise but that of the activation. Centring turns the angles between samples
    into those between differences.
    """
    if network.order != "norm-activation":
        raise NoTheory("batch norm after the activation: what it does to a batch has no closed form")
    centred, phi, units = network.norm == "batch", network.activation, network.hidden.units
    found = _centred(phi, samples) if centred else _uncentred(phi, samples, lifted.signal.overlap)
    directions = samples - 1 if centred else samples
    damping = math.sqrt(units / (units + 2)) if network.rotation else directions / (directions + 2)
    require_signal(found.square)
    overlap = max(0.0, found.overlap)
    moments, difference = _around(phi, overlap, network.rotation)
    rate = damping * moments.slope_product * (1 - overlap) / moments.spread
    if centred and not network.rotation and samples >= FEWEST:
        rate = _pair_rate(phi, samples)
    response = Response(
        Signal(found.square, 1 - found.spread / found.square, 0.0, 0.0, found.mean),
        slope=rate * moments.spread / (moments.square * (1 - overlap)),
        noise=damping * moments.noise,
        difference_slope=rate,
        difference_noise=damping * difference,
    )
    norm = lifted.of(before, units)._replace(mean_square=1.0, overlap=found.overlap)
    if centred:
        norm = norm._replace(overlap_variance=norm.difference_variance)
    return Branch(response, norm, response.of(before, units), _slope_square(network, lifted.signal, samples, found))


def require_stable(network: Hyperparameters, samples: int, depth: int) -> None:
    r"""Refuse depths at which samples no longer have one size: a deviation, $\sqrt{2/d}$ at first, has grown to 1."""
    covered = network.norm == "batch" and network.order == "norm-activation" and network.residual_scale is None
    if not covered or samples < FEWEST:
        return
    try:
        rate = gram_response(network.activation, samples).sample_rate
    except ValueError as reason:
        raise NoTheory(f"batch norm of {samples} samples: {reason}") from reason
    if rate > 1 and depth * math.log(rate) + 0.5 * math.log(2 / network.hidden.units) > 0:
        lasting = int(0.5 * math.log(network.hidden.units / 2) / math.log(rate))
        raise NoTheory(
            f"with batch norm of {samples} samples before {network.activation.name}, samples of one size are unstable: "
            f"after about {lasting} layers some outgrow the others, and theory ends"
        )


@lru_cache(maxsize=32)
def _pair_rate(phi: Nonlinearity, samples: int) -> float:
    return gram_response(phi, samples).pair_rate


@lru_cache(maxsize=32)
def _around(phi: Nonlinearity, overlap: float, rotation: bool) -> tuple[LayerMoments, float]:
    """Moments and noise of differences, once for all layers of one overlap."""
    return layer_moments(phi, 1.0, overlap, rotation=rotation), difference_noise(phi, 1.0, overlap, rotation=rotation)


@lru_cache(maxsize=32)
def _centred(phi: Nonlinearity, samples: int) -> _Normalised:
    law = pair_law(phi, samples, centred=True)
    first, second = phi(law.first), phi(law.second)
    return _Normalised(
        overlap=-1 / (samples - 1),
        mean=law.average(first),
        square=law.average(first.square()),
        spread=law.average((first - second).square()) / 2,
    )


def _uncentred(phi: Nonlinearity, samples: int, overlap: float) -> _Normalised:
    overlap = min(overlap, 1 - torch.finfo(torch.float64).eps)
    slope = slope_if_linear(phi)
    if slope is not None:
        # One eigenvalue along the mean, the others across it; their next shares of the energy are exact.
        eigenvalues = torch.full((samples,), 1 - overlap, dtype=torch.float64)
        eigenvalues[0] = 1 + (samples - 1) * overlap
        shares = mean_squared_singular_values(eigenvalues.clamp_min(0.0).sqrt())
        rest = samples * shares[1].item()
        return _Normalised(1 - rest, 0.0, slope**2, slope**2 * rest)
    if samples > LARGEST_UNCENTRED:
        raise NoTheory(
            f"batch norm without centring before a non-linear activation: at most {LARGEST_UNCENTRED} samples"
        )
    uniform, first, second = _uniform(phi, samples)
    try:
        law = stretched(uniform, samples, eigenvalue_ratio(overlap, samples))
    except ValueError as reason:
        raise NoTheory(f"batch norm without centring: {reason}") from reason
    return _Normalised(
        overlap=law.average(law.first * law.second),
        mean=law.average(first),
        square=law.average(first.square()),
        spread=law.average((first - second).square()) / 2,
    )


@lru_cache(maxsize=2)
def _uniform(phi: Nonlinearity, samples: int) -> tuple[PairLaw, Tensor, Tensor]:
    """The law of samples without overlap, a large table, and the activation on it."""
    law = pair_law(phi, samples, centred=False)
    return law, phi(law.first), phi(law.second)


def _slope_square(network: Hyperparameters, lifted: Signal, samples: int, found: _Normalised) -> float:
    """What a squared gradient is multiplied by: the growth where the spread is stationary, rescaled to it here."""
    if network.rotation:
        # Bounded for as many samples as units (joudaki2024, Theorem 6.5), as with Gaussian weights for few samples.
        return math.nan
    growth = _growth(network.activation, samples, network.norm == "batch")
    return math.exp(2 * growth) * found.spread / lifted.spread if lifted.spread > 0 else math.inf


@lru_cache(maxsize=32)
def _growth(phi: Nonlinearity, samples: int, centred: bool) -> float:
    try:
        return gradient_growth(samples, centred=centred, activation=phi)
    except ValueError:  # too few samples, or an activation that jumps: infinite or undefined
        return math.nan
