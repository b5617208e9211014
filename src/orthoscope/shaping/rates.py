r"""The explosion rate at a gain that is the same in all layers: measured, simulated and predicted.

$R(\alpha)$ is the growth of the log-gradient per layer toward the input. A gain of `LINEAR` stands for $\alpha \to 0$.
"""

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.chains import Chain, simulate_gradients
from orthoscope.metrics import depth_slope
from orthoscope.probe import Recording, record
from orthoscope.shaping.activations import require_activations, shape_activations_
from orthoscope.theory import Hyperparameters, Inputs, NoTheory, propagate

LINEAR = 1e-3  # of activations with one slope at 0, what is left of the bend at this gain is 1e-3 or less


def measured_rates(
    model: nn.Module, batch: Any, gains: Sequence[float], loss: Callable[..., Tensor] | None = None
) -> Float[Tensor, " gains"]:
    """Of the model itself, all of whose `linearisable_activations` get the gain in a copy; see `probe.record`."""
    return torch.tensor([recorded_rate(found) for found in recordings_by_gain(model, batch, gains, loss)])


def recordings_by_gain(
    model: nn.Module, batch: Any, gains: Iterable[float], loss: Callable[..., Tensor] | None = None
) -> list[Recording]:
    """One recording a gain, of one copy of the model."""
    names = require_activations(model)
    shaped = copy.deepcopy(model)
    found = []
    for gain in gains:
        shape_activations_(shaped, dict.fromkeys(names, gain))
        found.append(record(shaped, batch, loss))
    return found


def recorded_rate(recording: Recording) -> float:
    """The slope of the log-gradient over the weight layers where it is finite and not 0."""
    norms = [layer.gradient_norm for layer in recording.layers if layer.depth is not None]
    usable = [norm for norm in norms if norm is not None and 0 < norm < math.inf]
    if len(usable) < 3:
        raise ValueError(f"a rate needs the gradients of at least 3 weight layers, got {len(usable)} that are usable")
    return depth_slope(torch.tensor(usable, dtype=torch.float64).log()).value.item()


def simulated_rates(
    chain: Chain, gains: Sequence[float], *, samples: int, depth: int = 120, seeds: Sequence[int] = tuple(range(4))
) -> Float[Tensor, "seeds gains"]:
    """Of random networks like `chain`, on Gaussian samples, over the middle half of `depth` layers.

    Ends are left out: there the samples, or the loss, are still felt. Networks of one seed have the same weights at all
    gains.
    """
    if depth < 12:
        raise ValueError(f"depth is {depth}, but a rate needs at least 12 layers")
    first, last = depth // 4, depth - depth // 4
    generator = torch.Generator().manual_seed(min(seeds))
    start = torch.randn(samples, chain.width, generator=generator, dtype=torch.float64)
    columns = []
    for gain in gains:
        norms = simulate_gradients(start, replace(chain, gain=gain), depth, seeds=seeds, layers=[first, last])
        columns.append((norms[:, 0] - norms[:, 1]) / (last - first))
    return torch.stack(columns, dim=1)


def predicted_rates(
    network: Hyperparameters, inputs: Inputs, gains: Sequence[float], depth: int = 30
) -> Float[Tensor, " gains"]:
    """By theory (`theory.propagate`), over the deeper half of `depth` layers of such a network.

    Refused (`NoTheory`) where theory has no gradients: orthogonal weights with batch norm.
    """
    rates = []
    for gain in gains:
        shaped = replace(network, activation=network.activation.with_gain(gain), last=None)
        norms = propagate(shaped, inputs, depth).log_gradients()[depth // 2 :]
        rates.append((norms[0] - norms[-1]) / (len(norms) - 1))
    if not all(map(math.isfinite, rates)):
        raise NoTheory("theory has no gradients of this network: simulate or measure the rates")
    return torch.tensor(rates, dtype=torch.float64)
