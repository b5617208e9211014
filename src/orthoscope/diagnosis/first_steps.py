"""The first steps of a training, taken on copies of the network with the batch of the diagnosis.

One pass says how signal and gradient arrive. Whether steps of a given optimizer then lower the loss also depends on
curvature, on the size of the gradient beside the learning rate, and on gates that open: a few steps show it.
"""

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn

from orthoscope.optim.recipes import OPTIMIZERS, SHORT_TRAINING_RATES
from orthoscope.probe.losses import Loss
from orthoscope.probe.samples import Call, first_samples
from orthoscope.training import train

STEPS = 10
SAMPLES = 32  # of the batch, the same in every step


@dataclass(frozen=True)
class FirstSteps:
    """Losses of short runs at several learning rates.

    Attributes:
        optimizer: Name in `optim.recipes.OPTIMIZERS`.
        rates: Learning rates.
        losses: For each rate, the loss before every step and after the last; shorter if the run broke off.
    """

    optimizer: str
    rates: tuple[float, ...]
    losses: tuple[tuple[float, ...], ...]

    @property
    def taken(self) -> bool:
        """Whether there was a parameter to train."""
        return all(self.losses)

    @property
    def start(self) -> float:
        """The loss before the first step."""
        return self.losses[0][0]

    @property
    def fall(self) -> float:
        """How much the loss falls over all steps at the best rate; minus infinity if every run breaks off."""
        ends = [run[-1] for run in self.losses if len(run) == STEPS + 1 and math.isfinite(run[-1])]
        return self.start - min(ends) if ends else -math.inf

    @property
    def first_fall(self) -> float:
        """How much the loss falls in the first step at the best rate; minus infinity if no step can be taken."""
        falls = [self.start - run[1] for run in self.losses if len(run) > 1 and math.isfinite(run[1])]
        return max(falls, default=-math.inf)


def first_steps(model: nn.Module, call: Call, loss: Loss | None, optimizer: str, seed: int) -> FirstSteps:
    """Take `STEPS` steps on a copy of `model` at each rate; the model itself and random states are left as they are.

    Args:
        model: The network.
        call: The batch with its target; its first `SAMPLES` samples are used.
        loss: As for `training.train`.
        optimizer: Name in `optim.recipes.OPTIMIZERS`.
        seed: Of dropout and other noise.
    """
    few = first_samples(call, SAMPLES)
    rates = SHORT_TRAINING_RATES[optimizer]
    return FirstSteps(optimizer, rates, tuple(_run(model, few, loss, optimizer, rate, seed) for rate in rates))


def _run(model: nn.Module, call: Call, loss: Loss | None, optimizer: str, rate: float, seed: int) -> tuple[float, ...]:
    twin = copy.deepcopy(model)
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(seed)
        if not any(parameter.requires_grad for parameter in twin.parameters()):
            return ()
        # The loss is that before a step: the last of these steps only shows what the one before it did.
        history = train(twin, lambda: [call], OPTIMIZERS[optimizer](twin, rate), steps=STEPS + 1, loss=loss)
    return tuple(history.losses)
