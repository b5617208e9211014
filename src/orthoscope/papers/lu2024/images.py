"""The images that the tables are measured on: training, held-out and test parts of a labelled set.

The paper's own set, CIFAR-100, is not among the datasets that `orthoscope data get` brings; whoever has its "binary
version" (train.bin and test.bin of https://www.cs.toronto.edu/~kriz/cifar.html) puts it into the data directory.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from orthoscope.data import Dataset, data_directory, load

PRINTED = "cifar100"
# A record is a byte for the coarse class, one for the fine one, and 32 x 32 pixels of red, of green and of blue.
_SHAPE, _LABEL_BYTES, _CLASSES = (3, 32, 32), 2, 100
_RECORD = _LABEL_BYTES + 3 * 32 * 32


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


def labelled(dataset: str, split: str) -> Dataset:
    """A set by name: those of `orthoscope.data`, and CIFAR-100 if it is on disk."""
    if dataset != PRINTED:
        return load(dataset, split)
    path = data_directory() / PRINTED / f"{split}.bin"
    if not path.is_file():
        raise FileNotFoundError(
            f"the printed setting needs CIFAR-100, of which {path} is missing: put train.bin and test.bin of its binary"
            " version there, or run the default, in which CIFAR-10 stands in"
        )
    return read_records(path, split)


def read_records(path: Path, split: str) -> Dataset:
    """All records of a file of CIFAR-100's binary version, with the fine classes."""
    contents = numpy.fromfile(path, dtype=numpy.uint8)
    if len(contents) == 0 or len(contents) % _RECORD:
        raise ValueError(
            f"{path} has {len(contents)} bytes, which is not a number of records of {_RECORD}: replace it by the file"
            " of CIFAR-100's binary version"
        )
    records = torch.from_numpy(contents).view(-1, _RECORD)
    labels = records[:, _LABEL_BYTES - 1].long()
    if int(labels.max()) >= _CLASSES:
        raise ValueError(f"{path} has classes above {_CLASSES - 1}: it is not a file of CIFAR-100's binary version")
    return Dataset(PRINTED, split, records[:, _LABEL_BYTES:].reshape(-1, *_SHAPE), labels, scale=255)
