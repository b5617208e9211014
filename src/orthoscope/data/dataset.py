"""Labeled images in memory, and the data that is always available: embedded digits, and the text of Python's manual."""

from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pydoc_data.topics import topics

import numpy as np
import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

Pixels = UInt8[Tensor, "samples channels height width"]
Images = Float32[Tensor, "samples channels height width"]
Labels = Int64[Tensor, " samples"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images, kept as bytes, and their classes. Indexing `pixels` is cheap; `inputs` converts the whole set, once.

    Attributes:
        name: Of the dataset.
        split: "train" or "test".
        pixels: `(samples, channels, height, width)`, as bytes.
        labels: Class of every sample, from 0.
        scale: Largest value that a pixel can take.
    """

    name: str
    split: str
    pixels: Pixels = field(repr=False)
    labels: Labels = field(repr=False)
    scale: int

    def __post_init__(self) -> None:
        if len(self.pixels) != len(self.labels):
            raise ValueError(f"{self.name} ({self.split}) has {len(self.pixels)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def inputs(self) -> Images:
        """All images as floats in [0, 1]: four times the memory of `pixels`; `batch` does not need it."""
        return self._as_inputs(self.pixels)

    @cached_property
    def num_classes(self) -> int:
        """Number of classes, from the largest label."""
        return int(self.labels.max()) + 1

    def batch(self, size: int, generator: torch.Generator | None = None) -> tuple[Images, Labels]:
        """Draw `size` samples without replacement: images in [0, 1] and their labels."""
        if not 1 <= size <= len(self):
            raise ValueError(
                f"a batch of {size} cannot be drawn without replacement from the {len(self)} samples of "
                f"{self.name} ({self.split}): choose a size from 1 to {len(self)}"
            )
        device = generator.device if generator is not None else None
        chosen = torch.randperm(len(self), generator=generator, device=device)[:size].to(self.labels.device)
        return self._as_inputs(self.pixels[chosen]), self.labels[chosen]

    def _as_inputs(self, pixels: Pixels) -> Images:
        return pixels.to(torch.float32) / self.scale


# The set is ordered by writer, so its end has handwritings that the training split does not have.
_DIGITS = {"train": slice(-360), "test": slice(-360, None)}


def load(name: str, split: str = "train") -> Dataset:
    """Load an embedded dataset.

    Args:
        name: "digits": scikit-learn's 1797 handwritten digits of 8 x 8 pixels.
        split: "train" (the first 1437) or "test" (the last 360).

    Raises:
        ValueError: If the name or split is unknown.
    """
    if name != "digits":
        raise ValueError(
            f"there is no embedded dataset {name!r}: give 'digits', or one of the papers' image sets to "
            "orthoscope_papers.image_sets.load"
        )
    if split not in _DIGITS:
        raise ValueError(f"{name} has no split {split!r}: choose one of {', '.join(_DIGITS)}")
    with (
        resources.files("orthoscope.data").joinpath("digits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        pixels, labels = torch.from_numpy(arrays["pixels"]), torch.from_numpy(arrays["labels"]).long()
    return Dataset(name, split, pixels[_DIGITS[split]], labels[_DIGITS[split]], scale=16)


VOCABULARY = 128  # ASCII; the few other characters are read as question marks
SPLITS = ("train", "validation", "test")


def python_manual(split: str) -> Int64[Tensor, " characters"]:
    """Return the reference manual that Python carries for `help()`, half a megabyte of English, as numbers below 128.

    Nine tenths of the text are for "train", a twentieth each for "validation" and "test". Topics come in alphabetical
    order, and splits do not respect their boundaries. The text depends on the running Python's version.
    """
    if split not in SPLITS:
        raise ValueError(f"the manual has the splits {', '.join(SPLITS)}, got {split!r}: choose one of them")
    text = "\n\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    characters = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    size = len(characters) // 20
    places = {"train": slice(-2 * size), "validation": slice(-2 * size, -size), "test": slice(-size, None)}
    return characters[places[split]]
