"""From a name to a dataset."""

from pathlib import Path

import torch

from orthoscope.data.catalog import Entry, entry_named
from orthoscope.data.cifar10 import read_cifar10
from orthoscope.data.dataset import Dataset, Labels, Pixels
from orthoscope.data.digits import read_digits
from orthoscope.data.folders import Directory, paths_of
from orthoscope.data.idx import read_idx


def load(name: str, split: str = "train", directory: Directory | None = None) -> Dataset:
    """The dataset `name`: "digits" (embedded), "mnist", "fashion-mnist" or "cifar10".

    Files are looked for in the folder `name` of `directory`, by default the data directory; nothing is
    downloaded here. Nothing is ever unpickled.
    """
    entry = entry_named(name)
    if split not in entry.samples:
        raise ValueError(f"{name} has no split {split!r}: choose one of {', '.join(entry.samples)}")
    if not entry.files:
        pixels, labels = read_digits(split)
    else:
        paths = paths_of(entry, split, directory)
        try:
            pixels, labels = _read(entry, split, paths)
        except ValueError as error:
            raise ValueError(f"{error}: run `orthoscope data get {name}` to replace it") from error
    return Dataset(name, split, pixels, labels, scale=entry.scale)


def _read(entry: Entry, split: str, paths: list[Path]) -> tuple[Pixels, Labels]:
    pixels, labels = read_cifar10(paths[:-1], paths[-1]) if entry.name == "cifar10" else _read_idx_pair(*paths)
    expected = (entry.samples[split], *entry.shape)
    if pixels.shape != expected or len(labels) != len(pixels):
        raise ValueError(
            f"{paths[0].parent} holds {tuple(pixels.shape)} pixels and {len(labels)} labels "
            f"for {entry.name} ({split}), which has {expected}"
        )
    if not 0 <= labels.min() <= labels.max() < entry.classes:
        raise ValueError(f"{paths[-1]} has labels outside 0 to {entry.classes - 1}")
    return pixels, labels


def _read_idx_pair(images: Path, labels: Path) -> tuple[Pixels, Labels]:
    pixels, classes = read_idx(images), read_idx(labels)
    for path, array, dimensions in ((images, pixels, 3), (labels, classes, 1)):
        if array.dtype != torch.uint8 or array.ndim != dimensions:
            raise ValueError(f"{path} holds {array.ndim}-dimensional {array.dtype}, not {dimensions} of bytes")
    return pixels.unsqueeze(1), classes.long()
