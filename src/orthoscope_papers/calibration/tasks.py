"""Tasks that small networks learn in a hundred steps: images, text, graphs, noise, pairs and codes, all from real data.

A task draws batches from a generator; nothing depends on a global seed. What it costs to guess is the loss of the best
constant prediction.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from orthoscope.data.dataset import python_manual
from orthoscope_papers.image_sets import load

SIZE = 32  # samples of a batch
IMAGES = 6000  # of a dataset
SIDE = 16  # pixels of an image, digits have 8
CLASSES = 10
LENGTH = 32  # characters of a text
VOCABULARY = 100  # the commonest characters of the manual, fewer in practice, and the mask
MASK = VOCABULARY - 1
HIDDEN = 0.25  # share of characters that are masked
NODES, NEIGHBORS = 64, 6
CODE = 24  # entries of a latent code
_COUNTED = 64  # batches that the cost of guessing is taken from


@dataclass(frozen=True, eq=False)
class Batch:
    """The arguments of one call of a network, and the target of its output."""

    args: tuple[Tensor, ...]
    target: Tensor


@dataclass(frozen=True, eq=False)
class Task:
    """A loss and the batches it is taken on."""

    name: str
    draw: Callable[[torch.Generator], Batch]
    loss: Callable[[Tensor, Tensor], Tensor]
    guess: Callable[[list[Batch]], float] = field(repr=False)  # loss of the best constant prediction
    data: tuple[str, ...] = ()  # to be fetched
    pictures: bool = False  # the first argument is made of pixels
    classifies: bool = False  # the output is logits of classes

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield batches without end, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        while True:
            yield self.draw(generator)

    @property
    def guessing(self) -> float:
        return _guessing(self)


@cache
def _guessing(task: Task) -> float:
    return task.guess(list(islice(task.batches(seed=0), _COUNTED)))


@cache
def pictures(name: str) -> tuple[Tensor, Tensor]:
    """Return images with mean 0 and variance 1 over all pixels, 16 pixels a side except the digits, and labels."""
    data = load(name, "train")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:IMAGES]
    images = data.pixels[order].to(torch.float32)
    if name != "digits":
        images = F.adaptive_avg_pool2d(images, SIDE)
    return (images - images.mean()) / images.std(), data.labels[order]


@cache
def text() -> Tensor:
    """Return the Python manual as numbers below MASK, its commonest characters first; rare ones are one."""
    characters = python_manual("train")
    order = characters.bincount(minlength=128).argsort(descending=True, stable=True)
    return order.argsort()[characters].clamp_max(MASK - 1)


def _drawn(name: str, generator: torch.Generator, size: int = SIZE) -> tuple[Tensor, Tensor]:
    images, labels = pictures(name)
    chosen = torch.randint(len(images), (size,), generator=generator)
    return images[chosen], labels[chosen]


def _pieces(generator: torch.Generator, length: int) -> Tensor:
    starts = torch.randint(len(text()) - length, (SIZE, 1), generator=generator)
    return text()[starts + torch.arange(length)]


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Mean over all targets; classes are the last dimension of the output, also of sequences."""
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def _entropy(batches: list[Batch]) -> float:
    targets = torch.cat([batch.target.flatten() for batch in batches])
    share = targets.bincount().double()
    share = share[share > 0] / share.sum()
    return float(-(share * share.log()).sum())


def _variance(batches: list[Batch]) -> float:
    targets = torch.cat([batch.target for batch in batches]).double()
    return float((targets - targets.mean(0)).square().mean())


def _label_entropy(batches: list[Batch]) -> float:
    share = torch.cat([batch.target for batch in batches]).double().mean()
    return float(torch.special.entr(share) + torch.special.entr(1 - share))


def _foreground_entropy(batches: list[Batch]) -> float:
    share = torch.cat([batch.target for batch in batches]).double().mean(0)
    return float((torch.special.entr(share) + torch.special.entr(1 - share)).mean())


def distance_of_distributions(output: Tensor, target: Tensor) -> Tensor:
    r"""Energy distance of two sets of images, $2E|x - y| - E|x - x'| - E|y - y'|$, a pixel's share of it.

    Pairs of one set are different samples. Zero in the mean for equal distributions.
    """
    made, real = output.flatten(1), target.flatten(1)
    pairs = len(made) * (len(made) - 1)
    own = [_distances(one, one).sum() / pairs for one in (made, real)]
    return (2 * _distances(made, real).mean() - own[0] - own[1]) / math.sqrt(made.shape[1])


def _distances(first: Tensor, second: Tensor) -> Tensor:
    # The small number keeps the gradient of the distance of an image to itself finite.
    return ((first[:, None] - second[None]).square().sum(-1) + 1e-6).sqrt()


def _distance_of_one_image(batches: list[Batch]) -> float:
    mean = torch.cat([batch.target for batch in batches]).mean(0)
    values = [distance_of_distributions(mean.expand_as(batch.target), batch.target) for batch in batches]
    return float(torch.stack(values).mean())


def _classification(name: str) -> Task:
    def draw(generator: torch.Generator) -> Batch:
        images, labels = _drawn(name, generator)
        return Batch((images,), labels)

    needs = () if name == "digits" else (name,)
    return Task(name, draw, cross_entropy, _entropy, needs, pictures=True, classifies=True)


def _rows(generator: torch.Generator) -> Batch:
    """The rows of an image, one after the other."""
    images, labels = _drawn("fashion-mnist", generator)
    return Batch((images.flatten(1, 2),), labels)


def _next_characters(generator: torch.Generator) -> Batch:
    piece = _pieces(generator, LENGTH + 1)
    return Batch((piece[:, :-1],), piece[:, 1:])


def _continued(generator: torch.Generator) -> Batch:
    """The decoder goes on with the text that the encoder reads."""
    piece = _pieces(generator, 2 * LENGTH)
    return Batch((piece[:, :LENGTH], piece[:, LENGTH - 1 : -1]), piece[:, LENGTH:])


def _masked(generator: torch.Generator) -> Batch:
    """A quarter is masked, and all characters are to be told: the masked ones alone teach little in so few steps."""
    piece = _pieces(generator, LENGTH)
    hidden = torch.rand(piece.shape, generator=generator) < HIDDEN
    return Batch((piece.masked_fill(hidden, MASK),), piece)


def _graphs(generator: torch.Generator) -> Batch:
    """Pixels as nodes with brightness and place; edges to the nodes nearest in both, weighted for a mean."""
    images, labels = _drawn("digits", generator)
    axis = torch.linspace(-1.5, 1.5, 8)
    places = torch.cartesian_prod(axis, axis).expand(len(images), -1, -1)
    nodes = torch.cat([images.flatten(1).unsqueeze(-1), places], dim=-1)
    nearest = torch.cdist(nodes, nodes).topk(NEIGHBORS, largest=False).indices
    edges = torch.zeros(len(images), NODES, NODES).scatter_(2, nearest, 1.0)
    edges = torch.maximum(edges, edges.mT)
    return Batch((nodes, edges / edges.sum(-1, keepdim=True)), labels)


def _noised(generator: torch.Generator) -> Batch:
    """Variance-preserving diffusion at a uniform time: the network tells the noise."""
    images, _ = _drawn("fashion-mnist", generator)
    time = torch.rand(len(images), generator=generator)
    angle = (time * math.pi / 2).view(-1, 1, 1, 1)
    noise = torch.randn(images.shape, generator=generator)
    return Batch((angle.cos() * images + angle.sin() * noise, time), noise)


def _to_clean(generator: torch.Generator) -> Batch:
    images, _ = _drawn("cifar10", generator)
    return Batch((images + 0.7 * torch.randn(images.shape, generator=generator),), images)


def _to_foreground(generator: torch.Generator) -> Batch:
    images, _ = _drawn("fashion-mnist", generator)
    noise = torch.randn(images.shape, generator=generator)
    return Batch((images + 0.7 * noise,), (images > 0).to(images.dtype))


def _pairs(generator: torch.Generator) -> Batch:
    """Pairs of images, half of them of one class."""
    pool, classes = _drawn("fashion-mnist", generator, 8 * SIZE)
    first = torch.arange(SIZE)
    same = torch.arange(SIZE) % 2 == 0
    fits = (classes[first, None] == classes[None]) == same[:, None]
    fits[first, first] = False
    weights = fits.to(torch.float32) + 1e-9  # were there no fitting image, any one: the target tells
    second = torch.multinomial(weights, 1, generator=generator).squeeze(1)
    return Batch((pool[first], pool[second]), (classes[first] == classes[second]).to(pool.dtype))


def _to_same(generator: torch.Generator) -> Batch:
    images, _ = _drawn("fashion-mnist", generator)
    return Batch((images,), images)


@cache
def _principal_codes() -> Tensor:
    """The first principal components of every image, each with variance 1."""
    images = pictures("fashion-mnist")[0].flatten(1).double()
    directions = torch.linalg.svd(images - images.mean(0), full_matrices=False).U[:, :CODE]
    return (directions * math.sqrt(len(images))).float()


def _codes(generator: torch.Generator) -> Batch:
    """Generative latent optimization with codes that stay where it begins, at the principal components."""
    images = pictures("fashion-mnist")[0]
    chosen = torch.randint(len(images), (SIZE,), generator=generator)
    return Batch((_principal_codes()[chosen],), images[chosen])


def _free_codes(generator: torch.Generator) -> Batch:
    images, _ = _drawn("fashion-mnist", generator)
    return Batch((torch.randn(SIZE, CODE, generator=generator),), images)


_FASHION, _CIFAR = ("fashion-mnist",), ("cifar10",)
_ALL = (
    _classification("digits"),
    _classification("fashion-mnist"),
    _classification("cifar10"),
    Task("rows", _rows, cross_entropy, _entropy, _FASHION, pictures=True, classifies=True),
    Task("next characters", _next_characters, cross_entropy, _entropy, classifies=True),
    Task("continued text", _continued, cross_entropy, _entropy, classifies=True),
    Task("masked text", _masked, cross_entropy, _entropy, classifies=True),
    Task("graphs", _graphs, cross_entropy, _entropy, pictures=True, classifies=True),
    Task("noise", _noised, F.mse_loss, _variance, _FASHION, pictures=True),
    Task("denoising", _to_clean, F.mse_loss, _variance, _CIFAR, pictures=True),
    Task(
        "foreground", _to_foreground, F.binary_cross_entropy_with_logits, _foreground_entropy, _FASHION, pictures=True
    ),
    Task("pairs", _pairs, F.binary_cross_entropy_with_logits, _label_entropy, _FASHION, pictures=True),
    Task("images from codes", _codes, F.mse_loss, _variance, _FASHION),
    Task("images from noise", _free_codes, distance_of_distributions, _distance_of_one_image, _FASHION),
    Task("reconstruction", _to_same, F.mse_loss, _variance, _FASHION, pictures=True),
)
TASKS = {task.name: task for task in _ALL}
