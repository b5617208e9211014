"""Ju (2025), slides on recurrent networks: an orthogonal memory keeps what an ordinary one forgets.

The copying task (Hochreiter & Schmidhuber, 1997; Arjovsky et al., 2016). Ten symbols of eight are shown, then blanks,
then after `delay` steps a sign to repeat the ten. Whoever remembers nothing answers blanks, then guesses: a mean
cross-entropy of 10 ln 8 / (delay + 20). Orthogonal or not, all networks have the same layers, activation (modReLU),
clipping, optimizer, data and steps, and the learning rate of the recurrent matrix that suits them best.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.training import train
from orthoscope_papers.evidence import Evidence, interval, student_interval
from orthoscope_papers.ju2025.recurrent_network import RecurrentNetwork
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "At a delay of 200, in 400 steps, a recurrent network with an orthogonal matrix learns to copy, and a free one "
    "with Gaussian weights does not. Half of it is the start: a free matrix that begins orthogonal copies as well at a "
    "recurrent learning rate of 1e-4, where the constraint costs steps at first. At 1e-3 the constrained network is "
    "ahead on the way, in the mean over steps 201 to 400 and over seeds, not surely at step 400 (a rate of generators "
    "and one of entries are not the same step); at 1e-2 none copies, and the free diverge."
)
KIND = "training"

SYMBOLS, SHOWN = 8, 10
BLANK, SIGN = 0, SYMBOLS + 1
WORDS = SYMBOLS + 2

# Name of an arm: is the recurrent matrix orthogonal by construction, and where does it begin.
ARMS = {
    "orthogonal": (True, "rotations"),
    "free, same start": (False, "rotations"),
    "free, Gaussian start": (False, "gaussian"),
}

# Parts of a training, by which share of its steps is over.
SPANS: dict[str, Callable[[float], bool]] = {
    "first half of the steps": lambda share: share <= 0.5,
    "second half of the steps": lambda share: share > 0.5,
    "last row": lambda share: share == 1,
}


@dataclass(frozen=True)
class Config:
    delay: int = 200
    hidden: int = 128
    batch: int = 20
    steps: int = 400
    every: int = 20  # steps that a row is the mean of
    learning_rate: float = 1e-3  # of everything but the recurrent matrix
    recurrent_rates: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    clip: float = 1.0
    num_seeds: int = 12


QUICK = Config(delay=30, steps=140, recurrent_rates=(1e-4, 1e-3), num_seeds=1)


class Row(NamedTuple):
    """The mean loss of the `every` steps up to `step`, infinite from where training diverged."""

    arm: str
    recurrent_rate: float
    seed: int
    step: int
    loss: float
    memoryless: float  # what remembering nothing costs


_ENOUGH_FOR_THREADS = 1 << 20  # elements of an operation that torch divides


def run(config: Config) -> list[Row]:
    """Every arm at every learning rate of the recurrent matrix, from every seed."""
    rows = []
    for rate, arm, seed in product(config.recurrent_rates, ARMS, range(config.num_seeds)):
        # A thread starts in the mode of the one that starts it, and keeps it: torch's own are started before.
        torch.ones(_ENOUGH_FOR_THREADS).exp()
        # Forgotten signals underflow, and arithmetic on subnormal numbers is many times slower.
        torch.set_flush_denormal(True)
        try:
            losses = training_losses(config, arm, rate, seed)
        finally:
            torch.set_flush_denormal(False)
        losses += [math.inf] * (config.steps - len(losses))
        for end in range(config.every, config.steps + 1, config.every):
            loss = sum(losses[end - config.every : end]) / config.every
            loss = loss if math.isfinite(loss) else math.inf
            rows.append(Row(arm, rate, seed, end, loss, memoryless(config.delay)))
    return rows


def cells(config: Config) -> list[Config]:
    """One learning rate of the recurrent matrix each."""
    return [replace(config, recurrent_rates=(rate,)) for rate in config.recurrent_rates]


def training_losses(config: Config, arm: str, recurrent_rate: float, seed: int) -> list[float]:
    """The loss of every step; every batch is new, so it is the loss on unseen sequences."""
    orthogonal, start = ARMS[arm]
    generator = torch.Generator().manual_seed(seed)
    model = RecurrentNetwork(
        in_features=WORDS,
        hidden=config.hidden,
        out_features=WORDS,
        orthogonal=orthogonal,
        recurrent_init=start,
        generator=generator,
    )
    recurrent = list(model.recurrent.parameters())
    others = [p for p in model.parameters() if all(p is not own for own in recurrent)]
    groups: list[dict[str, Any]] = [{"params": others}, {"params": recurrent, "lr": recurrent_rate}]
    optimizer = torch.optim.RMSprop(groups, config.learning_rate, alpha=0.9)

    def clip(clipped: nn.Module) -> None:
        nn.utils.clip_grad_norm_(clipped.parameters(), config.clip)

    data = torch.Generator().manual_seed(seed)  # of its own, so that all arms see the same sequences
    return train(
        model,
        lambda: sequences(config.delay, config.batch, data),
        optimizer,
        steps=config.steps,
        loss=lambda logits, words: nn.functional.cross_entropy(logits.flatten(0, 1), words.flatten()),
        clip=clip,
    ).losses


def sequences(delay: int, batch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Without end: what is shown, `(batch, delay + 20, words)` one-hot, and what is to be said, as numbers."""
    while True:
        symbols = torch.randint(1, SYMBOLS + 1, (batch, SHOWN), generator=generator)
        shown = torch.full((batch, delay + 2 * SHOWN), BLANK)
        said = shown.clone()
        shown[:, :SHOWN] = said[:, -SHOWN:] = symbols
        shown[:, SHOWN + delay - 1] = SIGN
        yield nn.functional.one_hot(shown, WORDS).to(torch.get_default_dtype()), said


def memoryless(delay: int) -> float:
    """Cross-entropy of answering blanks, then one of eight symbols at random: 10 ln 8 / (delay + 20)."""
    return SHOWN * math.log(SYMBOLS) / (delay + 2 * SHOWN)


def final_ratios(rows: Sequence[Row], arm: str) -> dict[float, list[float]]:
    """Last loss over the memoryless one, seed by seed, for every learning rate of the recurrent matrix."""
    last = max(row.step for row in rows)
    found: dict[float, list[float]] = {}
    for row in rows:
        if row.arm == arm and row.step == last:
            found.setdefault(row.recurrent_rate, []).append(row.loss / row.memoryless)
    return found


def best_rate(rows: Sequence[Row], arm: str) -> float:
    """The learning rate whose worst seed is best."""
    ratios = final_ratios(rows, arm)
    return min(ratios, key=lambda rate: max(ratios[rate]))


def log_advantages(rows: Sequence[Row], rate: float, span: str = "second half of the steps") -> list[float]:
    r"""$\overline{\log\text{loss}}$ of the free network minus the orthogonal one's, seed by seed, both from one start.

    Means over a span of `SPANS`: a single row is as rough as the training. Infinite where only the free network
    diverged, nan or minus infinity where the orthogonal one did.
    """
    last = max(row.step for row in rows)
    means = {}
    for arm in ("orthogonal", "free, same start"):
        losses: dict[int, list[float]] = {}
        for row in rows:
            if (row.arm, row.recurrent_rate) == (arm, rate) and SPANS[span](row.step / last):
                losses.setdefault(row.seed, []).append(math.log(row.loss))
        means[arm] = [statistics.fmean(losses[seed]) for seed in sorted(losses)]
    return [free - own for own, free in zip(*means.values(), strict=True)]


def constraint_helps(rows: Sequence[Row], rate: float) -> bool:
    """No orthogonal network diverged, and most free ones did, or the mean advantage over the others is above zero."""
    advantages = log_advantages(rows, rate)
    rivals = [advantage for advantage in advantages if advantage != math.inf]
    if not all(map(math.isfinite, rivals)):
        return False
    return len(rivals) < len(advantages) / 2 or student_interval(rivals)[1] > 0


def check(rows: list[Row]) -> dict[str, bool]:
    """Losses beside the memoryless one and beside each other, seed by seed."""
    orthogonal, same, gaussian = (final_ratios(rows, arm) for arm in ARMS)
    smallest, *larger = sorted(orthogonal)
    return {
        "the orthogonal network copies: below a tenth of the memoryless loss from every seed, at its best rate": (
            max(orthogonal[best_rate(rows, "orthogonal")]) < 0.1
        ),
        "the free network with a Gaussian start does not: no seed below half of it, at any rate": (
            min(min(ratios) for ratios in gaussian.values()) > 0.5
        ),
        "the start alone is enough at the smallest rate: the free network that begins orthogonal copies as well": (
            max(same[smallest]) < 0.1
        ),
        "at every larger rate the constraint helps: most free twins of the same start diverge, or their mean log-loss "
        "in the second half is higher by a difference whose interval is above zero": all(
            constraint_helps(rows, rate) for rate in larger
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The slides say that keeping norms is critical for long-term dependencies, without a number."""
    copied = interval(final_ratios(rows, "orthogonal")[best_rate(rows, "orthogonal")])
    rates = sorted({row.recurrent_rate for row in rows})
    alone = interval(final_ratios(rows, "free, same start")[rates[0]])
    forgotten = min(min(ratios) for ratios in final_ratios(rows, "free, Gaussian start").values())
    found = [
        Evidence(
            "last loss of the orthogonal network over that of remembering nothing, at its best rate",
            None,
            *copied,
            "agrees" if copied[2] < 0.5 < forgotten else "differs",
            f"with Gaussian weights, not orthogonal, the best seed at any rate ends at {forgotten:.2f}",
        ),
        Evidence(
            f"the same of a free network that begins orthogonal, at recurrent rate {rates[0]:g}",
            None,
            *alone,
            "corrected" if alone[2] < 0.5 else "agrees",
            "the start alone is enough at a small rate: the constraint is needed at larger ones",
        ),
    ]
    decided = [rate for rate in rates if all(map(math.isfinite, log_advantages(rows, rate)))]
    return found + [_advantage(rows, rate, span) for rate in decided for span in SPANS]


def _advantage(rows: list[Row], rate: float, span: str) -> Evidence:
    advantages = log_advantages(rows, rate, span)
    mean, low, high = student_interval(advantages)
    why = f"orthogonal is lower for {sum(value > 0 for value in advantages)} of {len(advantages)} seeds"
    if low <= 0:
        why += "; the opposite is seen" if high < 0 else "; not decided: 1 is in the interval"
    return Evidence(
        f"loss of that free network over its orthogonal twin's, {span}, recurrent rate {rate:g}, geometric mean",
        None,
        math.exp(mean),
        math.exp(low),
        math.exp(high),
        "agrees" if low > 0 else "differs",
        why,
    )


def plot(rows: list[Row]) -> list[Panel]:
    """Loss along training, one panel a learning rate of the recurrent matrix: mean, and range over seeds."""
    rates = sorted({row.recurrent_rate for row in rows})
    seeds = len({row.seed for row in rows})
    panels = []
    for rate in rates:
        series = []
        for arm in ARMS:
            chosen = [r for r in rows if r.arm == arm and r.recurrent_rate == rate]
            ratios = [(r.step, r.loss / r.memoryless) for r in chosen]
            series.append(averaged(arm, ratios, of=lambda values: (statistics.fmean(values), min(values), max(values))))
        panels.append(
            Panel(
                f"Recurrent learning rate {rate:g}",
                f"loss / memoryless loss, mean and range of {seeds} seeds",
                "optimizer steps",
                series,
                [("remembers nothing", 1.0)],
                y_range=(0.001, 100),
                log_y=True,
            )
        )
    return panels
