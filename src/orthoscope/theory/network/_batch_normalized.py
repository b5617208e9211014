"""A layer with batch norm before the activation: the values of a unit on the batch become a point of a sphere."""

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.chain.batch_norm import mean_squared_singular_values
from orthoscope.theory.gram.dynamics import LARGEST_UNCENTERED, eigenvalue_ratio, pair_law, slope_if_linear
from orthoscope.theory.gram.gradient_growth import Map, gradient_growth
from orthoscope.theory.gram.sphere import PairLaw, stretched
from orthoscope.theory.network._layer_moments import LayerMoments, difference_noise, layer_moments
from orthoscope.theory.network._sphere_layer import (
    FEWEST,
    SphereLayer,
    centered_layer,
    linear_layer,
    uncentered_layer,
)
from orthoscope.theory.network.hyperparameters import Hyperparameters, NoTheory, require_signal
from orthoscope.theory.network.layers import Branch, Response, Signal

_DIGITS = 4  # overlaps are rounded to these before rates and noise are computed, so that tables can be shared


class _Normalized(NamedTuple):
    """Overlap after the norm; mean, mean square and half the squared difference after the activation."""

    overlap: float
    mean: float
    square: float
    spread: float


def batch_normalized(network: Hyperparameters, lifted: Response, before: Signal, samples: int) -> Branch:
    r"""Mean, mean square and overlap after $\phi \circ \mathrm{BN}$, exact in wide layers, and deviations around them.

    Centering turns the angles between samples into those between differences: the part that all cosines share is
    removed. With Gaussian weights, rates and noise are of `centered_layer`, `uncentered_layer` and `linear_layer`.
    Neglected: deviations shared by the pairs of one sample, and norms of samples, have rates of their own.

    Orthogonal weights, with as many samples as units $d$, multiply deviations by $\sqrt{d/(d+2)}$ times the effect of
    the activation, to leading order in $1/n$, and add only the noise of the activation.
    """
    if network.order != "norm-activation":
        raise NoTheory("batch norm after the activation has no closed form")
    centered, phi, units = network.norm == "batch", network.activation, network.hidden.units
    found = _centered(phi, samples) if centered else _uncentered(phi, samples, lifted.signal.overlap)
    require_signal(found.square)
    around = _around(network, lifted.signal, samples, found)
    signal = Signal(found.square, 1 - found.spread / found.square, 0.0, 0.0, found.mean)
    rest = 1 - before.overlap
    # Differences have variance ∞, and cosines none, where all samples are one.
    slope = around.overlap_rate / rest if rest > 0 else 0.0
    common_slope = around.common_slope * lifted.slope
    response = Response(signal, slope, around.noise, around.rate, around.difference_noise, common_slope)
    norm = lifted.of(before, units)._replace(mean_square=1.0, overlap=found.overlap)
    if centered:
        norm = norm._replace(overlap_variance=norm.difference_variance)
    multiplier, gradient = _backward(network, lifted.signal, samples, found, around)
    return Branch(response, norm, response.of(before, units), multiplier, gradient)


def _around(network: Hyperparameters, lifted: Signal, samples: int, found: _Normalized) -> SphereLayer:
    """Rates and noise at the overlap of the samples; those of the Gaussian limit where the sphere gives none."""
    phi = network.activation
    if network.norm == "batch":
        exact = centered_layer(phi, samples)
    else:
        # First order in 1/width anyway: overlaps that agree to `_DIGITS` share one table.
        lowest, unit = -1 / (samples - 1), 10.0**-_DIGITS
        overlap = min(max(round(lifted.overlap, _DIGITS), lowest * (1 - unit)), 1 - unit)
        if slope_if_linear(phi) is not None:
            exact = linear_layer(samples, overlap)
        else:
            exact = _uncentered_around(phi, samples, overlap)
    if samples >= FEWEST and not network.rotation:
        return exact
    return _gaussian_around(network, samples, found.overlap, exact)


@lru_cache(maxsize=256)
def _uncentered_around(phi: Nonlinearity, samples: int, overlap: float) -> SphereLayer:
    try:
        return uncentered_layer(phi, samples, overlap, _uniform(phi, samples)[0])
    except ValueError as reason:
        raise NoTheory(f"batch norm without centering: {reason}") from reason


def _gaussian_around(network: Hyperparameters, samples: int, overlap: float, exact: SphereLayer) -> SphereLayer:
    r"""Orthogonal weights, or fewer than four samples: $m/(m+2)$ times the effect without a norm, in $m$ dimensions.

    Two samples about their mean are always opposite: there is no deviation.
    """
    phi, units, rotation = network.activation, network.hidden.units, network.rotation
    directions = samples - 1 if network.norm == "batch" else samples
    damping = math.sqrt(units / (units + 2)) if rotation else directions / (directions + 2)
    overlap = max(0.0, overlap)
    moments, difference = _gaussian_moments(phi, overlap, rotation)
    rate = 0.0 if directions == 1 else damping * moments.slope_product * (1 - overlap) / moments.spread
    return exact._replace(
        noise=damping * moments.noise if rotation and directions > 1 else exact.noise,
        rate=rate,
        overlap_rate=rate * moments.spread / moments.square,
        difference_noise=damping * difference,
    )


@lru_cache(maxsize=32)
def _gaussian_moments(phi: Nonlinearity, overlap: float, rotation: bool) -> tuple[LayerMoments, float]:
    """Moments and noise of differences, once for all layers of one overlap."""
    return layer_moments(phi, 1.0, overlap, rotation=rotation), difference_noise(phi, 1.0, overlap, rotation=rotation)


@lru_cache(maxsize=32)
def _centered(phi: Nonlinearity, samples: int) -> _Normalized:
    law = pair_law(phi, samples, centered=True)
    return _averaged(law, -1 / (samples - 1), phi(law.first), phi(law.second))


def _uncentered(phi: Nonlinearity, samples: int, overlap: float) -> _Normalized:
    overlap = min(overlap, 1 - torch.finfo(torch.float64).eps)
    slope = slope_if_linear(phi)
    if slope is not None:
        # One eigenvalue along the mean, the others across it; their next shares of the energy are exact.
        eigenvalues = torch.full((samples,), 1 - overlap, dtype=torch.float64)
        eigenvalues[0] = 1 + (samples - 1) * overlap
        shares = mean_squared_singular_values(eigenvalues.clamp_min(0.0).sqrt())
        rest = samples * shares[1].item()
        return _Normalized(1 - rest, 0.0, slope**2, slope**2 * rest)
    if samples > LARGEST_UNCENTERED:
        raise NoTheory(
            f"batch norm without centering before a non-linear activation: at most {LARGEST_UNCENTERED} samples"
        )
    uniform, first, second = _uniform(phi, samples)
    try:
        law = stretched(uniform, samples, eigenvalue_ratio(overlap, samples))
    except ValueError as reason:
        raise NoTheory(f"batch norm without centering: {reason}") from reason
    return _averaged(law, law.average(law.first * law.second), first, second)


def _averaged(law: PairLaw, overlap: float, first: Tensor, second: Tensor) -> _Normalized:
    spread = law.average((first - second).square()) / 2
    return _Normalized(overlap, law.average(first), law.average(first.square()), spread)


@lru_cache(maxsize=2)
def _uniform(phi: Nonlinearity, samples: int) -> tuple[PairLaw, Tensor, Tensor]:
    """The law of samples without overlap, a large table, and the activation on it."""
    law = pair_law(phi, samples, centered=False)
    return law, phi(law.first), phi(law.second)


def _backward(
    network: Hyperparameters, lifted: Signal, samples: int, found: _Normalized, around: SphereLayer
) -> tuple[float, Map | None]:
    """Factor of a squared gradient after many layers like this one, and the map it is the largest eigenvalue of."""
    if network.rotation:
        # Bounded for as many samples as units (joudaki2024, Theorem 6.5), as with Gaussian weights for few samples.
        return math.nan, None
    if samples < (FEWEST if network.norm == "batch" else FEWEST - 1):
        # The norm that divides the gradient is close to 0 too often: the mean square is infinite.
        return math.inf, None
    if network.norm == "batch":
        # The growth where the spread is stationary, rescaled to it here: shifts, like biases, are invisible.
        growth = _growth(network.activation, samples)
        return math.exp(2 * growth) * found.spread / lifted.spread if lifted.spread > 0 else math.inf, None
    if around.gradient is None or math.isnan(_growth(network.activation, FEWEST)):
        return math.nan, None
    gradient = around.gradient * (slope_if_linear(network.activation) or 1.0) ** 2 / lifted.mean_square
    return float(torch.linalg.eigvals(gradient).real.max()), gradient


@lru_cache(maxsize=32)
def _growth(phi: Nonlinearity, samples: int) -> float:
    try:
        return gradient_growth(samples, activation=phi)
    except ValueError:  # too few samples, or an activation that jumps: infinite or undefined
        return math.nan
