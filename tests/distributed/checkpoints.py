"""Checkpoints as torch's documentation writes them: nothing here knows Muon."""

from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer


def state_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
    weights, state = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": state}


def restored(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    state = state_of(model, optimizer)
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
