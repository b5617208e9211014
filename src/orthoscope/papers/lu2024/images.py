"""The images that the tables are measured on: training, held-out and test parts of a labelled set."""

from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from orthoscope.data import Dataset
from orthoscope.papers.cifar100 import labelled


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
    training, testing = (labelled(dataset, split) for split in ("train", "test"))
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
