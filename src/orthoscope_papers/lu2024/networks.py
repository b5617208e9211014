r"""The networks of lu2024's tables, and the images they learn.

Normalization and skip connection are those of equation (5): $x \leftarrow N(x + f(Wx + b))$. The appendix prints no
architecture. What it prints determines the dimension of two kinds of weight vectors: random ones of 0.070 and 0.050
have 128 and 256 components. The rest is chosen small: GELU, as in Table 3, Gaussian weights of variance 2/fan_in, batch
norm with scale and shift.
"""

from collections import OrderedDict
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orthoscope.data import Dataset
from orthoscope.init import initialize_
from orthoscope.init.weights import WeightLayer
from orthoscope.models.blocks import ResidualBlock, block, convolution, linear, map_norm, vector_norm
from orthoscope_papers.datasets import labeled

ACTIVATION = "gelu"
POOLED = 2  # the maps are this high and wide when they become vectors
HIDDEN = 3  # layers whose weight vectors are measured


class Network(NamedTuple):
    """A model and those of its layers whose weight vectors are measured."""

    model: nn.Module
    hidden: list[WeightLayer]


def three_layers(channels: int, maps: int, classes: int, generator: torch.Generator) -> Network:
    """Table 2: two convolutions of stride 2, then linear layers to 128, 256 and 256 units, and a head.

    The rows of the first begin parallel, all equal to one Gaussian vector; those of the others as `he` draws them.
    """
    features = 2 * maps * POOLED**2
    hidden = [linear(features, 128, bias=True), linear(128, 256, bias=True), linear(256, 256, bias=True)]
    model = nn.Sequential(
        _plain(convolution(channels, maps, 3, bias=True, stride=2)),
        _plain(convolution(maps, 2 * maps, 3, bias=True, stride=2)),
        nn.AdaptiveAvgPool2d(POOLED),
        nn.Flatten(),
        *(_plain(layer) for layer in hidden),
        linear(256, classes, bias=True),
    )
    initialize_(model, "he", generator=generator)
    parallel_(hidden[0])
    return Network(model, list(hidden))


@torch.no_grad()
def parallel_(layer: nn.Linear) -> None:
    """Every row becomes the first: PII is 1."""
    layer.weight.copy_(layer.weight[:1].expand_as(layer.weight).clone())


def fully_connected(
    inputs: int, width: int, classes: int, normalized: bool, residual: bool, generator: torch.Generator
) -> Network:
    """Tables 3 and 4: a layer to `width` units, three hidden layers of them, and a head."""
    hidden = [linear(width, width, bias=True) for _ in range(HIDDEN)]
    norm = "batch" if normalized else "none"
    parts: OrderedDict[str, nn.Module] = OrderedDict(flat=nn.Flatten(), stem=_plain(linear(inputs, width, bias=True)))
    for number, layer in enumerate(hidden, start=1):
        parts[f"hidden_{number}"] = _hidden(layer, vector_norm(norm, width, affine=True), residual)
    parts["head"] = linear(width, classes, bias=True)
    model = nn.Sequential(parts)
    initialize_(model, "he", generator=generator)
    return Network(model, list(hidden))


def convolutional(
    channels: int, maps: int, classes: int, normalized: bool, residual: bool, generator: torch.Generator
) -> Network:
    """Tables 3 and 4: a convolution of stride 2, three hidden ones of `maps` maps of 8 x 8 or less, a mean, a head."""
    hidden = [convolution(maps, maps, 3, bias=True) for _ in range(HIDDEN)]
    norm = "batch" if normalized else "none"
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        stem=_plain(convolution(channels, maps, 3, bias=True, stride=2)), small=_Shrunk(8)
    )
    for number, layer in enumerate(hidden, start=1):
        parts[f"hidden_{number}"] = _hidden(layer, map_norm(norm, maps, affine=True), residual)
    parts |= {"mean": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(), "head": linear(maps, classes, bias=True)}
    model = nn.Sequential(parts)
    initialize_(model, "he", generator=generator)
    return Network(model, list(hidden))


def _plain(weight: nn.Linear | nn.Conv2d) -> nn.Sequential:
    return block(weight, nn.Identity(), ACTIVATION, 1.0, "norm-activation")


def _hidden(weight: nn.Linear | nn.Conv2d, norm: nn.Module, residual: bool) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(_plain(weight), skip=residual), norm)


class _Shrunk(nn.Module):
    """Maps of at most `size` x `size`: larger ones are averaged, smaller ones stay."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        if maps.shape[-1] <= self.size:
            return maps
        return nn.functional.adaptive_avg_pool2d(maps, self.size)


class Images(NamedTuple):
    """Pixels from -1 to 1. Networks learn from the first pair, rates are chosen by the second, the third judges."""

    inputs: Tensor
    labels: Tensor
    held_out: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int


@lru_cache(maxsize=2)
def images(dataset: str, samples: int, held_out: int, test: int) -> Images:
    """The first `samples` of the training split, the `held_out` after them, and the first `test` of the test split."""
    training, testing = (labeled(dataset, split) for split in ("train", "test"))
    if samples + held_out > len(training) or test > len(testing):
        raise ValueError(
            f"{dataset} has {len(training)} images to train on and {len(testing)} to test, fewer than the "
            f"{samples} + {held_out} and {test} that are asked for: choose fewer"
        )
    inputs, labels = _part(training, 0, samples)
    return Images(
        inputs,
        labels,
        _part(training, samples, held_out),
        _part(testing, 0, test),
        training.num_classes,
    )


def _part(data: Dataset, first: int, count: int) -> tuple[Tensor, Tensor]:
    part = slice(first, first + count)
    return 2 * data.pixels[part].float() / data.scale - 1, data.labels[part]
