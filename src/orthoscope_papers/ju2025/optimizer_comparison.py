"""Ju (2025), slides on gradients: do orthogonalized updates train faster? AdamW, SGD and two Muons, each tuned alike.

Two tasks: an MLP on the digits, a small causal Transformer on the characters of Python's manual. Every optimizer has
the same number of learning rates to try, tried from a seed and judged on data that the comparison does not use; then
all take the same steps from the same weights on the same batches. Rates rise for a tenth of the steps and fall to
zero. The two Muons scale steps to the size of AdamW's, so that one rate serves their matrices and their AdamW. That
embeddings and head then have a larger rate than AdamW could give to all may be part of what they gain.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from orthoscope_papers.evidence import Evidence, Verdict, student_interval
from orthoscope_papers.ju2025.tuned_training import (
    CHOICE,
    CHOICE_SEED,
    COMPARISON,
    DIGITS,
    OPTIMIZERS,
    TASKS,
    TEXT,
    Config,
    Job,
    Row,
    training,
)
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "With one learning rate for all parameters, Muon trains the Transformer to a lower held-out loss than AdamW in "
    "equally many steps, by 0.4 to 0.5 nats a character; so does torch's Muon, and a fifth of that at most separates "
    "the two. On the MLP, whose loss is that of a few unseen hands, no difference between Muon and AdamW is shown."
)
KIND = "training"
# Both Muons are alike if what separates them is at most this part of what separates them from AdamW.
ALIKE = 0.2

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
    rates=(1e-2, 3e-2, 1e-1, 3e-1, 1.0),
    sgd_rates=(1e-2, 3e-2, 1e-1, 3e-1, 1.0),
)


def run(config: Config) -> list[Row]:
    """Every optimizer at every rate from one seed, then at the best of them from every other seed."""
    return [row for task in config.tasks for name in config.optimizers for row in _tuned(config, task, name)]


def cells(config: Config) -> list[Config]:
    """One task with one optimizer: the rate that an optimizer takes does not depend on what others do."""
    return [replace(config, tasks=(task,), optimizers=(name,)) for task in config.tasks for name in config.optimizers]


def _tuned(config: Config, task: str, name: str) -> list[Row]:
    tried = [Job(task, name, rate, CHOICE, CHOICE_SEED) for rate in rates(config, name)]
    rows = [row for job in tried for row in training(config, job)]
    best = best_rate(rows, task, name)
    chosen = [Job(task, name, best, COMPARISON, seed) for seed in range(config.num_seeds)]
    return rows + [row for job in chosen for row in training(config, job)]


def rates(config: Config, optimizer: str) -> tuple[float, ...]:
    return config.sgd_rates if optimizer == "SGD" else config.rates


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
    _, low, high = student_interval(values)
    return low, high


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Each optimizer at its best rate: intervals of its final loss and of the difference from AdamW's, seed by seed.

    And the worst seed: if it diverged, the intervals say little.
    """
    return [
        {
            "task": task,
            "optimizer": name,
            "learning_rate": best_rate(rows, task, name),
            "loss": interval(list(final_losses(rows, task, name, COMPARISON).values())),
            "difference": interval(differences(rows, task, name, "AdamW")),
            "worst": max(final_losses(rows, task, name, COMPARISON).values()),
            "seeds": len(final_losses(rows, task, name, COMPARISON)),
        }
        for task in TASKS
        for name in OPTIMIZERS
    ]


def check(rows: list[Row]) -> dict[str, bool]:
    """Differences of final losses by their 95% intervals, paired by seed."""
    ahead = {(task, name): interval(differences(rows, task, name, "AdamW")) for task in TASKS for name in OPTIMIZERS}
    between = interval(differences(rows, TEXT, "Muon", "torch Muon"))
    margin = ALIKE * abs(statistics.fmean(differences(rows, TEXT, "Muon", "AdamW")))
    return {
        "every optimizer's best rate is inside the range it had to try, on both tasks": all(
            _inside(rows, task, name) for task in TASKS for name in OPTIMIZERS
        ),
        "on the Transformer Muon ends below AdamW, by a difference whose interval is below zero": (
            ahead[TEXT, "Muon"][1] < 0
        ),
        "torch's Muon does so too": ahead[TEXT, "torch Muon"][1] < 0,
        "there the two Muons end alike: the interval of their difference is within a fifth of AdamW's distance": (
            -margin <= between[0] and between[1] <= margin
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
    return found + [_between_muons(rows, task) for task in TASKS]


def _between_muons(rows: list[Row], task: str) -> Evidence:
    """Ours comes closer to UVᵀ than torch's, and nothing is said to follow from that."""
    values = differences(rows, task, "Muon", "torch Muon")
    low, high = interval(values)
    rates = ", ".join(f"{best_rate(rows, task, name):g}" for name in ("Muon", "torch Muon"))
    ends = "ours ends lower" if high < 0 else "torch's ends lower" if low > 0 else "no difference is shown"
    quantity = f"held-out loss of Muon minus that of torch's Muon, {task}"
    verdict: Verdict = "agrees" if low <= 0 <= high else "differs"
    return Evidence(quantity, None, statistics.fmean(values), low, high, verdict, f"{ends}; at rates {rates}")


def plot(rows: list[Row]) -> list[Panel]:
    """Loss on held-out data along training at each optimizer's best rate, one panel a task."""
    compared = [row for row in rows if row.stage == COMPARISON]
    return [_panel([row for row in compared if row.task == task], task) for task in TASKS]


def _panel(rows: Sequence[Row], task: str) -> Panel:
    seeds = len({row.seed for row in rows})
    series = []
    for name in OPTIMIZERS:
        own = [row for row in rows if row.optimizer == name]
        label = f"{name}, learning rate {own[0].learning_rate:g}"
        series.append(averaged(label, [(row.step, row.loss) for row in own], of=student_interval))
    measure = f"held-out cross-entropy, mean and 95% interval of {seeds} seeds"
    return Panel(task, measure, "optimizer steps", series, log_y=True)
