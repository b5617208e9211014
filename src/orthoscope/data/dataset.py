"""A labelled set of images: kept as bytes, turned into floats when asked."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

Pixels = UInt8[Tensor, "samples channels height width"]
Images = Float32[Tensor, "samples channels height width"]
Labels = Int64[Tensor, " samples"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and their classes. Indexing `pixels` is cheap; `inputs` converts the whole set, once."""

    name: str
    split: str
    pixels: Pixels = field(repr=False)
    labels: Labels = field(repr=False)
    scale: int  # the largest value a pixel can take

    def __post_init__(self) -> None:
        if len(self.pixels) != len(self.labels):
            raise ValueError(f"{self.name} ({self.split}) has {len(self.pixels)} images but {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def inputs(self) -> Images:
        """All images in [0, 1]. Four times the memory of `pixels`; a `batch` does not need it."""
        return self._as_inputs(self.pixels)

    @cached_property
    def num_classes(self) -> int:
        return int(self.labels.max()) + 1

    def batch(self, size: int, generator: torch.Generator | None = None) -> tuple[Images, Labels]:
        """`size` different samples in random order, images in [0, 1], with their labels."""
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
