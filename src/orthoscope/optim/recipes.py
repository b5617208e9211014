"""The three optimizers that a verdict is about, as they are used in short trainings, and the learning rates tried."""

from collections.abc import Callable

import torch
from torch import nn

from orthoscope.optim.muon import Muon, muon_parameter_groups

MOMENTUM = 0.9  # of SGD
ADAMW_SHARE = 0.15  # learning rate of what Muon leaves to AdamW, as a share of Muon's


def _adamw(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(_trainable(model), lr=rate, weight_decay=0.0)


def _sgd(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(_trainable(model), lr=rate, momentum=MOMENTUM)


def _muon(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    try:
        groups = muon_parameter_groups(model)
    except ValueError:  # there is no hidden matrix, as in a shallow network of token ids
        return _adamw(model, ADAMW_SHARE * rate)
    return Muon(groups, lr=rate, adamw_lr=ADAMW_SHARE * rate, dtype=torch.float32)


def _trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


OPTIMIZERS: dict[str, Callable[[nn.Module, float], torch.optim.Optimizer]] = {
    "adamw": _adamw,
    "sgd": _sgd,
    "muon": _muon,
}

# Low, middle and high, for small networks and a hundred steps: orthoscope_papers/calibration/trainability.py says how
# they were chosen.
SHORT_TRAINING_RATES: dict[str, tuple[float, float, float]] = {
    "adamw": (7.5e-4, 3e-3, 1.2e-2),
    "sgd": (1e-2, 5e-2, 2.5e-1),
    "muon": (5e-3, 2e-2, 8e-2),
}
