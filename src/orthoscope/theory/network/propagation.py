"""Signals and gradients through a wide random network, layer by layer, without building it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from orthoscope.theory.network._batch_normalized import require_stable
from orthoscope.theory.network.hyperparameters import Hyperparameters, Inputs, LinearLaw, LostSignal
from orthoscope.theory.network.layers import LayerSignals, layer, log
from orthoscope.theory.network.signals import Signal, linear
from orthoscope.theory.sources import source


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
        start = 0.0 if last is None else log(last.weight_variance)
        if self.layers[0].mixing is not None:
            hidden = [(start + value) / 2 for value in _mixed_back(self.layers[:depth])]
            return hidden if last is None else [*hidden, 0.0]
        to_linear, to_input, log_squares = (values[:depth] for values in self._ways)
        # Summed from the end: a difference of sums from the start is nan past a layer that lets nothing through.
        arriving = torch.cat([to_input[1:].flip(0).cumsum(0).flip(0), to_input.new_zeros(1)])
        if network.residual_scale is not None and network.norm == "none":
            arriving = torch.logaddexp(arriving, log_squares[-1] - log_squares - log(float(network.hidden.units)))
        hidden = ((start + arriving + to_linear) / 2).tolist()
        return hidden if last is None else [*hidden, 0.0]

    @cached_property
    def _ways(self) -> tuple[Tensor, Tensor, Tensor]:
        """For every layer, the logs of `to_linear`, of `to_input`, and of the mean square of its output."""
        rows = [(part.to_linear, part.to_input, log(part.output.mean_square)) for part in self.layers]
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
    require_stable(network, inputs.samples, depth)
    signal = Signal(inputs.mean_square, inputs.overlap, inputs.overlap_variance, inputs.difference_variance)
    for index in range(depth):
        try:
            part = layer(network, signal, index=index, samples=inputs.samples)
        except LostSignal as reason:
            raise LostSignal(f"{reason} at layer {index + 1}", index) from reason
        signal = part.output
        yield part


def _mixed_back(layers: tuple[LayerSignals, ...]) -> list[float]:
    """Logs of mean squared gradients at the linear parts, where batch norm mixes those of different samples."""
    found: list[float] = []
    # The mean square of a gradient, and that of the sum over the batch divided by √n: alike while independent.
    squares, scale = torch.ones(2, dtype=torch.float64), 0.0
    for part in reversed(layers):
        assert part.mixing is not None
        to_linear, to_input = part.mixing
        found.append(scale + log(float((to_linear @ squares)[0])))
        squares = to_input @ squares
        size = float(squares[0])
        squares, scale = squares / size, scale + log(size)
    return found[::-1]


def _head(network: Hyperparameters, last: LinearLaw, signal: Signal) -> Signal:
    """What comes out of the head; orthogonal weights keep angles only where there are no fewer outputs than units."""
    rotates = network.rotation and last.units >= network.hidden.units
    return linear(signal, last, rotates).of(signal, last.units)
