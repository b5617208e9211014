r"""Networks of li2023 before and after training, with and without skips: all four scores, and what their figures show.

Type 1 is fully connected, type 2 convolutional, type 3 down-samples (`models.ResNet`). A network is trained by SGD with
momentum, weight decay and a cosine schedule; its Jacobians are taken at some of the training images, with batch norm
using the statistics of the training data, before the first step and after the last. Without skips a block is its own
branch. Images are averaged over squares of `pool`² pixels where the machine asks for smaller ones.

Learning rate, decay, width and size of images were chosen by looking at trained networks, mostly of seed 0 on MNIST and
CIFAR-10, and the limits of the checks at runs of seeds 0 to 4. The seeds of the default are others: its results had no
part in that choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.metrics import ResidualAlignment, misalignment, residual_alignment
from orthoscope.metrics.jacobians import defined_median
from orthoscope.models import ResNet
from orthoscope.probe import ResidualJacobians, residual_jacobians
from orthoscope.training import minibatches, train
from orthoscope_papers.image_sets import load

CLASSES = 10
# Of a row: what the value is. The scores have no block; a pair has two.
SCORES = (
    *("line_shape", "step_cosine", "spacing_variation", "misalignment", "reversed_misalignment"),
    *("leading_misalignment", "rank_ratio", "top_energy", "slope", "r_squared", "exponent", "loss"),
)
LEADING, PAIR, FIRST_AXIS, SECOND_AXIS, ENTRY = "leading", "pair", "first_axis", "second_axis", "entry"


@dataclass(frozen=True)
class Config:
    """What a training needs; the three types differ in it."""

    kind: int
    blocks: tuple[int, ...]  # of every stage
    width: int
    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    skips: tuple[bool, ...] = (True, False)
    pools: tuple[int, ...] = (1, 1, 1)  # for each of the data
    images: int = 1000
    steps: int = 800
    batch: int = 100
    learning_rate: float = 0.3
    weight_decay: float = 3e-3
    samples: int = 8  # whose Jacobians are taken
    shown: int = 4  # singular vectors of a block in the picture of RA2
    seeds: tuple[int, ...] = (5, 6, 7, 8, 9)
    pictured: int = 5  # the seed whose paths and matrices are kept for the figure


class Row(NamedTuple):
    data: str
    skip: int
    seed: int
    trained: int
    quantity: str
    block: int  # from 1; 0 for the whole network
    other: int
    value: float


def cells(config: Config) -> list[Config]:
    """One training each."""
    each = product(zip(config.data, config.pools, strict=True), config.skips, config.seeds)
    return [
        replace(config, data=(name,), pools=(pool,), skips=(skip,), seeds=(seed,)) for (name, pool), skip, seed in each
    ]


def run(config: Config) -> list[Row]:
    """Every dataset, with and without skips, from every seed."""
    rows: list[Row] = []
    for (name, pool), skip, seed in product(zip(config.data, config.pools, strict=True), config.skips, config.seeds):
        rows += _trained(config, name, pool, skip, seed)
    return rows


def _trained(config: Config, name: str, pool: int, skip: bool, seed: int) -> Iterator[Row]:
    generator = torch.Generator().manual_seed(seed)
    images, labels = load(name).batch(config.images, generator)
    images = nn.functional.avg_pool2d(images, pool)
    images = (images - images.mean()) / images.std()
    network = _network(config, images, skip, generator)
    yield from _measured(config, network, images, (name, int(skip), seed, 0))
    optimizer = torch.optim.SGD(
        network.parameters(), config.learning_rate, momentum=0.9, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    data = minibatches(images, labels, config.batch, generator)
    history = train(network, data, optimizer, steps=config.steps, schedule=schedule)
    yield from _measured(config, network, images, (name, int(skip), seed, 1))
    yield Row(name, int(skip), seed, 1, "loss", 0, 0, history.final())


def _network(config: Config, images: Tensor, skip: bool, generator: torch.Generator) -> ResNet:
    return ResNet(
        kind=config.kind,
        blocks=config.blocks if config.kind == 3 else config.blocks[0],
        width=config.width,
        in_channels=images.shape[1],
        image_size=images.shape[2],
        num_classes=CLASSES,
        skip=skip,
        generator=generator,
    )


def _measured(config: Config, network: ResNet, images: Tensor, of: tuple[str, int, int, int]) -> Iterator[Row]:
    names = [f"layers.{index}" for index in range(len(network.layers))]
    jacobians = residual_jacobians(
        network, images[: config.samples], names, CLASSES + 1, statistics=images, tolerance=1e-3
    )
    found = residual_alignment(jacobians, jacobians.path, classes=CLASSES)
    for name, value in _scores(found).items():
        yield Row(*of, name, 0, 0, value)
    for index, values in enumerate(found.leading, start=1):
        yield Row(*of, LEADING, index, 0, defined_median(values))
    if of[2] == config.pictured and of[1]:
        yield from _pictured(found, jacobians, config.shown, of)


def _scores(found: ResidualAlignment) -> dict[str, float]:
    """Medians over samples; of what every block has, over blocks too."""
    leading = misalignment(found.left_right[..., :1, :1], found.leading.unsqueeze(-1))
    different = ~torch.eye(len(found.names), dtype=torch.bool)
    scores = {
        "line_shape": found.line_shape,
        "step_cosine": found.step_cosine,
        "spacing_variation": found.spacing_variation,
        "misalignment": found.misalignment,
        "reversed_misalignment": found.reversed_misalignment,
        "leading_misalignment": leading[different].nanmean(0),
        "rank_ratio": found.rank_ratio,
        "top_energy": found.top_energy,
        "slope": found.law.slope,
        "r_squared": found.law.r_squared,
        "exponent": found.law.exponent,
    }
    return {name: defined_median(value) for name, value in scores.items()}


def _pictured(
    found: ResidualAlignment, jacobians: ResidualJacobians, shown: int, of: tuple[str, int, int, int]
) -> Iterator[Row]:
    """For the figures: the first sample's path in two dimensions, pairs of blocks, entries of RA2's matrices."""
    for index, (first, second) in enumerate(_plane(jacobians.path), start=1):
        yield Row(*of, FIRST_AXIS, index, 0, first)
        yield Row(*of, SECOND_AXIS, index, 0, second)
    blocks = range(len(found.names))
    for i, j in product(blocks, blocks):
        yield Row(*of, PAIR, i + 1, j + 1, _rounded(torch.tensor(defined_median(found.pairs[i, j]))))
    # |U_jᵀ J_i V_j| over the largest singular value of J_i: rows of the grid are (i, p), columns (j, q).
    for i, p, j, q in product(blocks, range(shown), blocks, range(shown)):
        value = found.left_right[i, j, 0, p, q] / found.leading[i, 0]
        yield Row(*of, ENTRY, i * shown + p + 1, j * shown + q + 1, _rounded(value))


def _plane(path: list[Tensor]) -> list[tuple[float, float]]:
    """The last stage of the first sample's path on its two principal axes, in units of its length from end to end."""
    size = path[-1].shape[-1]
    points = torch.stack([point[0].double() for point in path if point.shape[-1] == size])
    centered = points - points.mean(0)
    axes = torch.linalg.svd(centered, full_matrices=False).Vh[:2]
    # The sign of an axis is arbitrary: it goes the way the representation goes.
    axes = axes * torch.where(axes @ (points[-1] - points[0]) < 0, -1.0, 1.0).unsqueeze(-1)
    flat = (points - points[0]) @ axes.mT / torch.linalg.vector_norm(points[-1] - points[0])
    return [(_rounded(first), _rounded(second)) for first, second in flat]


def _rounded(value: Tensor) -> float:
    """Four digits are enough for a picture, and keep the table small."""
    return float(f"{float(value):.4g}")
