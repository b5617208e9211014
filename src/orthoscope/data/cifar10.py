"""CIFAR-10 as PNG sheets: one image a row, its 32 x 32 pixels side by side; labels in a JSON list."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from orthoscope.data.dataset import Labels, Pixels


def read_sheet(path: Path, samples: int = 10_000, height: int = 32, width: int = 32) -> Pixels:
    """The `samples` RGB images of one sheet, whose rows are images and whose columns are their pixels.

    Size and mode come from the file's header and are checked before a pixel is decoded; a whole sheet
    (10 million pixels) stays below the size at which Pillow suspects a decompression bomb.
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
        # Pillow reports a damaged PNG as any of these.
        raise ValueError(f"{path} is not a complete PNG image ({error})") from error
    return rows.view(samples, height, width, 3).permute(0, 3, 1, 2).contiguous()


def read_labels(path: Path, samples: int, classes: int = 10) -> Labels:
    """A JSON list of `samples` class numbers."""
    try:
        labels = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON list of labels ({error})") from error
    valid = isinstance(labels, list) and all(type(x) is int and 0 <= x < classes for x in labels)
    if not valid or len(labels) != samples:
        raise ValueError(f"{path} is not a list of {samples} labels from 0 to {classes - 1}")
    return torch.tensor(labels, dtype=torch.int64)


def read_cifar10(sheets: list[Path], labels: Path) -> tuple[Pixels, Labels]:
    """All images of the sheets, in order, with their labels."""
    with ThreadPoolExecutor() as pool:
        pixels: Tensor = torch.cat(list(pool.map(read_sheet, sheets)))
    return pixels, read_labels(labels, samples=len(pixels))
