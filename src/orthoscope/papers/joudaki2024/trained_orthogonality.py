r"""Joudaki (2024), Figures 6.6, C.3 and C.4: weights of deep networks with batch norm stay orthogonal under SGD.

The networks of `shaped_network`, by plain SGD; hidden weights are measured before and during training, on one batch.
The thesis leaves the reason open. It is the gradient: near isometry, with $X_\ell = W_\ell X_{\ell-1}$ orthogonal,
$\nabla W_\ell = A_\ell W_\ell$, and going down a layer is $A_{\ell-1} = W_\ell^\top(A_\ell - \operatorname{diag}
A_\ell)W_\ell$, because batch norm removes the diagonal. The antisymmetric part of $A$ has none and stays; the symmetric
one loses $2/(d+2)$ of its energy a layer on average, as the isometry gap does (`haar_contraction`). So far from the
head the gradient is tangent to the orthogonal group, and a small step stays on it to first order. The measured
`symmetric` is the share $\|\operatorname{sym} A\|_F^2/\|A\|_F^2$, one half for a random matrix.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.metrics import isometry_gap, log_norm
from orthoscope.papers.drawing import Panel
from orthoscope.papers.joudaki2024.image_batches import Labels, Pixels, image_batch
from orthoscope.papers.joudaki2024.seed_series import seed_series, span
from orthoscope.papers.joudaki2024.shaped_network import EXPONENT, hidden_weights, shaped_network
from orthoscope.training import Step, minibatches, train

CLASSES = 10
RANDOM_SHARE = 0.5  # of the symmetric part, in a matrix without preference


@dataclass(frozen=True)
class Config:
    """What a training needs; figures differ in depths and activations."""

    data: str = "cifar10"
    depths: tuple[int, ...] = (100,)
    activations: tuple[str, ...] = ("tanh",)
    width: int = 100
    batch: int = 100
    images: int = 5000
    learning_rate: float = 0.001
    exponent: float = EXPONENT
    steps: int = 300
    measurements: int = 3  # beside the one before the first step
    layers: int = 25  # recorded at most, evenly spaced
    seeds: tuple[int, ...] = (0, 1)


class Row(NamedTuple):
    activation: str
    depth: int
    seed: int
    step: int
    layer: int  # 1 reads the images and is left out: it is not square
    gap: float  # isometry gap of the weight
    moved: float  # squared distance from the weight at the start, over the width: of a random step, the gap equals it
    log_gradient: float
    symmetric: float


def cells(config: Any) -> list[Any]:
    """One training each."""
    each = product(config.depths, config.activations, config.seeds)
    return [replace(config, depths=(d,), activations=(name,), seeds=(seed,)) for d, name, seed in each]


def run(config: Config) -> list[Row]:
    """Every depth, activation and seed."""
    rows = []
    for depth, activation, seed in product(config.depths, config.activations, config.seeds):
        rows += _trained(config, depth, activation, seed)
    return rows


def _trained(config: Config, depth: int, activation: str, seed: int) -> list[Row]:
    generator = torch.Generator().manual_seed(seed)
    images, labels = image_batch(config.data, config.images, generator)
    network = shaped_network(
        images.shape[1],
        CLASSES,
        width=config.width,
        depth=depth,
        activation=activation,
        exponent=config.exponent,
        generator=generator,
    )
    measured = images[: config.batch], labels[: config.batch]
    weights = hidden_weights(network)
    starts = [weight.detach().clone() for weight in weights]
    chosen = range(0, len(weights), -(-len(weights) // config.layers))
    every = config.steps // config.measurements
    rows = []

    def measure(step: int) -> None:
        gradients = _gradients(network, weights, *measured)
        for index in chosen:
            numbers = _numbers(weights[index].detach(), starts[index], gradients[index])
            rows.append(Row(activation, depth, seed, step, index + 2, *numbers))

    def look(step: Step) -> None:
        if step.number % every == 0:
            measure(step.number)

    measure(0)
    optimizer = torch.optim.SGD(network.parameters(), config.learning_rate)
    train(network, minibatches(images, labels, config.batch, generator), optimizer, steps=config.steps, callback=look)
    return rows


def _gradients(network: nn.Module, weights: Sequence[Tensor], images: Pixels, labels: Labels) -> tuple[Tensor, ...]:
    loss = nn.functional.cross_entropy(network(images), labels)
    return torch.autograd.grad(loss, weights)


def _numbers(weight: Tensor, start: Tensor, gradient: Tensor) -> tuple[float, float, float, float]:
    """Gap, movement, log-norm of the gradient, and the symmetric share of $A = \\nabla W\\, W^\\top$."""
    moved = (weight - start).double().square().sum() / len(weight)
    generator = (gradient @ weight.mT).double()
    symmetric = (generator + generator.mT).square().sum() / (4 * generator.square().sum())
    return float(isometry_gap(weight)), float(moved), float(log_norm(gradient)), float(symmetric)


def middle(rows: Sequence[Row], depth: int) -> list[Row]:
    """The middle half of the layers, after training."""
    last = max(row.step for row in rows)
    return [r for r in rows if r.depth == depth and r.step == last and depth / 4 <= r.layer <= 3 * depth / 4]


def by_layer(rows: Sequence[Row], name: str, step: int) -> dict[int, list[float]]:
    """Layer to a column, at one step, of all seeds and activations among the rows."""
    own = [row for row in rows if row.step == step]
    return {layer: [getattr(r, name) for r in own if r.layer == layer] for layer in sorted({r.layer for r in own})}


def stay_orthogonal(rows: Sequence[Row], depth: int) -> float:
    """Mean gap over mean movement of the middle layers: 1 without preference, 0 on the group, nan if none moved."""
    chosen = middle(rows, depth)
    moved = statistics.fmean(row.moved for row in chosen)
    return statistics.fmean(row.gap for row in chosen) / moved if moved else math.nan


def panel(rows: Sequence[Row], name: str, title: str, what: str) -> Panel:
    """A column over layers, a line for each step at which it was measured."""
    steps = sorted({row.step for row in rows})
    series = [seed_series(f"after {step} steps", by_layer(rows, name, step)) for step in steps]
    measure = f"{what}, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
    layers = [row.layer for row in rows]
    return Panel(title, measure, "layer", (min(layers), max(layers)), span(series), series)
