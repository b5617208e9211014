r"""Gains for the activations of a model, chosen from how fast its gradients explode.

The explosion rate $R(\alpha)$ is the growth of the log-gradient per layer toward the input when all activations have
the gain $\alpha$. It is measured on a model, simulated for random networks, or predicted by theory; `choose_gains` fits
`activations.GainLaw` to measured rates and returns the schedule that bounds their sum.
"""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations import GAINS, GainLaw, fit_gain_law, gain_schedule, shape_activations_
from orthoscope.activations.placement import require_linearizable
from orthoscope.chains import Chain, simulate_gradients
from orthoscope.metrics import depth_slope
from orthoscope.probe import Recording, record
from orthoscope.theory import Hyperparameters, Inputs, NoTheory, propagate

# Stands for gain 0: an activation with one slope at 0 deviates from a line by at most 1e-3 of its value there.
LINEAR = 1e-3


_GAINS_SHOWN = 6


@dataclass(frozen=True)
class Shaping:
    r"""A gain for every activation, in forward order, and the measurements it was chosen by.

    `activations.shape_activations_(model, shaping.gains)` puts the gains in place.

    Attributes:
        gains: By activation, in forward order.
        exponent: $k$: the gain of activation $\ell$ is $\ell^{-k}$.
        law: Fitted to the rates.
        rates: By gain, the measured growth of the log-gradient per layer.
    """

    gains: Mapping[str, float]
    exponent: float
    law: GainLaw
    rates: Mapping[float, float]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {gain:.3g}" for name, gain in list(self.gains.items())[:_GAINS_SHOWN])
        more = ", …" if len(self.gains) > _GAINS_SHOWN else ""
        return (
            f"gains of {len(self.gains)} activations, layer^-{self.exponent:.3g}: {shown}{more}\n"
            f"log-gradient from last layer to first: {self.growth:+.2f}, without gains {self.growth_unshaped:+.2f}"
        )

    __repr__ = __str__

    @property
    def growth(self) -> float:
        """Growth of the log-gradient from the last layer to the first that the law expects at these gains."""
        return self.law.growth(list(self.gains.values()))

    @property
    def growth_unshaped(self) -> float:
        """The same at gain 1 in all layers."""
        return self.law.growth([1.0] * len(self.gains))


def choose_gains(
    model: nn.Module,
    batch: Any,
    loss: Callable[..., Tensor] | None = None,
    *,
    gains: Sequence[float] = GAINS,
    margin: int | float = 0.2,
) -> Shaping:
    r"""Gains $\alpha_\ell = \ell^{-k}$ that keep the gradients of `model` bounded, found by measuring it on `batch`.

    Args:
        model: The network; a copy is measured, the model itself stays unchanged.
        batch: As for `probe.record`.
        loss: As for `probe.record`.
        gains: Where the rate is measured, besides a gain near 0.
        margin: $k = (1 + \text{margin})/c$, with $c$ the lower end of the interval of the fitted power.

    Returns:
        The gains, and the measurements behind them.

    Raises:
        ValueError: If gains cannot help: no module to shape, a module that is called several times, gradients that do
            not explode faster than those of the linear network.
    """
    names = require_linearizable(model)
    recordings = _recordings_by_gain(model, batch, [LINEAR, *gains], loss)
    order = _forward_order(recordings[0], set(names))
    rates = [recorded_rate(found) for found in recordings]
    law = fit_gain_law(gains, torch.tensor(rates[1:], dtype=torch.float64), rates[0])
    exponent = law.exponent(margin)
    schedule = gain_schedule(len(order), exponent)
    return Shaping(
        dict(zip(order, schedule, strict=True)), exponent, law, dict(zip([LINEAR, *gains], rates, strict=True))
    )


def _forward_order(recording: Recording, names: set[str]) -> list[str]:
    calls = [layer for layer in recording.layers if layer.name in names]
    repeated = next((layer.name for layer in calls if layer.call > 0), None)
    if repeated is not None:
        raise ValueError(f"{repeated} is called more than once: give every layer an activation module of its own")
    return [layer.name for layer in calls]


def measured_rates(
    model: nn.Module, batch: Any, gains: Sequence[float], loss: Callable[..., Tensor] | None = None
) -> Float[Tensor, " gains"]:
    """Rates of the model itself, measured on a copy all of whose `linearizable_activations` get the gain.

    Args:
        model: Copied, not changed.
        batch: As for `probe.record`.
        gains: Where to measure.
        loss: As for `probe.record`.
    """
    return torch.tensor([recorded_rate(found) for found in _recordings_by_gain(model, batch, gains, loss)])


def _recordings_by_gain(
    model: nn.Module, batch: Any, gains: Iterable[float], loss: Callable[..., Tensor] | None
) -> list[Recording]:
    names = require_linearizable(model)
    shaped = copy.deepcopy(model)
    found = []
    for gain in gains:
        shape_activations_(shaped, dict.fromkeys(names, gain))
        found.append(record(shaped, batch, loss))
    return found


def recorded_rate(recording: Recording) -> float:
    """Slope of the log-gradient over the weight layers where it is finite and not 0."""
    norms = [layer.gradient_norm for layer in recording.layers if layer.depth is not None]
    usable = [norm for norm in norms if norm is not None and 0 < norm < math.inf]
    if len(usable) < 3:
        raise ValueError(
            f"a rate needs at least 3 weight layers with a finite, nonzero gradient, got {len(usable)}: "
            "give a deeper network, or see `orthoscope diagnose` for layers without a gradient"
        )
    return depth_slope(torch.tensor(usable, dtype=torch.float64).log()).value.item()


def simulated_rates(
    chain: Chain, gains: Sequence[float], *, samples: int, depth: int = 120, seeds: Sequence[int] = tuple(range(4))
) -> Float[Tensor, "seeds gains"]:
    """Rates of random networks like `chain` on Gaussian samples, over the middle half of `depth` layers.

    The ends are left out because the input and the loss still act there. Networks of one seed have the same weights at
    all gains.

    Args:
        chain: The layers; its gain is replaced.
        gains: Where to simulate.
        samples: Number of samples.
        depth: Number of layers, at least 12.
        seeds: One network each.
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
    network: Hyperparameters, inputs: Inputs, gains: Sequence[float], depth: int = 12
) -> Float[Tensor, " gains"]:
    """Rates by theory (`theory.propagate`), over the deeper half of `depth` layers of such a network.

    Args:
        network: The network; the gain of its activation is replaced.
        inputs: Statistics of the batch.
        gains: Where to predict.
        depth: Number of layers.

    Raises:
        NoTheory: Where theory has no gradients: orthogonal weights with batch norm.
    """
    rates = []
    for gain in gains:
        shaped = replace(network, activation=network.activation.with_gain(gain), last=None)
        norms = propagate(shaped, inputs, depth).log_gradients()[depth // 2 :]
        rates.append((norms[0] - norms[-1]) / (len(norms) - 1))
    if not all(map(math.isfinite, rates)):
        raise NoTheory("theory has no gradients of this network: simulate or measure the rates")
    return torch.tensor(rates, dtype=torch.float64)
