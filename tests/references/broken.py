"""User code that goes wrong, for tests of what the user is told."""

import torch
from torch import Tensor, nn


def batch() -> Tensor:
    return torch.ones(4, 3)


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        raise KeyError("no such key\nand a second line")
