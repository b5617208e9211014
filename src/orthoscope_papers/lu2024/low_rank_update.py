"""Lu et al. (2024), appendix, equation (24): what fine-tuning by a low-rank update does to orthogonal weight vectors.

The paper argues, without an experiment, that W + BA does not significantly alter the orthogonality of the rows of W,
because normalization and skip connections make their gradients alike. Here a network learns the digits 0 to 4 and is
fine-tuned on 5 to 9, by low-rank updates of its hidden weights or in full. PII is the mean |cosine| of two rows.
"""

import copy
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
from torch import nn

from orthoscope.data import load
from orthoscope.init.weights import WeightLayer
from orthoscope.layers.low_rank import low_rank_update
from orthoscope.metrics.weights import parameter_independence
from orthoscope.models import MLP
from orthoscope.theory import random_parameter_independence
from orthoscope.training import minibatches, train
from orthoscope_papers.evidence import Evidence
from orthoscope_papers.evidence import interval as two_errors
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "At a small learning rate a low-rank update alters the orthogonality of weight vectors little, though measurably "
    "and for the worse. A large one doubles the overlap of orthogonal vectors even at rank 4, and with a high rank it "
    "destroys orthogonality, beyond what full fine-tuning at the same rate does, which moves the weights less."
)
KIND = "training"

WHOLE = 0  # stands for the rank of full fine-tuning, which has none
FIRST, SECOND = range(5), range(5, 10)  # the digits of pre-training and of fine-tuning
PIXELS = 64

# Initialization, normalization, skip connections.
NETWORKS = {
    "orthogonal": ("orthogonal", "layer", True),
    "Gaussian": ("gaussian", "layer", True),
    "orthogonal, plain": ("orthogonal", "none", False),  # neither normalized nor residual
}


@dataclass(frozen=True)
class Config:
    width: int = 128
    depth: int = 3
    ranks: tuple[int, ...] = (1, 4, 16, 64)
    learning_rates: tuple[float, ...] = (1e-3, 1e-2)
    pretraining_rate: float = 1e-3
    steps: int = 150  # of pre-training, and of fine-tuning
    batch: int = 64
    num_seeds: int = 6


# Fewer steps, so a larger rate: at 1e-2 three seeds could not tell what rank 4 does.
QUICK = Config(width=96, depth=2, ranks=(4, 64), learning_rates=(1e-3, 2e-2), steps=60, num_seeds=3)


class Row(NamedTuple):
    """A hidden weight of a fine-tuned network; its PII as drawn, after pre-training, and after fine-tuning."""

    network: str
    width: int
    rank: int
    learning_rate: float
    seed: int
    layer: int
    pii_drawn: float
    pii_before: float
    pii_after: float
    relative_update: float  # |W - W₀| / |W₀|, Frobenius
    accuracy: float  # on unseen digits of the fine-tuning classes


def run(config: Config) -> list[Row]:
    """Every network, pre-trained from every seed, fine-tuned at every rank, for every learning rate of that."""
    rows = []
    for rate, network, seed in product(config.learning_rates, NETWORKS, range(config.num_seeds)):
        init, norm, residual = NETWORKS[network]
        generator = torch.Generator().manual_seed(seed)
        model = MLP(
            depth=config.depth,
            width=config.width,
            in_features=PIXELS,
            norm=norm,
            residual=residual,
            init=init,
            bias=True,
            generator=generator,
        )
        drawn = [_pii(layer) for layer in hidden_layers(model)]
        _fit(model, FIRST, config, config.pretraining_rate, generator)
        for rank in (*config.ranks, WHOLE):
            tuned = fine_tuned(model, config, rank, rate, torch.Generator().manual_seed(seed))
            accuracy = _accuracy(tuned)
            pairs = zip(hidden_layers(model), hidden_layers(tuned), strict=True)
            for layer, (before, after) in enumerate(pairs):
                moved = (after.weight - before.weight).norm() / before.weight.norm()
                pii = drawn[layer], _pii(before), _pii(after)
                rows.append(Row(network, config.width, rank, rate, seed, layer, *pii, float(moved.detach()), accuracy))
    return rows


def cells(config: Config) -> list[Config]:
    """One learning rate of fine-tuning each."""
    return [replace(config, learning_rates=(rate,)) for rate in config.learning_rates]


def fine_tuned(model: MLP, config: Config, rank: int, rate: float, generator: torch.Generator) -> MLP:
    """A copy that learned the other digits, by low-rank updates of its hidden weights or (`WHOLE`) by all of it."""
    tuned = copy.deepcopy(model)
    if rank != WHOLE:
        for layer in hidden_layers(tuned):
            low_rank_update(layer, rank=rank, generator=generator)
    _fit(tuned, SECOND, config, rate, generator)
    return tuned


def hidden_layers(model: MLP) -> list[nn.Linear]:
    """The square ones: neither the first, which reads pixels, nor the head."""
    return [m for block in list(model.layers)[1:] for m in block.modules() if isinstance(m, nn.Linear)]


def _fit(model: MLP, classes: range, config: Config, rate: float, generator: torch.Generator) -> None:
    inputs, labels = _digits(classes, "train")
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], rate)
    train(model, minibatches(inputs, labels, config.batch, generator), optimizer, steps=config.steps)


@torch.no_grad()
def _accuracy(model: MLP) -> float:
    inputs, labels = _digits(SECOND, "test")
    return float((model(inputs).argmax(-1) == labels).double().mean())


def _digits(classes: range, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    data = load("digits", split)
    chosen = torch.isin(data.labels, torch.tensor(classes))
    return data.inputs[chosen].flatten(1), data.labels[chosen]


def _pii(layer: WeightLayer) -> float:
    return float(parameter_independence(layer.weight.detach()))


def rises(rows: Sequence[Row], network: str, rank: int, rate: float) -> list[float]:
    """How much fine-tuning raised PII, seed by seed, mean over layers."""
    chosen = [r for r in rows if (r.network, r.rank, r.learning_rate) == (network, rank, rate)]
    return [
        statistics.mean(r.pii_after - r.pii_before for r in chosen if r.seed == seed)
        for seed in sorted({r.seed for r in chosen})
    ]


three_errors = partial(two_errors, errors=3.0)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean plus and minus three standard errors."""
    _, low, high = three_errors(values)
    return low, high


def check(rows: list[Row]) -> dict[str, bool]:
    """What was found, in units of the PII of random vectors, with the limits that the paper does not state."""
    ranks = sorted({row.rank for row in rows} - {WHOLE})
    small, large = min(row.learning_rate for row in rows), max(row.learning_rate for row in rows)
    low, high = [rank for rank in ranks if rank <= 4], ranks[-1]
    random = random_parameter_independence(rows[0].width)
    drawn = [r.pii_drawn for r in rows if (r.network, r.rank, r.learning_rate) == ("Gaussian", WHOLE, small)]
    lowest, highest = interval(drawn)
    return {
        "Gaussian weights begin at the theoretical value of random vectors, within three standard errors": (
            lowest < random < highest
        ),
        "rank up to 4, small rate: PII rises by less than a tenth of the random value, in every network": all(
            interval(rises(rows, network, rank, small))[1] < 0.1 * random for network in NETWORKS for rank in low
        ),
        "but it does rise: zero is outside the interval for the orthogonal, normalized, residual network": (
            interval(rises(rows, "orthogonal", max(low), small))[0] > 0
        ),
        "at the small rate full fine-tuning raises it more than rank up to 4, in every network": all(
            statistics.mean(rises(rows, network, WHOLE, small)) > statistics.mean(rises(rows, network, rank, small))
            for network in NETWORKS
            for rank in low
        ),
        "the highest rank at the large rate destroys orthogonality: PII rises by more than the random value": all(
            interval(rises(rows, network, high, large))[0] > random for network in NETWORKS
        ),
        "there a low-rank update is worse than full fine-tuning at the same rate": all(
            statistics.mean(rises(rows, network, high, large)) > statistics.mean(rises(rows, network, WHOLE, large))
            for network in NETWORKS
        ),
        "rank 4 at the large rate at least doubles the overlap that orthogonal networks had": (
            interval(rises(rows, "orthogonal", max(low), large))[0]
            > statistics.mean(row.pii_before for row in rows if row.network == "orthogonal")
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The paper argues that orthogonality is "not significantly altered", without a number; here is how much it is."""
    small, large = min(row.learning_rate for row in rows), max(row.learning_rate for row in rows)
    random = random_parameter_independence(rows[0].width)
    high = max(row.rank for row in rows)
    little = two_errors(rises(rows, "orthogonal", 4, small))
    much = two_errors(rises(rows, "orthogonal", high, large))
    return [
        Evidence(
            f"rise of PII by an update of rank 4 at learning rate {small:g}, orthogonal start",
            None,
            *little,
            "agrees" if little[2] < 0.1 * random else "differs",
            f"less than a tenth of {random:.3f}, the PII of random vectors, is taken for not significant",
        ),
        Evidence(
            f"rise of PII by an update of rank {high} at learning rate {large:g}, orthogonal start",
            None,
            *much,
            "corrected" if much[1] > random else "agrees",
            f"a low rank does not protect: larger ones raise PII by more than {random:.3f}, that of random vectors",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    """PII after fine-tuning against the rank, one panel a network, with the level before and that of random vectors."""
    ranks = sorted({row.rank for row in rows} - {WHOLE})
    seeds, random = len({row.seed for row in rows}), random_parameter_independence(rows[0].width)
    panels = []
    for network in NETWORKS:
        own = [row for row in rows if row.network == network]
        before = statistics.mean(row.pii_before for row in own)
        series = []
        for rate in sorted({row.learning_rate for row in own}):
            levels = {rank: [before + rise for rise in rises(rows, network, rank, rate)] for rank in ranks}
            full = [before + rise for rise in rises(rows, network, WHOLE, rate)]
            series.append(averaged(f"low rank, learning rate {rate:g}", levels, of=three_errors))
            series.append(averaged(f"full, learning rate {rate:g}", dict.fromkeys(ranks, full), of=three_errors))
        title = f"Start: {network}"
        measure = f"PII after fine-tuning, mean ± 3 s.e. of {seeds} seeds"
        references = [("before", before), ("random vectors", random)]
        panels.append(Panel(title, measure, "rank", series, references, y_range=(0.01, 1), log_x=True, log_y=True))
    return panels
