"""Load a dataset by name: find its files and read their format, IDX for MNIST, sheets of PNG for CIFAR-10.

IDX has a magic number, the sizes, then the values, big-endian. A PNG sheet has one image per row, its 32 x 32 pixels
side by side; the labels are a JSON list. Nothing is unpickled.
"""

import gzip
import json
import math
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from orthoscope.data import Dataset
from orthoscope.data import load as load_embedded
from orthoscope.data.dataset import Labels, Pixels
from orthoscope_papers.image_sets.catalog import Entry, entry_named
from orthoscope_papers.image_sets.folders import Directory, paths_of

# By the third byte of the magic number.
_VALUE_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def load(name: str, split: str = "train", directory: Directory | None = None) -> Dataset:
    """Load a dataset from disk; `get` downloads it.

    Args:
        name: "digits" (embedded), "mnist", "fashion-mnist" or "cifar10".
        split: "train" or "test".
        directory: Folder that holds the folder `name`; the data directory by default.

    Raises:
        MissingDataError: If the files are not on this machine.
        ValueError: If the name or split is unknown, or a file is damaged.
    """
    entry = entry_named(name)
    if split not in entry.samples:
        raise ValueError(f"{name} has no split {split!r}: choose one of {', '.join(entry.samples)}")
    if not entry.files:
        return load_embedded(name, split)
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


def opened(path: Path) -> BufferedIOBase:
    """Open a file for reading, decompressed if its name ends in `.gz`."""
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def read_idx(path: Path) -> Tensor:
    """Read the array of an IDX file, plain or, if its name ends in `.gz`, compressed.

    Raises:
        ValueError: If the file does not end exactly where its header says.
    """
    try:
        with opened(path) as file:
            return _parse(file, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error})") from error


def _parse(file: BufferedIOBase, path: Path) -> Tensor:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _VALUE_TYPES:
        raise ValueError(f"{path} is not an IDX file: it begins with {magic.hex(' ') or 'nothing'}")
    dimensions = magic[3]
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise ValueError(f"{path} ends inside its header, which announces {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", header)
    dtype = np.dtype(_VALUE_TYPES[magic[2]])
    expected = math.prod(shape) * dtype.itemsize
    # One byte more than announced, to detect trailing bytes; never more, whatever a .gz unpacks to.
    values = bytearray()
    # In pieces: a wrong size in a header must not allocate that memory.
    while piece := file.read(min(expected + 1 - len(values), 1 << 24)):
        values += piece
    if len(values) != expected:
        found = "more" if len(values) > expected else f"only {len(values)}"
        raise ValueError(f"{path} announces {shape}, which is {expected} bytes, but holds {found}")
    array = np.frombuffer(values, dtype).reshape(shape)
    return torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=dtype.itemsize > 1))


def read_sheet(path: Path, samples: int = 10_000, height: int = 32, width: int = 32) -> Pixels:
    """Read the `samples` RGB images of one sheet, whose rows are images and whose columns are their pixels.

    Size and mode come from the file's header and are checked before a pixel is decoded; a sheet of 10 million pixels is
    below the size at which Pillow suspects a decompression bomb.
    """
    try:
        with Image.open(path, formats=["PNG"]) as sheet:
            if sheet.mode != "RGB" or sheet.size != (height * width, samples):
                raise ValueError(
                    f"{path} is a {sheet.size[0]}x{sheet.size[1]} {sheet.mode} image, "
                    f"but a sheet is {height * width}x{samples} RGB"
                )
            rows = torch.from_numpy(np.array(sheet))
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        # Pillow raises any of these for a damaged PNG.
        raise ValueError(f"{path} is not a complete PNG image ({error})") from error
    return rows.view(samples, height, width, 3).permute(0, 3, 1, 2).contiguous()


def read_labels(path: Path, samples: int, classes: int = 10) -> Labels:
    """Read a JSON list of `samples` class numbers."""
    try:
        labels = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON list of labels ({error})") from error
    valid = isinstance(labels, list) and all(type(x) is int and 0 <= x < classes for x in labels)
    if not valid or len(labels) != samples:
        raise ValueError(f"{path} is not a list of {samples} labels from 0 to {classes - 1}")
    return torch.tensor(labels, dtype=torch.int64)


def read_cifar10(sheets: list[Path], labels: Path) -> tuple[Pixels, Labels]:
    """Read all images of the sheets, in order, with their labels."""
    with ThreadPoolExecutor(len(sheets)) as pool:
        pixels: Tensor = torch.cat(list(pool.map(read_sheet, sheets)))
    return pixels, read_labels(labels, samples=len(pixels))
