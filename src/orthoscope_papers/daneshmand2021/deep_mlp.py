"""Section 5: the ReLU network without batch norm, its starts, its training, and how orthogonal samples are in it.

Where the paper is silent, the authors' notebook is followed: pixels from -1 to 1, no biases, Xavier's weights with
gain √2 (which for equal widths is He's scheme: a ReLU network keeps its mean square), and iterative orthogonalization
of all but the first and the last layer. Its batch is of as many samples as a layer has units: the slice of equation (6)
is then all of V, and orthogonal as the paper says. The notebook's is three times as large, which is run beside it.
"""

import math
import statistics
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from orthoscope.init import Scheme, iterative_
from orthoscope.init.weights import WeightLayer, fans, fill_, normal_blocks
from orthoscope.linalg.polar import svd
from orthoscope.metrics import orthogonality_gap
from orthoscope.models import MLP
from orthoscope.training import Step, minibatches, train
from orthoscope_papers.image_sets import load

CLASSES = 10
GAIN = 2**0.5


class Start(NamedTuple):
    """Of `init.iterative_`: the power of the inverse singular values, the frame, and samples for each unit."""

    power: float
    frame: str
    samples: int


# Equation (6); with more samples than units, and the orthonormal V' nearest to the slice; and as the notebook has it.
ITERATIVE = {
    "iterative": Start(0.5, "nearest", 1),
    "larger batch": Start(0.5, "nearest", 3),
    "notebook": Start(1.0, "slice", 3),
}


def svd_orthogonal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W = \bar\sigma\,UV^\top$, where $U \operatorname{diag}(\sigma)\, V^\top$ is drawn by `xavier_`.

    joudaki2024, A.5 (i). A Haar orthogonal matrix, as by `orthogonal_`, times the mean singular value $\bar\sigma$: in
    a wide square layer $\frac8{3\pi} = 0.85$, so that each keeps 0.72 of the mean square. Each group on its own.
    """
    drawn = normal_blocks(layer, gain * (2 / sum(fans(layer))) ** 0.5, generator)
    left, values, right = svd(drawn.double())
    fill_(layer, values.mean(-1)[:, None, None] * left @ right)


# Other schemes than Xavier's; section A.5 (i) of joudaki2024 has the second.
SCHEMES: dict[str, str | Scheme] = {"orthogonal": "orthogonal", "mean singular value": svd_orthogonal_}
STARTS = ("xavier", *SCHEMES, *ITERATIVE)


class Samples(NamedTuple):
    """A classification task: flat images and their classes."""

    inputs: Tensor
    labels: Tensor


@lru_cache(maxsize=1)
def samples_of(dataset: str, count: int) -> Samples:
    """The first `count` training images, with pixels from -1 to 1."""
    data = load(dataset, "train")
    pixels = data.pixels[:count].flatten(1).float() / data.scale
    return Samples(2 * pixels - 1, data.labels[:count])


def network(start: str, layers: int, width: int, samples: Samples, seed: int) -> MLP:
    """So many linear maps, the last one to the classes, with ReLU between them; weights by the `start` of that name."""
    if start not in STARTS:
        raise ValueError(f"unknown start {start!r}: choose one of {', '.join(STARTS)}")
    generator = torch.Generator().manual_seed(seed)
    model = MLP(
        depth=layers - 1,
        width=width,
        in_features=samples.inputs.shape[1],
        out_features=CLASSES,
        init=SCHEMES.get(start, "xavier"),
        weight_gain=GAIN,
        generator=generator,
    )
    if start in ITERATIVE:
        power, frame, per_unit = ITERATIVE[start]
        order = torch.randperm(len(samples.inputs), generator=generator)
        iterative_(model, samples.inputs[order[: per_unit * width]], power, None, frame, generator=generator)
    return model


@torch.no_grad()
def last_gap(model: MLP, inputs: Tensor) -> float:
    """The orthogonality gap of the last hidden representation."""
    return float(orthogonality_gap(model.layers(inputs)))


@torch.no_grad()
def logit_unevenness(model: MLP, inputs: Tensor) -> float:
    r"""What the notebook calls the gap: $\|\sigma/\|\sigma\| - 1/\sqrt{k}\|$ of the $k$ singular values of the logits.

    0 for equal singular values, $\sqrt{2 - 2/\sqrt k}$, 1.17 for 10 classes, for logits on a line.
    """
    values = torch.linalg.svdvals(model(inputs).double())
    return float((values / values.norm() - len(values) ** -0.5).norm())


@runtime_checkable
class TrainingConfig(Protocol):
    """What a training needs to know of an experiment's `Config`."""

    @property
    def samples(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


class Epoch(NamedTuple):
    """After so many epochs (0: before the first) of a training."""

    number: int
    loss: float  # mean over the steps of the epoch; before the first, of one batch
    gap: float  # of the last hidden representation of one batch
    unevenness: float  # of the logits of that batch


def trained(
    config: TrainingConfig,
    dataset: str,
    start: str,
    layers: int,
    seed: int,
    clip: Callable[[nn.Module], None] | None = None,
) -> list[Epoch]:
    """Train by plain SGD on the cross-entropy, measured before the first and after every epoch."""
    samples = samples_of(dataset, config.samples)
    model = network(start, layers, config.width, samples, seed)
    measured, classes = samples.inputs[: config.batch], samples.labels[: config.batch]
    with torch.no_grad():
        first = float(nn.functional.cross_entropy(model(measured), classes))
    seen = [Epoch(0, first, last_gap(model, measured), logit_unevenness(model, measured))]
    per_epoch = math.ceil(len(samples.inputs) / config.batch)
    losses: list[float] = []

    def after(step: Step) -> None:
        losses.append(step.loss)
        if step.number % per_epoch == 0:
            loss = statistics.fmean(losses[-per_epoch:])
            seen.append(Epoch(step.epoch, loss, last_gap(model, measured), logit_unevenness(model, measured)))

    batches = minibatches(*samples, config.batch, torch.Generator().manual_seed(seed))
    optimizer = torch.optim.SGD(model.parameters(), config.learning_rate)
    history = train(model, batches, optimizer, steps=config.epochs * per_epoch, callback=after, clip=clip)
    if history.stopped == "diverged":
        seen.append(Epoch(config.epochs, math.inf, math.nan, math.nan))
    return seen
