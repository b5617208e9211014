"""What Tables 2 to 4 of lu2024 share: a training with PII before and after, and printed numbers beside ours."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from orthoscope.linalg import weight_matrix
from orthoscope.metrics.updates import relative_size
from orthoscope.metrics.weights import parameter_independence
from orthoscope.training import minibatches, train
from orthoscope_papers.datasets import CIFAR100
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.lu2024.networks import Images, Network

# The paper prints no learning rates. All optimizers try the same multiples of these, which suit a short training.
OPTIMIZERS: Mapping[str, tuple[float, Callable[[Iterable[Tensor], float], Optimizer]]] = {
    "SGD": (0.3, lambda parameters, rate: SGD(parameters, rate)),
    "Adam": (1e-3, lambda parameters, rate: Adam(parameters, rate)),
    "AdamW": (1e-3, lambda parameters, rate: AdamW(parameters, rate)),
    "RMSprop": (3e-4, lambda parameters, rate: RMSprop(parameters, rate)),
}
_EVALUATED = 500  # images at a time


class Layer(NamedTuple):
    """A hidden weight, read as a matrix of weight vectors."""

    layer: int  # from 1
    dimension: int  # of a weight vector
    pii_at_start: float
    pii: float
    moved: float  # ‖W - W₀‖/‖W₀‖


class Training(NamedTuple):
    layers: list[Layer]
    held_out: float  # accuracy by which a rate is chosen
    accuracy: float  # on test images


def trained(
    network: Network, images: Images, optimizer: str, multiple: float, steps: int, batch: int, seed: int
) -> Training:
    """Train by the optimizer at `multiple` times its rate; batches depend on the seed alone."""
    standard, make = OPTIMIZERS[optimizer]
    starts = _matrices(network)
    batches = minibatches(images.inputs, images.labels, batch, torch.Generator().manual_seed(seed))
    train(network.model, batches, make(network.model.parameters(), multiple * standard), steps=steps)
    layers = [
        Layer(number, end.shape[1], _pii(start), _pii(end), float(relative_size(end - start, start)))
        for number, (start, end) in enumerate(zip(starts, _matrices(network), strict=True), start=1)
    ]
    return Training(layers, accuracy(network.model, *images.held_out), accuracy(network.model, *images.test))


def _matrices(network: Network) -> list[Tensor]:
    return [weight_matrix(layer.weight.detach()).clone() for layer in network.hidden]


def _pii(weight: Tensor) -> float:
    return float(parameter_independence(weight))


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    """Share of samples whose largest output is at their class; normalization layers use their running statistics."""
    model.eval()
    right = [
        (model(part).argmax(-1) == own).sum()
        for part, own in zip(inputs.split(_EVALUATED), labels.split(_EVALUATED), strict=True)
    ]
    model.train()
    return float(sum(map(int, right)) / len(labels))


@runtime_checkable
class Trial(Protocol):
    """A row of a table: what the choice of a rate needs of it."""

    @property
    def seed(self) -> int: ...
    @property
    def multiple(self) -> float: ...
    @property
    def held_out(self) -> float: ...


Rows = TypeVar("Rows", bound=Trial)


def at_best_rate(rows: Sequence[Rows]) -> list[Rows]:
    """Of the rows of one arm, those of the learning rate with the best held-out accuracy, mean of seeds."""
    found: dict[float, list[float]] = {}
    for row in rows:
        found.setdefault(row.multiple, []).append(row.held_out)
    best = max(found, key=lambda multiple: statistics.fmean(found[multiple]))
    return [row for row in rows if row.multiple == best]


def by_seed(rows: Sequence[Rows], number: Callable[[Rows], float]) -> list[float]:
    """The mean of a number over the rows of a seed, seed by seed."""
    return [
        statistics.fmean(number(row) for row in rows if row.seed == seed) for seed in sorted({row.seed for row in rows})
    ]


def printed_number(quantity: str, printed: float, values: Sequence[float], dataset: str) -> Evidence:
    """Return a printed number beside ours: it agrees if it is within two standard errors over seeds."""
    ours, low, high = interval(values)
    if low <= printed <= high:
        return Evidence(quantity, printed, ours, low, high, "agrees")
    reason = "architecture, learning rates and epochs are not printed"
    if dataset != CIFAR100:
        reason = f"{dataset} in place of CIFAR-100, a smaller network and fewer steps; {reason}"
    return Evidence(quantity, printed, ours, low, high, "differs", reason)
