"""How a tensor is read as samples: which dimension counts them, and what is a token."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import islice
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.probe.batches import tensors_in
from orthoscope.probe.ranks import Ranks

# Layouts (samples, channels, positions): the second dimension is no sequence.
CHANNELS_FIRST = (
    nn.Conv1d,
    nn.ConvTranspose1d,
    nn.BatchNorm1d,
    nn.InstanceNorm1d,
    nn.GroupNorm,
    nn.MaxPool1d,
    nn.AvgPool1d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool1d,
)

# Tensors of an output that ranks look at together.
_CANDIDATES = 4


@dataclass(frozen=True)
class Part:
    """The samples of this process among those of the whole batch, `counts` on every rank."""

    ranks: Ranks
    counts: tuple[int, ...]

    @cached_property
    def samples(self) -> int:
        return self.counts[self.ranks.rank]

    @cached_property
    def total(self) -> int:
        return sum(self.counts)

    @cached_property
    def start(self) -> int:
        """Where in the whole batch the part begins."""
        return sum(self.counts[: self.ranks.rank])

    @property
    def share(self) -> float:
        """What a mean over this part counts in the mean over all."""
        return self.samples / self.total

    def spread(self, most: int) -> slice:
        """Those of at most `most` samples, evenly spaced over the whole batch, that are here."""
        step = _step(self.total, most)
        return slice(-self.start % step, None, step)

    def spread_counts(self, most: int) -> list[int]:
        """How many of them every rank has."""
        step, chosen, start = _step(self.total, most), [], 0
        for count in self.counts:
            chosen.append(len(range(-start % step, count, step)))
            start += count
        return chosen


def spread(count: int, most: int) -> slice:
    """At most `most` of `count` indices, evenly spaced and always the same ones."""
    return slice(0, None, _step(count, most))


def _step(count: int, most: int) -> int:
    return max(1, -(-count // most))


class Layout(IntEnum):
    """Where samples are counted: in the first dimension, the second, or with windows or heads folded into the first."""

    FIRST = 0
    SECOND = 1
    FOLDED = 2

    def fits(self, tensor: Tensor, samples: int, several: bool) -> bool:
        """Whether a tensor may hold so many samples like this; `several` if the whole batch has more than one."""
        if self is Layout.FIRST:
            return tensor.shape[0] == samples
        if self is Layout.SECOND:
            return tensor.ndim >= 3 and tensor.shape[1] == samples
        return tensor.ndim >= 2 and several and tensor.shape[0] % max(1, samples) == 0 and _has_values(tensor, samples)


def _has_values(tensor: Tensor, samples: int) -> bool:
    return (tensor.shape[0] > 0) is (samples > 0)


@dataclass(frozen=True)
class Reading:
    """A tensor as samples: the part that is here, and the shape that the whole would have."""

    tensor: Tensor
    layout: Layout
    part: Part
    units: int
    per_sample: int = 1  # rows of the first dimension that are one sample

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = list(self.tensor.shape)
        sizes[self.dimension] = self.part.total * self.per_sample
        return tuple(sizes)

    @property
    def dimension(self) -> int:
        return 1 if self.layout is Layout.SECOND else 0

    @property
    def samples(self) -> Float[Tensor, "samples units"]:
        tensor = self.tensor.transpose(0, 1) if self.layout is Layout.SECOND else self.tensor
        return tensor.reshape(self.part.samples, self.units)

    @property
    def sequences(self) -> Float[Tensor, "samples tokens units"] | None:
        """None if it has none: three dimensions, samples first or second."""
        if self.tensor.ndim != 3 or self.layout is Layout.FOLDED:
            return None
        sequences = self.tensor.transpose(0, 1) if self.layout is Layout.SECOND else self.tensor
        return sequences if sequences.shape[1] > 1 else None

    def narrowed(self, whole: Tensor) -> Tensor:
        """This rank's part of a tensor of the whole shape."""
        start, length = self.part.start * self.per_sample, self.part.samples * self.per_sample
        return whole.narrow(self.dimension, start, length)


def read(value: Any, part: Part, step: str) -> Reading | None:
    """The tensor that stands for an output: the first floating one that counts the samples of the batch.

    Besides batch-first: sequence-first `(tokens, samples, units)`, and windows or heads folded into the
    first dimension, `(samples·k, ...)`. With several ranks: the first that all of them can read alike.
    """
    floating = (t for t in tensors_in(value) if t.is_floating_point() and t.ndim > 0)
    if not part.ranks.alone:
        return _read_alike(list(islice(floating, _CANDIDATES)), part, step)
    for tensor in floating:
        for layout in _layouts(tensor, part):
            return _reading(tensor, layout, part, tensor.numel() // part.total)
    return None


def _layouts(tensor: Tensor, part: Part) -> Iterator[Layout]:
    if tensor.numel() > 0 or part.samples == 0:
        for layout in Layout:
            if layout.fits(tensor, part.samples, part.total > 1):
                yield layout


def _reading(tensor: Tensor, layout: Layout, part: Part, units: int) -> Reading:
    folds = layout is Layout.FOLDED and part.samples
    return Reading(tensor, layout, part, units, tensor.shape[0] // part.samples if folds else 1)


def _read_alike(tensors: list[Tensor], part: Part, step: str) -> Reading | None:
    """For each tensor a rank says how it could be read, of how many units, and folded how often."""
    words: list[int] = []
    for tensor in tensors:
        count = max(1, part.samples)  # what a rank without samples says of sizes is not listened to
        possible = sum(1 << layout for layout in _layouts(tensor, part))
        words += [possible, tensor.numel() // count, tensor.shape[0] // count]
    said = part.ranks.agree(step, words + [0] * (3 * _CANDIDATES - len(words)))
    filled = [numbers for numbers, count in zip(said, part.counts, strict=True) if count]
    for index, tensor in enumerate(tensors):
        units = {numbers[3 * index + 1] for numbers in filled}
        folds = {numbers[3 * index + 2] for numbers in filled}
        for layout in Layout:
            if not all(numbers[3 * index] >> layout & 1 for numbers in said):
                continue
            if layout is Layout.FOLDED and len(folds) > 1:
                continue
            if len(units) > 1:
                raise part.ranks.differ(
                    f"{step} has {' and '.join(map(str, sorted(units)))} units a sample on different ranks: "
                    "samples must be of one size to be compared, so pad all parts of the batch to one length"
                )
            return Reading(tensor, layout, part, units.pop(), folds.pop() if layout is Layout.FOLDED else 1)
    return None


def differs_over_samples(tensor: Tensor | None, part: Part) -> bool:
    """Whether any sample differs from the first; a tensor without a sample dimension does not."""
    if tensor is None or tensor.ndim == 0 or tensor.shape[0] != part.samples:
        tensor = None
    differs = tensor is not None and bool((tensor[1:] != tensor[:1]).any())
    if part.ranks.alone:
        return differs
    size = 0 if tensor is None else math.prod(tensor.shape[1:])
    said = part.ranks.agree("first samples", [int(tensor is not None), int(differs), size])
    if tensor is None or not all(counted for counted, _, _ in said):
        return False
    if len({size for _, _, size in said}) > 1 or any(differs for _, differs, _ in said):
        return True
    firsts = part.ranks.gather_rows(tensor[:1].reshape(-1, size), [min(1, count) for count in part.counts])
    return bool((firsts[1:] != firsts[:1]).any())
