"""Datasets of the papers: image sets fetched by name, CIFAR-100 read from disk, and which are missing on this machine.

CIFAR-100 cannot be fetched by name. Its "binary version" (train.bin and test.bin of
https://www.cs.toronto.edu/~kriz/cifar.html) goes into the folder `cifar100` of the data directory.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy
import torch

from orthoscope.data import Dataset
from orthoscope_papers.catalog import Entry, Setting
from orthoscope_papers.image_sets import available, data_directory, load

CIFAR100 = "cifar100"
# A record is a byte for the coarse class, one for the fine one, and 32 x 32 pixels of red, of green and of blue.
_SHAPE, _LABEL_BYTES, _CLASSES = (3, 32, 32), 2, 100
_RECORD = _LABEL_BYTES + 3 * 32 * 32

Missing = Mapping[str, tuple[str, ...]]  # datasets by experiment


def labeled(dataset: str, split: str) -> Dataset:
    """Return a labeled dataset by name.

    Raises:
        FileNotFoundError: for CIFAR-100 if it is not on disk.
    """
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
    """Return all records of a file of CIFAR-100's binary version, with the fine classes.

    Raises:
        ValueError: if the file is not of that format.
    """
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


def missing_data(entries: Sequence[Entry], setting: Setting) -> dict[str, tuple[str, ...]]:
    """Return the experiments that cannot be run on this machine, each with the datasets that it lacks."""
    here = {listing.name for listing in available() if listing.present}
    if all((data_directory() / CIFAR100 / f"{split}.bin").is_file() for split in ("train", "test")):
        here.add(CIFAR100)
    lacking = {entry.name: tuple(name for name in entry.needs(setting) if name not in here) for entry in entries}
    return {name: sets for name, sets in lacking.items() if sets}


def sentence(missing: Missing) -> str:
    """Say which experiments lack which datasets, and what to do."""
    experiments = ", ".join(f"{name} ({', '.join(sets)})" for name, sets in missing.items())
    sets = dict.fromkeys(one for sets in missing.values() for one in sets)
    return f"this machine lacks the data of {experiments}: {remedy(list(sets))}"


def remedy(sets: Sequence[str]) -> str:
    """Say how to get datasets: a command, or for CIFAR-100 where to put its files."""
    fetched = " ".join(name for name in sets if name != CIFAR100)
    ways = [f"run `orthoscope data get {fetched}`"] if fetched else []
    if CIFAR100 in sets:
        ways.append(f"put train.bin and test.bin of CIFAR-100's binary version into {data_directory() / CIFAR100}")
    return " and ".join(ways)
