"""Images as the networks of chapter 6 read them: flat, every channel with mean 0 and standard deviation 1."""

from functools import cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from orthoscope.data import Dataset
from orthoscope.papers.cifar100 import labelled

Pixels = Float[Tensor, "samples pixels"]
Labels = Int64[Tensor, " samples"]


@cache
def dataset(data: str, split: str = "train") -> Dataset:
    """Read once: every seed of every network draws from it, and CIFAR-10 takes seconds to read."""
    return labelled(data, split)


def image_batch(data: str, samples: int, generator: torch.Generator, split: str = "train") -> tuple[Pixels, Labels]:
    r"""Random images and their classes, $(x - \mu_c)/s_c$ with mean and deviation of channel $c$ over these images.

    The thesis takes those of the whole training set, from which those of a few hundred images differ little.
    """
    images, labels = dataset(data, split).batch(samples, generator)
    deviation, mean = torch.std_mean(images, (0, 2, 3), keepdim=True)
    return ((images - mean) / deviation).flatten(1), labels
