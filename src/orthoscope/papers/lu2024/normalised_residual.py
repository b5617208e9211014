"""Weight vectors of networks with and without normalisation and skip connections: the rows of Tables 3 and 4."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch

from orthoscope.papers.drawing import Series
from orthoscope.papers.evidence import interval
from orthoscope.papers.lu2024.images import Images, images
from orthoscope.papers.lu2024.independence import OPTIMIZERS, at_best_rate, by_seed, trained
from orthoscope.papers.lu2024.networks import Network, convolutional, fully_connected

CONVOLUTIONAL, CONNECTED = "convolutional", "fully connected"
ORIGINAL, BOTH = "original", "norm_residual"
# Is the network normalised, and has it skips.
ARMS = {
    ORIGINAL: (False, False),
    "normalisation": (True, False),
    "residual": (False, True),
    BOTH: (True, True),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What Tables 3 and 4 have in common; each says what it compares."""

    networks: tuple[str, ...]
    optimizers: tuple[str, ...]
    arms: tuple[str, ...]
    dataset: str = "cifar10"  # in place of CIFAR-100
    samples: int = 8000
    held_out: int = 1000
    test: int = 1000
    maps: int = 16
    width: int = 128
    steps: int = 300
    batch: int = 32
    multiples: tuple[float, ...] = (0.3, 1.0, 3.0)  # of the optimizer's learning rate
    seeds: tuple[int, ...] = tuple(range(3))


class Row(NamedTuple):
    """One hidden layer of a trained network."""

    dataset: str
    network: str
    optimizer: str
    arm: str
    multiple: float
    learning_rate: float
    seed: int
    layer: int
    dimension: int
    pii_at_start: float
    pii: float
    moved: float  # ‖W - W₀‖/‖W₀‖
    held_out: float  # accuracy by which the rate is chosen
    accuracy: float  # on test images


def rows_of(setting: Setting) -> list[Row]:
    """Every network, optimizer, arm and rate from every seed; arms begin with the same weights, see the same data."""
    data = images(setting.dataset, setting.samples, setting.held_out, setting.test)
    choices = product(setting.networks, setting.optimizers, setting.arms, setting.seeds, setting.multiples)
    rows = []
    for kind, optimizer, arm, seed, multiple in choices:
        network = _network(setting, data, kind, arm, torch.Generator().manual_seed(seed))
        result = trained(network, data, optimizer, multiple, setting.steps, setting.batch, seed)
        context = (setting.dataset, kind, optimizer, arm, multiple, multiple * OPTIMIZERS[optimizer][0], seed)
        rows += [Row(*context, *layer, result.held_out, result.accuracy) for layer in result.layers]
    return rows


def _network(setting: Setting, data: Images, kind: str, arm: str, generator: torch.Generator) -> Network:
    shape = data.inputs.shape[1:]
    if kind == CONVOLUTIONAL:
        return convolutional(shape[0], setting.maps, data.classes, *ARMS[arm], generator)
    return fully_connected(shape.numel(), setting.width, data.classes, *ARMS[arm], generator)


def best(rows: Sequence[Row], network: str, optimizer: str, arm: str) -> list[Row]:
    """The rows of an arm at its best rate."""
    return at_best_rate([r for r in rows if (r.network, r.optimizer, r.arm) == (network, optimizer, arm)])


def gains(
    rows: Sequence[Row], network: str, optimizer: str, arm: str, number: Callable[[Row], float], base: str = ORIGINAL
) -> list[float]:
    """By how much an arm exceeds another in a number (mean over its layers), seed by seed, each at its best rate."""
    theirs, ours = (by_seed(best(rows, network, optimizer, own), number) for own in (base, arm))
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def against_rates(rows: Sequence[Row], name: str, number: Callable[[Row], float]) -> Series:
    """A number of one arm (mean over layers) against the learning rate, with intervals over seeds."""
    multiples = sorted({row.multiple for row in rows})
    ends = [interval(by_seed([r for r in rows if r.multiple == multiple], number)) for multiple in multiples]
    return Series(name, multiples, [m for m, _, _ in ends], [low for _, low, _ in ends], [high for _, _, high in ends])
