r"""Joudaki (2024), Figures 6.6, C.3 and C.4: weights of deep networks with batch norm stay orthogonal under SGD.

The networks of `shaped_network`, by plain SGD; hidden weights are measured before and during training, on one batch.
The thesis trains 100 to 1000 layers of 100 units on CIFAR-10 at the learning rate 0.001. Figures C.3 and C.4 are of the
same trainings, here of 20 and 80 layers. For Figure 6.6 the default is narrower rather than shallow, 100 layers of 24
units, because the bias grows with depth over width: 100 layers of 100 show little of it (a share of .41). Batches must
divide the images: one that is smaller than the width makes the gradient explode, as in Figure 6.2, and a single step
then undoes the bias.

The thesis calls the bias toward orthogonal weights implicit and leaves its mechanism open. It is the gradient: near
isometry, with $X_\ell = W_\ell X_{\ell-1}$ orthogonal, $\nabla W_\ell = A_\ell W_\ell$, and going down a layer is
$A_{\ell-1} = W_\ell^\top(A_\ell - \operatorname{diag} A_\ell)W_\ell$, because batch norm removes the diagonal. The
antisymmetric part of $A$ has none and stays; the symmetric one loses $2/(d+2)$ of its energy a layer on average, as the
isometry gap does (`haar_contraction`). So far from the head the gradient is tangent to the orthogonal group, and a
small step stays on it to first order. Measured are the isometry gap of the weights over that of a random movement of
the same size, and the share $\|\operatorname{sym} A\|_F^2/\|A\|_F^2$ of the symmetric part, one half for a random
matrix.
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
from orthoscope.training import Step, minibatches, train
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.experiments import Figure
from orthoscope_papers.joudaki2024.shaped_network import (
    EXPONENT,
    Labels,
    Pixels,
    hidden_weights,
    image_batch,
    shaped_network,
)
from orthoscope_papers.panels import Panel, averaged

KIND = "training"
DATA = ("cifar10",)
CLASSES = 10
RANDOM_SHARE = 0.5  # of the symmetric part, in a matrix without preference
SMALL = 0.05  # a gap: singular values within about a sixth of one another
FACTOR = 30.0  # between the largest and the smallest gradient of a network: e per 24 layers in the deepest


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


def cells(config: Config) -> list[Config]:
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

    def after(step: Step) -> None:
        if step.number % every == 0:
            measure(step.number)

    measure(0)
    optimizer = torch.optim.SGD(network.parameters(), config.learning_rate)
    train(network, minibatches(images, labels, config.batch, generator), optimizer, steps=config.steps, callback=after)
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
    series = [averaged(f"after {step} steps", by_layer(rows, name, step)) for step in steps]
    measure = f"{what}, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
    return Panel(title, measure, "layer", series)


# Figure 6.6: the middle layers of one deep network.


def check_middle(rows: list[Row]) -> dict[str, bool]:
    """Orthogonal, moved, and why."""
    depth = max(row.depth for row in rows)
    chosen = middle(rows, depth)
    last, deepest = max(row.step for row in rows), max(row.layer for row in rows)
    head = [row for row in rows if row.step == last and row.layer == deepest]
    gradients = statistics.fmean(row.log_gradient for row in chosen)
    return {
        "weights of the middle layers have moved": min(row.moved for row in chosen) > 1e-8,
        "they stay more orthogonal than a random movement of that size would leave them: at most 0.6 of its gap": (
            stay_orthogonal(rows, depth) < 0.6
        ),
        "their gradients lean to the tangents of the orthogonal group: a symmetric share below 0.4, random is 0.5": (
            statistics.fmean(row.symmetric for row in chosen) < 0.8 * RANDOM_SHARE
        ),
        "next to the head they are not: the symmetric share there is larger": (
            statistics.fmean(row.symmetric for row in head) > statistics.fmean(row.symmetric for row in chosen)
        ),
        "gradients of the middle layers are not small: within a factor e² of those next to the head": (
            abs(gradients - statistics.fmean(row.log_gradient for row in head)) < 2
        ),
    }


def compare_middle(rows: list[Row]) -> list[Evidence]:
    """The gap that is left, and what explains it; the thesis shows pictures."""
    depth = max(row.depth for row in rows)
    chosen = middle(rows, depth)
    seeds = sorted({row.seed for row in rows})
    gap = interval([statistics.fmean(row.gap for row in chosen if row.seed == seed) for seed in seeds])
    share = interval([statistics.fmean(row.symmetric for row in chosen if row.seed == seed) for seed in seeds])
    ratio = interval([stay_orthogonal([row for row in rows if row.seed == seed], depth) for seed in seeds])
    return [
        Evidence(
            f"isometry gap of the middle weights, depth {depth}",
            None,
            *gap,
            "agrees" if gap[2] < SMALL else "differs",
            f"after training; below {SMALL} is small",
        ),
        Evidence(
            "gap over that of a random movement of the same size",
            None,
            *ratio,
            "agrees" if ratio[2] < 1 else "differs",
            "below 1: SGD keeps to the orthogonal group" if ratio[2] < 1 else "no less than at random: see the batches",
        ),
        Evidence(
            "symmetric share of ∇W Wᵀ in the middle, random: 0.5",
            None,
            *share,
            "agrees" if share[2] < RANDOM_SHARE else "differs",
            "the mechanism that the thesis leaves open",
        ),
    ]


def plot_middle(rows: list[Row]) -> list[Panel]:
    """Gap, gradient, symmetric share over layers."""
    depth = max(row.depth for row in rows)
    return [
        panel(rows, "gap", f"Weights, {depth} layers, tanh", "isometry gap"),
        panel(rows, "log_gradient", "Gradients", "log ‖∇W‖"),
        panel(rows, "symmetric", "Why", "symmetric share of ∇W Wᵀ"),
    ]


# Figure C.3: isometry gap of weights, for several depths and activations.


def middle_gap(rows: list[Row], activation: str, depth: int) -> float:
    """Mean gap of the middle layers after training."""
    return statistics.fmean(row.gap for row in middle([r for r in rows if r.activation == activation], depth))


def _gap_share(rows: list[Row], depth: int) -> float:
    """Gap over that of a random movement, the mean of all activations."""
    names = sorted({row.activation for row in rows})
    return statistics.fmean(stay_orthogonal([r for r in rows if r.activation == name], depth) for name in names)


def check_gaps(rows: list[Row]) -> dict[str, bool]:
    """Small gaps, smaller in deeper networks."""
    depths, names = sorted({row.depth for row in rows}), sorted({row.activation for row in rows})
    return {
        "the gap of the middle layers is not zero: the weights have left the orthogonal group": all(
            middle_gap(rows, name, depth) > 1e-10 for name in names for depth in depths
        ),
        "it is smaller in the deepest network than in the shallowest, with every activation": all(
            middle_gap(rows, name, depths[-1]) < middle_gap(rows, name, depths[0]) for name in names
        ),
        "of what a random movement of the same size leaves, the deepest network has at most 0.95, and less than the "
        "shallowest": _gap_share(rows, depths[-1]) < min(0.95, _gap_share(rows, depths[0])),
    }


def compare_gaps(rows: list[Row]) -> list[Evidence]:
    """The gap in the middle; the thesis shows pictures."""
    found = []
    for name in sorted({row.activation for row in rows}):
        for depth in sorted({row.depth for row in rows}):
            chosen = middle([row for row in rows if row.activation == name], depth)
            seeds = sorted({row.seed for row in chosen})
            mean = interval([statistics.fmean(row.gap for row in chosen if row.seed == seed) for seed in seeds])
            verdict: Verdict = "agrees" if mean[0] < SMALL else "differs"
            part = stay_orthogonal([row for row in rows if row.activation == name], depth)
            why = f"below {SMALL} is small; {part:.2f} of what a random movement of the same size leaves"
            found.append(Evidence(f"isometry gap of middle weights, {name}, depth {depth}", None, *mean, verdict, why))
    return found


def plot_gaps(rows: list[Row]) -> list[Panel]:
    """A panel a depth and activation."""
    return _by_depth(rows, "gap", "gap")


def _by_depth(rows: list[Row], column: str, what: str) -> list[Panel]:
    return [
        panel([r for r in rows if (r.activation, r.depth) == (name, depth)], column, f"{name}, {depth} layers", what)
        for name in sorted({row.activation for row in rows})
        for depth in sorted({row.depth for row in rows})
    ]


# Figure C.4: gradient norms of all layers, for several depths and activations.


def spreads(rows: list[Row], activation: str, depth: int) -> list[float]:
    """Largest minus smallest log-gradient over layers, for each step and seed."""
    own = [row for row in rows if (row.activation, row.depth) == (activation, depth)]
    runs = sorted({(row.step, row.seed) for row in own})
    columns = [[row.log_gradient for row in own if (row.step, row.seed) == key] for key in runs]
    return [max(column) - min(column) for column in columns]


def check_gradients(rows: list[Row]) -> dict[str, bool]:
    """Gradients of one size over layers, and not zero."""
    depths, names = sorted({row.depth for row in rows}), sorted({row.activation for row in rows})
    last = max(row.step for row in rows)
    return {
        f"at every step the largest gradient of a layer is at most {FACTOR:g} times the smallest": all(
            max(spreads(rows, name, depth)) < math.log(FACTOR) for name in names for depth in depths
        ),
        "after training no layer has a gradient below 1e-4": all(
            row.log_gradient > math.log(1e-4) for row in rows if row.step == last
        ),
        "the weights are updated: the median layer has moved by more than 1e-4 of its norm": (
            statistics.median(row.moved for row in rows if row.step == last) > 1e-8
        ),
    }


def compare_gradients(rows: list[Row]) -> list[Evidence]:
    """Growth of the log-gradient per layer toward the input; the thesis shows pictures."""
    found = []
    last = max(row.step for row in rows)
    for name in sorted({row.activation for row in rows}):
        for depth in sorted({row.depth for row in rows}):
            slopes = []
            for seed in sorted({row.seed for row in rows}):
                own = [r for r in rows if (r.activation, r.depth, r.seed) == (name, depth, seed)]
                layers = by_layer(own, "log_gradient", last)
                slopes.append(-statistics.linear_regression(list(layers), [v[0] for v in layers.values()]).slope)
            mean = interval(slopes)
            verdict: Verdict = "agrees" if abs(mean[0]) * depth < math.log(FACTOR) else "differs"
            found.append(Evidence(f"growth of log ‖∇W‖ per layer, {name}, depth {depth}", None, *mean, verdict))
    return found


def plot_gradients(rows: list[Row]) -> list[Panel]:
    """A panel a depth and activation."""
    return _by_depth(rows, "log_gradient", "log ‖∇W‖")


# The trainings of Figures C.3 and C.4.
DEPTHS = Config(depths=(20, 80), activations=("tanh", "sin"), steps=240)
QUICK_IMAGES: dict[str, Any] = {"data": "digits", "images": 800, "layers": 13, "seeds": (0,)}
QUICK_DEPTHS = replace(DEPTHS, depths=(10, 40), width=24, batch=24, learning_rate=0.01, steps=30, **QUICK_IMAGES)
PRINTED_DEPTHS = replace(DEPTHS, depths=(100, 500, 1000), images=50000, steps=50000, seeds=(0,))

figure_6_6 = Figure(
    claim="In a deep network with batch norm and shaped tanh SGD leaves the middle layers almost orthogonal, though "
    "their gradients are not small: the gradients there are more tangent to the orthogonal group than random "
    "ones.",
    default=Config(width=24, batch=24, images=4800, steps=201),
    quick=Config(depths=(80,), width=16, batch=16, steps=45, **QUICK_IMAGES),
    full=Config(depths=(1000,), images=50000, steps=50000, seeds=(0,)),
    check=check_middle,
    compare=compare_middle,
    plot=plot_middle,
)
figure_c_3 = Figure(
    claim="During training the weights of the middle layers stay close to orthogonal, the more so the deeper the "
    "network, with tanh and with sin. Mostly because they move little: of the gap that a random movement of that "
    "size leaves, theirs is nearly all in a shallow network, and less in a deep one.",
    default=DEPTHS,
    quick=QUICK_DEPTHS,
    full=PRINTED_DEPTHS,
    check=check_gaps,
    compare=compare_gaps,
    plot=plot_gaps,
)
figure_c_4 = Figure(
    claim="During training gradients neither vanish nor explode, at any layer of any depth, with tanh and with sin.",
    default=DEPTHS,
    quick=QUICK_DEPTHS,
    full=PRINTED_DEPTHS,
    check=check_gradients,
    compare=compare_gradients,
    plot=plot_gradients,
)
