"""The optimizers that are compared, each of a model and one learning rate."""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Optimizer

from orthoscope.optim import Muon, muon_parameter_groups

BETAS, WEIGHT_DECAY = (0.9, 0.95), 0.1


class SideBySide(Optimizer):
    """Several optimizers of different parameters as one: their groups are shared, so schedules reach them."""

    def __init__(self, *parts: Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts

    def step(self, closure: Callable[[], float]) -> float:  # type: ignore[override]
        loss = closure()
        for part in self.parts:
            part.step()
        return loss


def adamw(model: nn.Module, rate: float) -> Optimizer:
    return torch.optim.AdamW(model.parameters(), rate, BETAS, weight_decay=WEIGHT_DECAY)


def sgd(model: nn.Module, rate: float) -> Optimizer:
    return torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True)


def muon(model: nn.Module, rate: float) -> Optimizer:
    return Muon(
        muon_parameter_groups(model),
        rate,
        weight_decay=WEIGHT_DECAY,
        scale="match_rms_adamw",
        adamw_lr=rate,
        adamw_betas=BETAS,
        adamw_weight_decay=WEIGHT_DECAY,
    )


def torch_muon(model: nn.Module, rate: float) -> Optimizer:
    matrices, rest = (group["params"] for group in muon_parameter_groups(model))
    return SideBySide(
        torch.optim.Muon(matrices, rate, WEIGHT_DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, rate, BETAS, weight_decay=WEIGHT_DECAY),
    )


OPTIMIZERS = {"Muon": muon, "torch Muon": torch_muon, "AdamW": adamw, "SGD": sgd}
