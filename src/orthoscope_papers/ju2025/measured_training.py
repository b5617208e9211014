"""One training of an arm of `approaches` on the digits: loss, orthogonality, spectrum, norms of updates and time."""

import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.data import load
from orthoscope.linalg import singular_values
from orthoscope.metrics.weights import rms_operator_norm, soft_orthogonality
from orthoscope.models import MLP
from orthoscope.training import Step, minibatches, train
from orthoscope_papers.ju2025.arms import ARMS, Trial, constrained_, hidden_layers, penalty_of

CHOICE, COMPARISON = "choice", "comparison"  # of an arm's setting; of the arms at their best
CHOICE_DIGITS = 240  # the last of the training digits, by which settings are chosen
UNITS = 64  # as many as a digit has pixels, so that every hidden weight is square
QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


class Budget(NamedTuple):
    """How long all arms train, and how often they are measured: equally spaced, the last time at the end."""

    steps: int
    evaluations: int
    batch: int


class Row(NamedTuple):
    """A network after `step` steps; everything is infinite from where it diverged."""

    network: str
    depth: int
    arm: str
    approach: str
    stage: str
    learning_rate: float
    penalty_weight: float
    seed: int
    step: int
    loss: float  # cross-entropy on held-out digits
    accuracy: float
    deviation: float  # ‖I - WᵀW‖_F, mean over hidden layers
    spectrum_0: float  # the smallest singular value of all hidden weights,
    spectrum_25: float  # quartiles,
    spectrum_50: float
    spectrum_75: float
    spectrum_100: float  # and the largest
    update_low: float  # RMS → RMS norm of this step's update, the smallest of hidden layers,
    update: float  # their mean,
    update_high: float  # and the largest
    milliseconds: float  # median of a step of this training
    machine: str


def training(network: str, depth: int, name: str, trial: Trial, stage: str, seed: int, budget: Budget) -> list[Row]:
    """Weights depend on depth, start and seed alone, batches on the seed."""
    arm = ARMS[name]
    model = MLP(
        depth=depth,
        width=UNITS,
        in_features=UNITS,
        activation="tanh",
        init=arm.start,
        bias=True,
        generator=torch.Generator().manual_seed(seed),
    )
    constrained_(model, arm)
    penalty = penalty_of(model, arm, trial)

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        own = nn.functional.cross_entropy(logits, labels)
        return own if penalty is None else own + penalty()

    every = budget.steps // budget.evaluations
    observer = _Observer(model, every, held_out(stage))
    optimizer = arm.optimizer(model, trial.learning_rate)
    train(
        model,
        batches(budget.batch, seed),
        optimizer,
        steps=every * budget.evaluations,
        loss=loss,
        callback=observer,
    )
    milliseconds = statistics.median(observer.seconds) * 1e3 if observer.seconds else math.inf
    context = (network, depth, name, arm.approach, stage, *trial, seed)
    found = observer.found + [_DIVERGED] * (budget.evaluations - len(observer.found))
    return [
        Row._make((*context, number * every, *numbers, milliseconds, machine()))
        for number, numbers in enumerate(found, start=1)
    ]


_DIVERGED = (math.inf,) * 11  # from `loss` to `update_high`


class _Observer:
    """Called after every step: how long it took and, every so many steps, what the weights and the step were like."""

    def __init__(self, model: MLP, every: int, data: tuple[Tensor, Tensor]) -> None:
        self.model, self.every, self.data = model, every, data
        self.seconds: list[float] = []
        self.found: list[tuple[float, ...]] = []
        self._before = weights(model)
        self._clock = time.perf_counter()

    def __call__(self, step: Step) -> None:
        self.seconds.append(time.perf_counter() - self._clock)
        if step.number % self.every == 0:
            after = weights(self.model)
            numbers = (*quality(self.model, *self.data), *shape(after), *update_norms(after - self._before))
            self.found.append(tuple(number if math.isfinite(number) else math.inf for number in numbers))
        if (step.number + 1) % self.every == 0:
            # What the update of the next step, a measured one, starts from.
            self._before = weights(self.model)
        self._clock = time.perf_counter()


@torch.no_grad()
def weights(model: MLP) -> Tensor:
    """A copy of all hidden weights, `(layers, units, units)`."""
    return torch.stack([layer.weight for layer in hidden_layers(model)])


@torch.no_grad()
def quality(model: MLP, inputs: Tensor, labels: Tensor) -> tuple[float, float]:
    """Cross-entropy and accuracy."""
    logits = model(inputs)
    return float(nn.functional.cross_entropy(logits, labels)), float((logits.argmax(-1) == labels).double().mean())


def shape(matrices: Tensor) -> list[float]:
    """Mean deviation from orthogonality, and smallest, quartiles and largest of all singular values."""
    spectrum = singular_values(matrices).flatten()
    levels = torch.tensor(QUANTILES, dtype=spectrum.dtype, device=spectrum.device)
    return [float(soft_orthogonality(matrices).mean()), *spectrum.quantile(levels).tolist()]


def update_norms(updates: Tensor) -> list[float]:
    """RMS → RMS norms of the layers' updates: smallest, mean, largest."""
    norms = rms_operator_norm(updates)
    return [float(norms.min()), float(norms.mean()), float(norms.max())]


def batches(size: int, seed: int) -> Callable[[], Iterator[tuple[Tensor, Tensor]]]:
    digits = load("digits", "train")
    kept, generator = slice(-CHOICE_DIGITS), torch.Generator().manual_seed(seed)
    return minibatches(digits.inputs[kept].flatten(1), digits.labels[kept], size, generator)


def held_out(stage: str) -> tuple[Tensor, Tensor]:
    """What is judged by, never trained on, and different for the choice of settings and for the comparison."""
    digits = load("digits", "train" if stage == CHOICE else "test")
    part = slice(-CHOICE_DIGITS, None) if stage == CHOICE else slice(None)
    return digits.inputs[part].flatten(1), digits.labels[part]


def machine() -> str:
    """Return what a measured time depends on beside the program: the processor, and how many threads torch uses."""
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    """Return its name where Linux tells it, else its instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()
