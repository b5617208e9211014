"""One layer of a wide random network: linear, norm and activation in their order, forward and backward."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.network._batch_normalized import batch_normalized
from orthoscope.theory.network._finite_width_noise import difference_noise
from orthoscope.theory.network._layer_moments import LayerMoments, layer_moments
from orthoscope.theory.network.hyperparameters import Hyperparameters
from orthoscope.theory.network.signals import Branch, Response, Signal, linear, skipped

# Closer than this to one direction, the difference of two samples is rounding: they are one.
_ONE_DIRECTION = 1e-13


class LayerSignals(NamedTuple):
    """Signals after the parts of a layer, and the log-factors of a squared gradient that passes it backward."""

    linear: Signal
    norm: Signal | None
    activation: Signal
    output: Signal  # after the skip connection, if there is one
    to_linear: float  # from the output of the layer to the output of its linear part
    # From the output of the layer to its input; of the first layer only if it has as many inputs as units.
    to_input: float
    # Where the layer mixes samples, its effect on the two mean squares of `SphereLayer.gradient` on both paths.
    mixing: tuple[Tensor, Tensor] | None = None


def layer(network: Hyperparameters, before: Signal, *, index: int, samples: int) -> LayerSignals:
    """Propagate the signal forward through one layer, and the gradient backward."""
    law, skip, rotates = network.linear(index), network.skip(index), network.rotates(index)
    lifted = linear(before, law, rotates)
    branch = _branch(network, lifted, before, samples, rotates)
    response, through = branch.response, log(law.weight_variance)
    if skip is None:
        to_linear = log(branch.slope_square)
        to_input = to_linear + through
    else:
        response = skipped(before, response, skip)
        to_linear = log(skip**2 * branch.slope_square)
        to_input = log_sum(0.0, to_linear + through)
    mixing = None
    if branch.gradient is not None:
        back = branch.gradient if skip is None else skip**2 * branch.gradient
        mixing = back, law.weight_variance * back + (0.0 if skip is None else torch.eye(2, dtype=torch.float64))
    return LayerSignals(
        linear=lifted.of(before, law.units),
        norm=branch.norm,
        activation=branch.activation,
        output=response.of(before, law.units),
        to_linear=to_linear,
        to_input=to_input,
        mixing=mixing,
    )


def _branch(network: Hyperparameters, lifted: Response, before: Signal, samples: int, rotates: bool) -> Branch:
    """Norm and activation in their order; in wide layers a norm over units divides by a number."""
    if network.norm.startswith("batch"):
        return batch_normalized(network, lifted, before, samples)
    width, square = network.hidden.units, lifted.signal.mean_square + network.epsilon
    pre_norm = network.norm != "none" and network.order == "norm-activation"
    if pre_norm:
        lifted = lifted.scaled(square)
    response, moments = _activated(network.activation, lifted, centered=False, rotation=rotates)
    activation = response.of(before, width)
    if pre_norm:
        return Branch(response, lifted.of(before, width), activation, moments.slope_square / square)
    if network.norm == "none":
        return Branch(response, None, activation, moments.slope_square)
    if network.norm == "layer":
        response, moments = _activated(network.activation, lifted, centered=True, rotation=rotates)
    square = moments.square + network.epsilon
    response = response.scaled(square)
    return Branch(response, response.of(before, width), activation, moments.slope_square / square)


def _activated(
    activation: Nonlinearity, lifted: Response, *, centered: bool, rotation: bool
) -> tuple[Response, LayerMoments]:
    """The response from the input of the linear layer to the activation, and the moments behind it."""
    variance, overlap = lifted.signal.mean_square, min(1.0, lifted.signal.overlap)
    bias_share = 1 - lifted.slope
    moments = layer_moments(activation, variance, overlap, centered=centered, rotation=rotation, bias_share=bias_share)
    signal = Signal(moments.square, moments.overlap, 0.0, 0.0, moments.mean)
    slope = lifted.slope * variance * moments.slope_product / moments.square
    if 1 - overlap < _ONE_DIRECTION or moments.spread <= 0:
        return Response(signal._replace(overlap=1.0), slope, 0.0, 1.0, math.inf), moments
    difference_slope = moments.slope_product * variance * (1 - overlap) / moments.spread
    # Slightly negative overlaps, of samples around their mean, are as good as none.
    noise = difference_noise(activation, variance, max(0.0, overlap), rotation=rotation)
    return Response(signal, slope, moments.noise, difference_slope, noise), moments


def log(value: float) -> float:
    """Minus infinity at zero, where no gradient passes; nan stays nan, where nothing is known."""
    return -math.inf if value == 0 else math.log(value)


def log_sum(first: float, second: float) -> float:
    r"""$\log(e^a + e^b)$."""
    larger = max(first, second)
    if math.isinf(larger):
        return larger
    return larger + math.log(math.exp(first - larger) + math.exp(second - larger))
