"""What a family of networks is: its kind, its task, and a function that builds a member of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

Kind = Literal[
    "transformer",
    "convolutional",
    "recurrent",
    "state space",
    "graph",
    "mixture of experts",
    "mixer",
    "generative",
    "mlp",
]


@dataclass(frozen=True)
class Settings:
    """What changes before a network is built."""

    depth: int = 1  # times the number of blocks
    moved: bool = False  # normalization after what it is before, or before what it is after


@dataclass(frozen=True)
class Family:
    """Networks of one architecture.

    Attributes:
        name: Of the family.
        kind: What sort of architecture it is.
        task: Name of the task that it is trained on.
        build: Returns the network; its random numbers are those of torch's global generator.
        twins: Near twins share this name, and are held out together.
        movable: `Settings.moved` makes another network.
        own_weights: Weights are not those that PyTorch's layers begin with.
        deepest: Largest factor of the depth that trains in a few seconds.
    """

    name: str
    kind: Kind
    task: str
    build: Callable[[Settings], nn.Module]
    twins: str = ""
    movable: bool = False
    own_weights: bool = False
    deepest: int = 4

    def network(self, settings: Settings, seed: int) -> nn.Module:
        """Build the network of a seed; torch's global generator is left as it was."""
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            return self.build(settings)
