r"""Joudaki (2024), Figures 6.4 and C.5 to C.8: accuracy over training of deep networks with batch norm and shaping.

The networks of `shaped_network`, by plain SGD. The thesis trains 100 to 1000 layers on a GPU for many epochs at the
learning rate 0.001; the default here is a few hundred steps on 10 and 100 layers and a part of the images, at 0.05, by
which the activations part sooner. Both accuracies are taken with the statistics of batches, as large as those of
training: running averages through a hundred layers lag behind the weights. Figures 6.4 and C.8 are of the same
trainings. CIFAR-100, of Figure C.7, cannot be fetched by name: by default the trainings on CIFAR-10 stand in, and the
full setting reads CIFAR-100 from disk (`orthoscope_papers.datasets`).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch import nn

from orthoscope.training import Step, minibatches, train
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.experiments import Figure
from orthoscope_papers.image_sets.catalog import entry_named
from orthoscope_papers.joudaki2024.shaped_network import (
    EXPONENT,
    FUNCTIONS,
    Labels,
    Pixels,
    image_batch,
    shaped_network,
)
from orthoscope_papers.panels import Panel, averaged

KIND = "training"
ACTIVATIONS = tuple(FUNCTIONS)


@dataclass(frozen=True)
class Config:
    """What a training needs; figures differ in the images."""

    data: str = "cifar10"
    depths: tuple[int, ...] = (10, 100)
    width: int = 100
    batch: int = 100
    images: int = 5000  # to train on
    tested: int = 1000
    learning_rate: float = 0.05
    exponent: float = EXPONENT
    steps: int = 400
    evaluations: int = 4  # beside the one before the first step
    seeds: tuple[int, ...] = (0, 1, 2, 3)


QUICK = Config(
    data="digits",
    depths=(5, 20),
    width=48,
    batch=50,
    images=1000,
    tested=300,
    learning_rate=0.1,
    steps=160,
    seeds=(0,),
)
# The thesis' own setting.
PRINTED = Config(depths=(100, 500, 1000), images=50000, tested=10000, learning_rate=0.001, steps=50000, seeds=(0,))


class Row(NamedTuple):
    data: str
    activation: str
    depth: int
    seed: int
    step: int
    train_accuracy: float
    test_accuracy: float


def cells(config: Config) -> list[Config]:
    """One depth and seed each."""
    return [replace(config, depths=(depth,), seeds=(seed,)) for depth in config.depths for seed in config.seeds]


def run(config: Config) -> list[Row]:
    """Every depth, seed and activation, trained on images that depend on the seed alone."""
    rows = []
    for depth, seed, activation in product(config.depths, config.seeds, ACTIVATIONS):
        rows += _trained(config, depth, seed, activation)
    return rows


def _trained(config: Config, depth: int, seed: int, activation: str) -> list[Row]:
    generator = torch.Generator().manual_seed(seed)
    images, labels = image_batch(config.data, config.images, generator)
    unseen = image_batch(config.data, config.tested, generator, "test")
    network = shaped_network(
        images.shape[1],
        classes(config.data),
        width=config.width,
        depth=depth,
        activation=activation,
        exponent=config.exponent,
        generator=generator,
    )
    seen = images[: config.tested], labels[: config.tested]
    every = config.steps // config.evaluations
    rows = []

    def measure(step: int) -> None:
        accuracies = (accuracy(network, *part, config.batch) for part in (seen, unseen))
        rows.append(Row(config.data, activation, depth, seed, step, *accuracies))

    def after(step: Step) -> None:
        if step.number % every == 0:
            measure(step.number)

    measure(0)
    optimizer = torch.optim.SGD(network.parameters(), config.learning_rate)
    train(network, minibatches(images, labels, config.batch, generator), optimizer, steps=config.steps, callback=after)
    return rows


def classes(data: str) -> int:
    """Of a set of images, which need not be here: a saved table is judged without them."""
    return entry_named(data).classes


@torch.no_grad()
def accuracy(network: nn.Module, images: Pixels, labels: Labels, batch: int) -> float:
    """Share of images classified rightly, in batches that are normalized by themselves."""
    hits = [network(part).argmax(-1) == own for part, own in zip(images.split(batch), labels.split(batch), strict=True)]
    return float(torch.cat(hits).double().mean())


def final(rows: Sequence[Row], activation: str, depth: int, split: str = "train") -> list[float]:
    """Accuracy after the last step, seed by seed."""
    last = max(row.step for row in rows)
    chosen = [row for row in rows if (row.activation, row.depth, row.step) == (activation, depth, last)]
    return [row.train_accuracy if split == "train" else row.test_accuracy for row in chosen]


def check(rows: list[Row]) -> dict[str, bool]:
    """Deep networks learn, and as well as shallow ones; non-linearity is at work."""
    depths, chance = sorted({row.depth for row in rows}), 1 / classes(rows[0].data)
    means = {(name, depth): statistics.fmean(final(rows, name, depth)) for name in ACTIVATIONS for depth in depths}
    return {
        "every network learns, at every depth: accuracy on training images of at least three times chance": all(
            mean > 3 * chance for mean in means.values()
        ),
        f"depth hardly matters: {depths[-1]} layers learn at least 0.7 of what {depths[0]} learn beyond chance": all(
            means[name, depths[-1]] - chance > 0.7 * (means[name, depths[0]] - chance) for name in ACTIVATIONS
        ),
        f"of {depths[-1]} layers, tanh and sin end above the identity on training images: they are not linear": all(
            means[name, depths[-1]] > means["identity", depths[-1]] for name in ("tanh", "sin")
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The gain in accuracy by non-linearity, and the loss by depth, where the thesis shows curves."""
    depths, data = sorted({row.depth for row in rows}), rows[0].data
    found = []
    for name in ("tanh", "sin"):
        for split in ("train", "test"):
            pairs = zip(final(rows, name, depths[-1], split), final(rows, "identity", depths[-1], split), strict=True)
            mean, low, high = interval([shaped - identity for shaped, identity in pairs])
            why = (
                "the non-linear network is ahead, as the curves show"
                if low > 0
                else "not ahead after these few steps: the curves of the thesis part after many epochs"
            )
            quantity = f"{split} accuracy of {name} beyond identity, {data}, depth {depths[-1]}"
            found.append(Evidence(quantity, None, mean, low, high, "agrees" if low > 0 else "differs", why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """A panel an activation: accuracy on training and unseen images over steps, shallow and deep."""
    data, seeds = rows[0].data, len({row.seed for row in rows})
    panels = []
    for name in ACTIVATIONS:
        series = []
        for depth in sorted({row.depth for row in rows})[-2:]:
            own = [row for row in rows if (row.activation, row.depth) == (name, depth)]
            steps = sorted({row.step for row in own})
            seen = {step: [row.train_accuracy for row in own if row.step == step] for step in steps}
            unseen = {step: [row.test_accuracy for row in own if row.step == step] for step in steps}
            series.append(averaged(f"{depth} layers, training images", seen))
            series.append(averaged(f"{depth} layers, unseen images", unseen))
        measure = f"accuracy on {data}, mean ± 2 s.e. of {seeds} seeds"
        panels.append(Panel(name, measure, "steps", series, y_range=(0, 1)))
    return panels


figure_6_4 = Figure(
    claim="On CIFAR-10, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at "
    "any depth, almost alike, and the non-linear ones fit the training images better than the identity.",
    data=("cifar10",),
    full=PRINTED,
)
figure_c_5 = Figure(
    claim="On MNIST, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at "
    "any depth, almost alike, and the non-linear ones learn more than the identity.",
    data=("mnist",),
    default=Config(data="mnist"),
    full=replace(PRINTED, data="mnist"),
)
figure_c_6 = Figure(
    claim="On Fashion-MNIST, networks of orthogonal weights, batch norm and activations shaped toward the identity "
    "learn at any depth, almost alike, and the non-linear ones learn more than the identity.",
    data=("fashion-mnist",),
    default=Config(data="fashion-mnist"),
    full=replace(PRINTED, data="fashion-mnist"),
)
figure_c_7 = Figure(
    claim="On CIFAR-100 (by default the trainings on CIFAR-10 stand in), networks of orthogonal weights, batch norm "
    "and activations shaped toward the identity learn at any depth, almost alike, and the non-linear ones fit the "
    "training images better than the identity.",
    data=("cifar10",),
    full_data=("cifar100",),
    full=replace(PRINTED, data="cifar100"),
)
figure_c_8 = Figure(
    claim="On CIFAR-10, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at "
    "any depth, almost alike; the non-linear ones fit the training images better than the identity, and whether "
    "they are better on other images is not decided by so short a training.",
    data=("cifar10",),
    full=PRINTED,
)
