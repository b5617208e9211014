"""CIFAR-100 for whoever has it: two papers print results of it, and it is not to be had by package name.

Its "binary version" (train.bin and test.bin of https://www.cs.toronto.edu/~kriz/cifar.html) goes into the folder
`cifar100` of the data directory.
"""

from pathlib import Path

import numpy
import torch

from orthoscope.data import Dataset, data_directory, load

CIFAR100 = "cifar100"
# A record is a byte for the coarse class, one for the fine one, and 32 x 32 pixels of red, of green and of blue.
_SHAPE, _LABEL_BYTES, _CLASSES = (3, 32, 32), 2, 100
_RECORD = _LABEL_BYTES + 3 * 32 * 32


def labelled(dataset: str, split: str) -> Dataset:
    """A set by name: those of `orthoscope.data`, and CIFAR-100 if it is on disk."""
    if dataset != CIFAR100:
        return load(dataset, split)
    path = data_directory() / CIFAR100 / f"{split}.bin"
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
    return Dataset(CIFAR100, split, records[:, _LABEL_BYTES:].reshape(-1, *_SHAPE), labels, scale=255)
