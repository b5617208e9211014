r"""Daneshmand, Joudaki & Bach (2021), Figure 7: iterative orthogonalization of convolutional networks.

Shown there: the networks of Table 3 with ReLU, SGD at rate 0.001 and batches of 30 on CIFAR-10. With 20 convolutions
Xavier's weights learn faster, with 80 those made by the singular values of the unfolded input. As in the authors'
notebook Xavier's weights have gain $\sqrt2$ and the linear layers stay Xavier's; here all convolutions but the first
are made, there those with as many inputs as outputs, by a slice that is not orthogonal. The notebook makes the start by
256 images. Here it is also made by the fewest that reach every unit: two, whose smallest maps have 32 patches for 32
channels.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.init import iterative_
from orthoscope.metrics import orthogonality_gap
from orthoscope.training import Step, minibatches, train
from orthoscope_papers.daneshmand2021.alexnet_like import alexnet_like
from orthoscope_papers.evidence import Evidence, student_interval
from orthoscope_papers.image_sets import load
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "From a start that orthogonalizes patches, a convolutional network of 80 layers learns when from Xavier's weights "
    "it has not begun to, and depth costs it a smaller share of what a shallow one learns."
)
KIND = "training"
DATA = ("cifar10",)
XAVIER, ITERATIVE, LARGER = "xavier", "iterative", "larger batch"
STARTS = (XAVIER, ITERATIVE, LARGER)
CLASSES, SIDE, GAIN = 10, 32, 2**0.5
# Off the notebook's pictures: the training loss of epoch 20.
PRINTED = {(20, XAVIER): 0.93, (20, LARGER): 1.17, (80, XAVIER): 1.91, (80, LARGER): 1.30}


@dataclass(frozen=True)
class Config:
    """An eighth of the paper's channels and units, a thirtieth of its steps, ten times as long, and no dropout."""

    dataset: str = "cifar10"
    samples: int = 3000
    layers: tuple[int, ...] = (20, 80)
    starts: tuple[str, ...] = STARTS
    shrink: int = 8
    batch: int = 30
    epochs: int = 10
    learning_rate: float = 0.01
    dropout: float = 0.0
    images: int = 2  # that the start is made by: the fewest that bring as many patches as a layer has outputs
    many_images: int = 256  # that the other start is made by, as in the notebook
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(
    dataset="digits", samples=240, layers=(6, 30), starts=(XAVIER, ITERATIVE), epochs=3, images=4, seeds=(0, 1, 2)
)
FULL = Config(samples=50_000, shrink=1, epochs=20, learning_rate=0.001, dropout=0.5, images=16)


class Row(NamedTuple):
    start: str
    layers: int
    shrink: int
    seed: int
    epoch: int  # 0 is the start
    loss: float  # mean over the epoch; infinite if training diverged
    gap: float  # of what leaves the last convolution, in one batch


def run(config: Config) -> list[Row]:
    return [
        row
        for seed in config.seeds
        for layers in config.layers
        for start in config.starts
        for row in trained(config, start, layers, seed)
    ]


def cells(config: Config) -> list[Config]:
    return [
        replace(config, seeds=(seed,), layers=(layers,), starts=(start,))
        for seed in config.seeds
        for layers in config.layers
        for start in config.starts
    ]


def pictures(dataset: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images, each pixel enlarged where they are smaller than the 32x32 that the network takes."""
    data = load(dataset, "train")
    images = data.pixels[:count].float() / data.scale
    return functional.interpolate(images, size=(SIDE, SIDE)), data.labels[:count]


def network(config: Config, start: str, layers: int, images: Tensor, seed: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    model = alexnet_like(
        depth=layers,
        in_channels=images.shape[1],
        out_features=CLASSES,
        dropout=config.dropout,
        shrink=config.shrink,
        weight_gain=GAIN,
        generator=generator,
    )
    if start != XAVIER:
        order = torch.randperm(len(images), generator=generator)
        chosen = images[order[: config.images if start == ITERATIVE else config.many_images]]
        iterative_(model.get_submodule("features"), chosen, keep=("0",), generator=generator)
    return model


def trained(config: Config, start: str, layers: int, seed: int) -> list[Row]:
    """Plain SGD; the mean loss and the gap after every epoch, and before the first."""
    images, labels = pictures(config.dataset, config.samples)
    model = network(config, start, layers, images, seed)
    per_epoch, context = math.ceil(len(images) / config.batch), (start, layers, config.shrink, seed)
    measured = images[: config.batch]
    rows = [Row(*context, 0, _loss(model, measured, labels[: config.batch]), _gap(model, measured))]
    losses: list[float] = []

    def after(step: Step) -> None:
        losses.append(step.loss)
        if step.number % per_epoch == 0:
            rows.append(Row(*context, step.epoch, statistics.fmean(losses[-per_epoch:]), _gap(model, measured)))

    batches = minibatches(images, labels, config.batch, torch.Generator().manual_seed(seed))
    optimizer = torch.optim.SGD(model.parameters(), config.learning_rate)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)  # for dropout, which takes no generator
        history = train(model, batches, optimizer, steps=config.epochs * per_epoch, callback=after)
    if history.stopped == "diverged":
        rows.append(Row(*context, config.epochs, math.inf, math.nan))
    return rows


@torch.no_grad()
def _gap(model: nn.Sequential, images: Tensor) -> float:
    return float(orthogonality_gap(model.get_submodule("features")(images).flatten(1)))


@torch.no_grad()
def _loss(model: nn.Sequential, images: Tensor, labels: Tensor) -> float:
    model.eval()
    loss = float(functional.cross_entropy(model(images), labels))
    model.train()
    return loss


def starts_of(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.start for row in rows))


def ends(rows: list[Row], start: str, layers: int) -> list[float]:
    """The loss of the last epoch, seed by seed."""
    last = max(row.epoch for row in rows)
    return [row.loss for row in rows if (row.start, row.layers, row.epoch) == (start, layers, last)]


def advantage(rows: list[Row], start: str, layers: int) -> list[float]:
    """How much lower the loss ends from a start than from Xavier's, seed by seed."""
    return [a - b for a, b in zip(ends(rows, XAVIER, layers), ends(rows, start, layers), strict=True)]


def retained(rows: list[Row], start: str) -> list[float]:
    """Loss below guessing: that of the deep network as a share of that of the shallow one, seed by seed."""
    shallow, deep = min(row.layers for row in rows), max(row.layers for row in rows)
    pairs = zip(ends(rows, start, shallow), ends(rows, start, deep), strict=True)
    return [_share(*pair) for pair in pairs]


def _share(shallow: float, deep: float) -> float:
    """Nothing if the shallow one has learned nothing: there is no share of that."""
    learned = math.log(CLASSES) - shallow
    return (math.log(CLASSES) - deep) / learned if learned > 0 else 0.0


def start_gaps(rows: list[Row], start: str, layers: int) -> list[float]:
    return [row.gap for row in rows if (row.start, row.layers, row.epoch) == (start, layers, 0)]


def check(rows: list[Row]) -> dict[str, bool]:
    shallow, deep = min(row.layers for row in rows), max(row.layers for row in rows)
    return {
        "at the start the deep network's samples are more orthogonal than from Xavier's weights": (
            student_interval(start_gaps(rows, ITERATIVE, deep))[2] < student_interval(start_gaps(rows, XAVIER, deep))[1]
        ),
        "from Xavier's weights the deep network learns less than the shallow one": (
            min(ends(rows, XAVIER, deep)) > max(ends(rows, XAVIER, shallow))
        ),
        "from the iterative start the deep network learns more than from Xavier's": (
            student_interval(advantage(rows, ITERATIVE, deep))[1] > 0
        ),
        "which from Xavier's is still at guessing, within 1 %": all(
            abs(loss / math.log(CLASSES) - 1) < 0.01 for loss in ends(rows, XAVIER, deep)
        ),
        "from the iterative start depth costs a smaller share of what the shallow one learns": (
            student_interval(retained(rows, ITERATIVE))[1] > student_interval(retained(rows, XAVIER))[2]
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    return [*_advantages(rows), *_shares(rows)]


def _advantages(rows: list[Row]) -> list[Evidence]:
    evidence = []
    smaller = f"; the sign is compared, at 1/{rows[0].shrink} of the width and fewer steps"
    scale = "" if rows[0].shrink == 1 else smaller
    for layers in sorted({row.layers for row in rows}):
        for start in (one for one in starts_of(rows) if one != XAVIER):
            found = student_interval(advantage(rows, start, layers))
            known = (layers, start) in PRINTED
            printed = PRINTED[layers, XAVIER] - PRINTED[layers, start] if known else None
            agrees = found[2] < 0 if printed is not None and printed < 0 else found[1] > 0
            losses = " and ".join(f"{statistics.fmean(ends(rows, one, layers)):.3f}" for one in (XAVIER, start))
            name = f"loss from Xavier's weights minus that from the start {start!r}, {layers} convolutions"
            why = f"losses {losses}{scale}"
            evidence.append(Evidence(name, printed, *found, "agrees" if agrees else "differs", why))
    return evidence


def _shares(rows: list[Row]) -> list[Evidence]:
    shallow, deep = min(row.layers for row in rows), max(row.layers for row in rows)
    evidence = []
    for start in starts_of(rows):
        low, high = PRINTED.get((shallow, start)), PRINTED.get((deep, start))
        printed = None if low is None or high is None else _share(low, high)
        found = student_interval(retained(rows, start))
        agrees = found[1] <= printed <= found[2] if printed is not None else found[1] > 0
        name = f"what {deep} convolutions learn, as a share of what {shallow} do, {start}"
        why = "of the loss below guessing; printed is after 20 epochs of the whole data"
        evidence.append(Evidence(name, printed, *found, "agrees" if agrees else "differs", why))
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    finite = [row for row in rows if math.isfinite(row.loss)]
    up = (0.9 * min(row.loss for row in finite), 1.1 * math.log(CLASSES))
    labels = {XAVIER: "Xavier", ITERATIVE: "iterative, few images", LARGER: "iterative, many images"}
    return [
        Panel(
            f"{layers} convolutions",
            f"training loss, mean and 95% interval of {seeds} runs",
            "epoch",
            [
                averaged(
                    label,
                    [(r.epoch, r.loss) for r in finite if (r.start, r.layers) == (start, layers) and r.epoch],
                    of=student_interval,
                )
                for start, label in labels.items()
                if start in starts_of(rows)
            ],
            [("guessing", math.log(CLASSES))],
            y_range=up,
        )
        for layers in sorted({row.layers for row in rows})
    ]
