"""Signals and gradients through a wide random network, layer by layer, without building it, and their limits."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from orthoscope.findings import Prediction
from orthoscope.theory.gram.dynamics import fixed_point_entries, gram_fixed_point
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.kernel.convergence import contraction_rate
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.network._batch_normalized import batch_normalized
from orthoscope.theory.network._layer_moments import difference_noise, layer_moments, sphere_difference_noise
from orthoscope.theory.network._sphere_layer import FEWEST
from orthoscope.theory.network.hyperparameters import Hyperparameters, Inputs, LinearLaw, LostSignal, NoTheory
from orthoscope.theory.network.layers import Branch, Response, Signal, activated, linear, skipped
from orthoscope.theory.network.spectrum import spread_law
from orthoscope.theory.sources import Source, source, source_of


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


@dataclass(frozen=True)
class Propagation:
    """The layers of a network from input to output, and its head.

    Attributes:
        network: The hyper-parameters.
        inputs: Statistics of the batch.
        layers: From input to output.
        head: Output of the last linear layer; None without a head.
    """

    network: Hyperparameters
    inputs: Inputs
    layers: tuple[LayerSignals, ...]
    head: Signal | None

    def log_gradients(self, depth: int | None = None) -> list[float]:
        r"""Log-norms of the gradient at the linear layers of the network cut to `depth`, input first, head last.

        Relative to the gradient at the output of the network. Without a norm and with skip connections the
        network is nearly homogeneous, $Jh = h'$, so a gradient of random direction also carries
        $q_L/(d q_\ell)$ along $h_\ell$, which outgrows the rest where skip connections add up means. With batch norm
        that does not center, gradients of different samples start independent, and what they share is followed.
        """
        depth = len(self.layers) if depth is None else depth
        if not 1 <= depth <= len(self.layers):
            raise ValueError(
                f"depth is {depth}, but this network was propagated through 1 to {len(self.layers)} layers"
            )
        last, network = self.network.last, self.network
        start = 0.0 if last is None else _log(last.weight_variance)
        if self.layers[0].mixing is not None:
            hidden = [(start + value) / 2 for value in _mixed_back(self.layers[:depth])]
            return hidden if last is None else [*hidden, 0.0]
        to_linear, to_input, log_squares = (values[:depth] for values in self._ways)
        # Summed from the end: a difference of sums from the start is nan past a layer that lets nothing through.
        arriving = torch.cat([to_input[1:].flip(0).cumsum(0).flip(0), to_input.new_zeros(1)])
        if network.residual_scale is not None and network.norm == "none":
            arriving = torch.logaddexp(arriving, log_squares[-1] - log_squares - _log(float(network.hidden.units)))
        hidden = ((start + arriving + to_linear) / 2).tolist()
        return hidden if last is None else [*hidden, 0.0]

    @cached_property
    def _ways(self) -> tuple[Tensor, Tensor, Tensor]:
        """For every layer, the logs of `to_linear`, of `to_input`, and of the mean square of its output."""
        rows = [(part.to_linear, part.to_input, _log(part.output.mean_square)) for part in self.layers]
        to_linear, to_input, log_squares = torch.tensor(rows, dtype=torch.float64).T
        return to_linear, to_input, log_squares


_RECURSIONS = source(
    "schoenholz2017",
    "forward and backward recursions of variances and overlaps, with the spread of a finite width added",
    assumes="wide layers of independent weights; gradients independent of activations; exchangeable samples",
)


@_RECURSIONS
def propagate(
    network: Hyperparameters, inputs: Inputs, depth: int, progress: Callable[[int], None] | None = None
) -> Propagation:
    r"""A batch forward through `depth` layers and a gradient back; the cost grows with depth, not with width or batch.

    Args:
        network: Hyper-parameters of the network.
        inputs: Statistics of the batch.
        depth: Number of layers $L$ or $\ell$.
        progress: Called with the number of layers that are done.

    Raises:
        NoTheory: If theory does not cover the network.
    """
    layers: list[LayerSignals] = []
    for part in propagated_layers(network, inputs, depth):
        layers.append(part)
        if progress is not None:
            progress(len(layers))
    try:
        head = None if network.last is None else _head(network, network.last, layers[-1].output)
    except LostSignal as reason:
        raise LostSignal(f"{reason} at the head", depth) from reason
    return Propagation(network, inputs, tuple(layers), head)


@_RECURSIONS
def propagated_layers(network: Hyperparameters, inputs: Inputs, depth: int) -> Iterator[LayerSignals]:
    """Yield the layers one at a time, as `propagate` computes them."""
    if depth < 1:
        raise ValueError(f"depth is {depth}, but must be at least 1")
    _require_stable(network, inputs.samples, depth)
    signal = Signal(inputs.mean_square, inputs.overlap, inputs.overlap_variance, inputs.difference_variance)
    for index in range(depth):
        try:
            part = _layer(network, signal, index=index, samples=inputs.samples)
        except LostSignal as reason:
            raise LostSignal(f"{reason} at layer {index + 1}", index) from reason
        signal = part.output
        yield part


def _require_stable(network: Hyperparameters, samples: int, depth: int) -> None:
    r"""Raise `NoTheory` at depths where norms of samples differ: a deviation, at first $\sqrt{2/d}$, has grown to 1."""
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
            f"after about {lasting} layers their sizes differ, and there is no theory beyond"
        )


def _layer(network: Hyperparameters, before: Signal, *, index: int, samples: int) -> LayerSignals:
    """Propagate the signal forward through one layer, and the gradient backward."""
    law, skip, rotates = network.linear(index), network.skip(index), network.rotates(index)
    lifted = linear(before, law, rotates)
    branch = _branch(network, lifted, before, samples, rotates)
    response, through = branch.response, _log(law.weight_variance)
    if skip is None:
        to_linear = _log(branch.slope_square)
        to_input = to_linear + through
    else:
        response = skipped(before, response, skip)
        to_linear = _log(skip**2 * branch.slope_square)
        to_input = float(np.logaddexp(0.0, to_linear + through))
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
    response, moments = activated(network.activation, lifted, centered=False, rotation=rotates)
    activation = response.of(before, width)
    if pre_norm:
        return Branch(response, lifted.of(before, width), activation, moments.slope_square / square)
    if network.norm == "none":
        return Branch(response, None, activation, moments.slope_square)
    if network.norm == "layer":
        response, moments = activated(network.activation, lifted, centered=True, rotation=rotates)
    square = moments.square + network.epsilon
    response = response.scaled(square)
    return Branch(response, response.of(before, width), activation, moments.slope_square / square)


def _head(network: Hyperparameters, last: LinearLaw, signal: Signal) -> Signal:
    """What comes out of the head; orthogonal weights keep angles only where there are no fewer outputs than units."""
    rotates = network.rotation and last.units >= network.hidden.units
    return linear(signal, last, rotates).of(signal, last.units)


def _mixed_back(layers: tuple[LayerSignals, ...]) -> list[float]:
    """Logs of mean squared gradients at the linear parts, where batch norm mixes those of different samples."""
    found: list[float] = []
    # The mean square of a gradient, and that of the sum over the batch divided by √n: alike while independent.
    squares, scale = torch.ones(2, dtype=torch.float64), 0.0
    for part in reversed(layers):
        assert part.mixing is not None
        to_linear, to_input = part.mixing
        found.append(scale + _log(float((to_linear @ squares)[0])))
        squares = to_input @ squares
        size = float(squares[0])
        squares, scale = squares / size, scale + _log(size)
    return found[::-1]


def _log(value: float) -> float:
    """Minus infinity at zero, where no gradient passes; nan stays nan, where nothing is known."""
    return -math.inf if value == 0 else math.log(value)


_CASES = {
    1: "samples become orthogonal",
    2: "samples become parallel, exponentially in depth",
    3: "samples become parallel, as a power of depth",
    4: "samples keep an angle",
}


def long_run(found: Propagation) -> tuple[Prediction, ...]:
    """Predictions of the theorems for further layers, at the variance that signals have reached.

    Empty where there is no limit: with skip connections gradients grow ever more slowly. A single layer has no gradient
    growth, because its number of inputs may differ from the width.

    Args:
        found: From `propagate`.
    """
    network = found.network
    if network.residual_scale is not None:
        return ()
    predictions: list[Prediction] = []
    if network.norm.startswith("batch"):
        predictions += _gram_limit(found)
    elif network.hidden.bias_variance == 0:
        predictions += _kernel_limit(found)
    predictions += _gradient_limit(found)
    return tuple(predictions)


def _gram_limit(found: Propagation) -> Iterator[Prediction]:
    """The fixed point of batch norm; biases change it unless batch norm is centered."""
    network, centered = found.network, found.network.norm == "batch"
    if network.hidden.bias_variance == 0 or centered:
        diagonal, off = fixed_point_entries(network.activation, found.inputs.samples, centered)
        yield _prediction("overlap", off / diagonal, "mean cosine", source_of(gram_fixed_point))


def _gradient_limit(found: Propagation) -> Iterator[Prediction]:
    network, last = found.network, found.layers[-1]
    unit = "e-folds per layer toward the input"
    if network.norm == "batch-uncentered":
        # Not the growth at the last layer, which may be far from the fixed point.
        if network.hidden.bias_variance == 0 and last.mixing is not None:
            growth = gradient_growth(found.inputs.samples, centered=False, activation=network.activation)
            yield _prediction("gradient growth", growth, unit, source_of(gradient_growth))
    elif len(found.layers) > 1 and math.isfinite(last.to_input):
        # Integrals are accurate to 1e-12: smaller values are 0.
        growth = round(last.to_input / 2, 12) + 0.0
        yield _prediction("gradient growth", growth, unit, source_of(propagate))


def _kernel_limit(found: Propagation) -> Iterator[Prediction]:
    network = found.network
    normalized = network.norm != "none" and network.order == "norm-activation"
    variance = 1.0 if normalized else found.layers[-1].linear.mean_square
    kernel = kernel_map(network.activation, network.norm, network.order, input_variance=variance)
    if kernel.case is None:
        return
    theorem = source_of(contraction_rate)
    words = f"mean cosine: {_CASES[kernel.case]}"
    yield _prediction("overlap", kernel.fixed_point, words, theorem)
    if kernel.rate < 1:
        yield _prediction(
            "contraction rate",
            kernel.rate,
            "the distance to that overlap shrinks by this factor per layer, or faster",
            theorem,
        )


def _prediction(name: str, value: float, unit: str, source: Source) -> Prediction:
    return Prediction(name, value, unit, str(source), source.assumes)


def sources_of(network: Hyperparameters) -> tuple[Source, ...]:
    """Sources and hypotheses behind `propagate` for this network."""
    used: list[Callable[..., Any]] = [propagate, layer_moments, difference_noise, spread_law]
    if network.norm.startswith("batch"):
        used += [gram_fixed_point, gradient_growth, sphere_difference_noise]
    if network.norm == "batch":
        used.append(gram_response)
    return tuple(source_of(predictor) for predictor in used)
