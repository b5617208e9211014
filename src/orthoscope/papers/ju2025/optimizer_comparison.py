"""Ju (2025), slides on gradients: do orthogonalised updates train faster? AdamW, SGD and two Muons, each tuned alike.

Two tasks: an MLP on the digits, a small causal Transformer on the characters of Python's manual. Every optimizer has
the same number of learning rates to try, tried from a seed and judged on data that the comparison does not use; then
all take the same steps from the same weights on the same batches. Rates rise for a tenth of the steps and fall to
zero. The two Muons scale steps to the size of AdamW's, so that one rate serves their matrices and their AdamW. That
embeddings and head then have a larger rate than AdamW could give to all may be part of what they gain.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from scipy.special import stdtrit
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from orthoscope.data import load
from orthoscope.data.python_manual import VOCABULARY, python_manual
from orthoscope.models import MLP, Transformer
from orthoscope.papers.drawing import Panel, Series, figure
from orthoscope.papers.evidence import Evidence, Verdict
from orthoscope.papers.ju2025.optimizers import OPTIMIZERS
from orthoscope.papers.workers import mapped
from orthoscope.training import Step, minibatches, train

CLAIM = (
    "With one learning rate for all parameters, Muon trains the Transformer to a lower held-out loss than AdamW in "
    "equally many steps, by 0.4 to 0.5 nats a character; so does torch's Muon, and the two cannot be told apart. On "
    "the MLP, whose loss is that of a few unseen hands, no difference between Muon and AdamW is shown."
)
KIND = "training"

TASKS = DIGITS, TEXT = "MLP, digits", "Transformer, text"
CHOICE, COMPARISON = "choice", "comparison"  # of the learning rate; of the optimizers at their best rates
CHOICE_SEED = 1000
CHOICE_DIGITS = 240  # the last of the training digits, by which rates are chosen


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
    num_seeds: int = 5
    workers: int = 2  # processes of one thread each; 0 computes here


QUICK = Config(
    digits_width=32,
    digits_depth=2,
    digits_steps=60,
    text_width=16,
    text_depth=1,
    text_steps=40,
    text_batch=8,
    length=16,
    evaluations=2,
    rates=(1e-2, 3e-2, 1e-1, 3e-1),
    sgd_rates=(3e-2, 1e-1, 3e-1, 1.0),
    workers=0,
)


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


def run(config: Config) -> list[Row]:
    """Every optimizer at every rate from one seed, then at the best of them from every other seed."""
    pairs = [(task, name) for task in TASKS for name in OPTIMIZERS]
    tried = [Job(*pair, rate, CHOICE, CHOICE_SEED) for pair in pairs for rate in rates(config, pair[1])]
    rows = _trained(config, tried)
    chosen = [
        Job(*pair, best_rate(rows, *pair), COMPARISON, seed) for pair in pairs for seed in range(config.num_seeds)
    ]
    return rows + _trained(config, chosen)


def rates(config: Config, optimizer: str) -> tuple[float, ...]:
    return config.sgd_rates if optimizer == "SGD" else config.rates


def _trained(config: Config, jobs: Sequence[Job]) -> list[Row]:
    return [row for rows in mapped(training, [(config, job) for job in jobs], config.workers) for row in rows]


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


def final_losses(rows: Sequence[Row], task: str, optimizer: str, stage: str) -> dict[tuple[float, int], float]:
    """By learning rate and seed."""
    chosen = [row for row in rows if (row.task, row.optimizer, row.stage) == (task, optimizer, stage)]
    last = max(row.step for row in chosen)
    return {(row.learning_rate, row.seed): row.loss for row in chosen if row.step == last}


def best_rate(rows: Sequence[Row], task: str, optimizer: str) -> float:
    """The learning rate of the smallest loss among those tried."""
    losses = final_losses(rows, task, optimizer, CHOICE)
    return min(losses, key=lambda key: losses[key])[0]


def differences(rows: Sequence[Row], task: str, one: str, other: str) -> list[float]:
    """Final loss of one optimizer minus that of the other, seed by seed."""
    ours, theirs = (final_losses(rows, task, name, COMPARISON).values() for name in (one, other))
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95% interval of the mean; from minus to plus infinity if a value is infinite."""
    if not all(map(math.isfinite, values)):
        return -math.inf, math.inf
    mean, error = statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))
    reach = float(stdtrit(len(values) - 1, 0.975)) * error
    return mean - reach, mean + reach


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Each optimizer at its best rate: intervals of its final loss and of the difference from AdamW's, seed by seed."""
    return [
        {
            "task": task,
            "optimizer": name,
            "learning_rate": best_rate(rows, task, name),
            "loss": interval(list(final_losses(rows, task, name, COMPARISON).values())),
            "difference": interval(differences(rows, task, name, "AdamW")),
            "seeds": len(final_losses(rows, task, name, COMPARISON)),
        }
        for task in TASKS
        for name in OPTIMIZERS
    ]


def check(rows: list[Row]) -> dict[str, bool]:
    """Differences of final losses by their 95% intervals, paired by seed."""
    ahead = {(task, name): interval(differences(rows, task, name, "AdamW")) for task in TASKS for name in OPTIMIZERS}
    between = [interval(differences(rows, task, "Muon", "torch Muon")) for task in TASKS]
    return {
        "every optimizer's best rate is inside the range it had to try, on both tasks": all(
            _inside(rows, task, name) for task in TASKS for name in OPTIMIZERS
        ),
        "on the Transformer Muon ends below AdamW, by a difference whose interval is below zero": (
            ahead[TEXT, "Muon"][1] < 0
        ),
        "torch's Muon does so too": ahead[TEXT, "torch Muon"][1] < 0,
        "the two Muons are not told apart: the interval of their difference has zero in it, on both tasks": all(
            low <= 0 <= high for low, high in between
        ),
        "on the MLP Muon is not shown to beat AdamW: the interval of the difference reaches above zero": (
            ahead[DIGITS, "Muon"][1] >= 0
        ),
        "SGD is not shown to beat AdamW on either task": all(ahead[task, "SGD"][1] >= 0 for task in TASKS),
    }


def _inside(rows: Sequence[Row], task: str, optimizer: str) -> bool:
    tried = [rate for rate, _ in final_losses(rows, task, optimizer, CHOICE)]
    return min(tried) < best_rate(rows, task, optimizer) < max(tried)


def compare(rows: list[Row]) -> list[Evidence]:
    """The slides report speed records of Muon on large tasks; here are losses after as many steps on small ones."""
    found = []
    for task in TASKS:
        values = differences(rows, task, "Muon", "AdamW")
        low, high = interval(values)
        why = "95% interval, paired by seed"
        if high >= 0:
            why = "AdamW ends lower" if low > 0 else "no difference is shown: the interval has zero in it"
        quantity = f"held-out loss of Muon minus that of AdamW after equally many steps, {task}"
        verdict: Verdict = "agrees" if high < 0 else "differs"
        found.append(Evidence(quantity, None, statistics.fmean(values), low, high, verdict, why))
    return found


def plot(rows: list[Row]) -> str:
    """Loss on held-out data along training at each optimizer's best rate, one panel a task."""
    compared = [row for row in rows if row.stage == COMPARISON]
    return figure([_panel([row for row in compared if row.task == task], task) for task in TASKS])


def _panel(rows: Sequence[Row], task: str) -> Panel:
    steps, seeds = sorted({row.step for row in rows}), len({row.seed for row in rows})
    series = []
    for name in OPTIMIZERS:
        own = [row for row in rows if row.optimizer == name]
        losses = [[row.loss for row in own if row.step == step] for step in steps]
        ends = [interval(values) for values in losses]
        label = f"{name}, learning rate {own[0].learning_rate:g}"
        means = [sum(values) / len(values) for values in losses]
        series.append(Series(label, steps, means, [low for low, _ in ends], [high for _, high in ends]))
    finite = [row.loss for row in rows if math.isfinite(row.loss)]
    measure = f"held-out cross-entropy, mean and 95% interval of {seeds} seeds"
    heights = (min(finite, default=0.1) / 1.2, max(finite, default=1.0) * 1.2)
    return Panel(task, measure, "optimizer steps", (0, steps[-1]), heights, series, logarithmic_up=True)
