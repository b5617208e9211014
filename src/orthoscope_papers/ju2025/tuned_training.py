"""One training of `optimizer_comparison`: optimizers, networks, data, schedule, and held-out loss."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from orthoscope.data import load
from orthoscope.data.dataset import VOCABULARY, python_manual
from orthoscope.models import MLP, Transformer
from orthoscope.optim import Muon, muon_parameter_groups
from orthoscope.training import Step, minibatches, train

TASKS = DIGITS, TEXT = "MLP, digits", "Transformer, text"
CHOICE, COMPARISON = "choice", "comparison"  # of the learning rate; of the optimizers at their best rates
CHOICE_SEED = 1000
CHOICE_DIGITS = 240  # the last of the training digits, by which rates are chosen

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


@dataclass(frozen=True)
class Config:
    digits_width: int = 64
    digits_depth: int = 4
    digits_steps: int = 120
    digits_batch: int = 64
    text_width: int = 64
    text_depth: int = 2
    text_steps: int = 240
    text_batch: int = 16
    length: int = 64  # characters
    windows: int = 128  # of that length, by which a Transformer is judged
    evaluations: int = 4  # along a training, equally spaced, the last at its end
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # of AdamW and both Muons
    sgd_rates: tuple[float, ...] = (1e-2, 3e-2, 1e-1, 3e-1, 1.0)
    tasks: tuple[str, ...] = TASKS
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS)
    num_seeds: int = 5


class Job(NamedTuple):
    """One training."""

    task: str
    optimizer: str
    learning_rate: float
    stage: str
    seed: int


class Row(NamedTuple):
    """Cross-entropy on held-out data after `step` steps of a training, infinite from where it diverged."""

    task: str
    optimizer: str
    learning_rate: float
    stage: str
    seed: int
    step: int
    loss: float


def training(config: Config, job: Job) -> list[Row]:
    """The losses on held-out data along one training; weights and batches depend on task and seed alone."""
    model = network(config, job.task, torch.Generator().manual_seed(job.seed))
    steps = config.digits_steps if job.task == DIGITS else config.text_steps
    inputs, targets = held_out(config, job.task, job.stage)
    losses: list[float] = []

    def evaluate(step: Step) -> None:
        if step.number % (steps // config.evaluations) == 0:
            with torch.no_grad():
                losses.append(float(cross_entropy(step.model(inputs), targets)))

    optimizer = OPTIMIZERS[job.optimizer](model, job.learning_rate)
    train(
        model,
        batches(config, job.task, torch.Generator().manual_seed(job.seed)),
        optimizer,
        steps=steps,
        loss=cross_entropy,
        schedule=LambdaLR(optimizer, lambda taken: rising_and_falling(taken, steps)),
        callback=evaluate,
    )
    losses = [loss if math.isfinite(loss) else math.inf for loss in losses]
    losses += [math.inf] * (config.evaluations - len(losses))
    every = steps // config.evaluations
    return [Row(*job, number * every, loss) for number, loss in enumerate(losses, start=1)]


def rising_and_falling(taken: int, steps: int) -> float:
    """The part of the learning rate that the next step has: up for a tenth of all steps, then down to zero."""
    rising = max(1, steps // 10)
    return min((taken + 1) / rising, (steps - taken) / (steps - rising))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over samples, and over characters if there are any."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def network(config: Config, task: str, generator: torch.Generator) -> nn.Module:
    if task == DIGITS:
        width, depth = config.digits_width, config.digits_depth
        return MLP(depth=depth, width=width, in_features=64, bias=True, generator=generator)
    return Transformer(
        depth=config.text_depth,
        width=config.text_width,
        vocabulary=VOCABULARY,
        length=config.length,
        generator=generator,
    )


def batches(config: Config, task: str, generator: torch.Generator) -> Callable[[], Iterator[tuple[Tensor, Tensor]]]:
    """What is trained on: shuffled digits, or windows of text, each shown beside itself one character later."""
    if task == DIGITS:
        digits = load("digits", "train")
        kept = slice(-CHOICE_DIGITS)
        return minibatches(digits.inputs[kept].flatten(1), digits.labels[kept], config.digits_batch, generator)
    windows = python_manual("train").unfold(0, config.length + 1, 1)

    def drawn() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            chosen = windows[torch.randint(len(windows), (config.text_batch,), generator=generator)]
            yield chosen[:, :-1], chosen[:, 1:]

    return drawn


def held_out(config: Config, task: str, stage: str) -> tuple[Tensor, Tensor]:
    """What is judged by, never trained on, and different for the choice of rates and for the comparison."""
    if task == DIGITS:
        digits = load("digits", "train" if stage == CHOICE else "test")
        part = slice(-CHOICE_DIGITS, None) if stage == CHOICE else slice(None)
        return digits.inputs[part].flatten(1), digits.labels[part]
    text = python_manual("validation" if stage == CHOICE else "test")
    windows = text.unfold(0, config.length + 1, config.length)[: config.windows]
    return windows[:, :-1], windows[:, 1:]
