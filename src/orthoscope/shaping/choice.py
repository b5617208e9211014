"""Gains for the activations of a model, from how fast its own gradients explode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.probe import Recording
from orthoscope.shaping.activations import require_activations
from orthoscope.shaping.gain_law import GAINS, GainLaw, fit_gain_law, gain_schedule
from orthoscope.shaping.rates import LINEAR, recorded_rate, recordings_by_gain


@dataclass(frozen=True)
class Shaping:
    """A gain for every activation, in forward order, and what it was chosen by: `shape_activations_(model, gains)`."""

    gains: Mapping[str, float]
    exponent: float  # the gain of the ℓ-th activation is ℓ^(-exponent)
    law: GainLaw
    rates: Mapping[float, float]  # gain -> measured growth of the log-gradient a layer

    @property
    def growth(self) -> float:
        """What the law expects of the log-gradient from the last layer to the first, with these gains."""
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

    A copy is recorded at each of `gains` and near 0, `fit_gain_law` is fitted, and $k$ is its `exponent`. The model
    stays as it is. Refused, with the reason, where gains cannot help: no module to shape, one that is called several
    times, gradients that do not explode faster than those of the linear network.
    """
    names = require_activations(model)
    recordings = recordings_by_gain(model, batch, [LINEAR, *gains], loss)
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
