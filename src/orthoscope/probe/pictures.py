"""What a layer looks like, small enough to be kept of every layer: its spectrum, its overlaps, its Gram matrix."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import gram_singular_values, over_cores
from orthoscope.metrics.gram import cosines
from orthoscope.probe.views import spread

_DIGITS = 4  # significant ones of an eigenvalue: more than a screen shows


@dataclass(frozen=True)
class Picture:
    """The samples of one layer. Numbers are rounded: these are for the eye, metrics are in `Representation`."""

    eigenvalues: tuple[float, ...]  # of n·G/tr G, so that their mean is 1; largest first
    overlap_range: tuple[float, float]  # least and largest cosine of two samples
    overlap_counts: tuple[int, ...]  # pairs in equal bins between them
    gram_size: int  # samples in the matrix, evenly spaced
    gram: str  # cosines of pairs i < j, row by row, as signed bytes of 127 cos, in base64


@dataclass(frozen=True)
class Detail:
    """How much is kept of a layer."""

    eigenvalues: int
    bins: int
    gram: int


# What is kept bounds a page: a kilobyte a layer while there are few, a third of it where there are thousands.
_FINE, _COARSE = Detail(64, 24, 24), Detail(16, 12, 10)
_MANY, _MOST = 400, 3000  # layers from which pictures are coarse; layers that have one


def pictures(frames: Sequence[Float[Tensor, "_ _"]], weighted: Sequence[bool]) -> list[Picture | None]:
    """A picture of every frame that has two samples or more, and a finite size.

    Beyond a few thousand layers those with weights come first, then others, in order.
    """
    detail = _FINE if len(frames) <= _MANY else _COARSE
    order = sorted(range(len(frames)), key=lambda index: not weighted[index])
    by_size: dict[int, list[int]] = {}
    for index in sorted(order[:_MOST]):
        frame = frames[index]
        if frame.shape[0] > 1 and 0 < float(frame.abs().sum()) < torch.inf:
            by_size.setdefault(frame.shape[0], []).append(index)
    found: list[Picture | None] = [None] * len(frames)
    for indices in by_size.values():
        stack = torch.stack([frames[index] for index in indices])
        stack = stack / stack.abs().amax((-2, -1), keepdim=True)
        spectra = over_cores(lambda part: gram_singular_values(part @ part.mT).square(), stack)
        for index, frame, spectrum in zip(indices, stack, spectra, strict=True):
            found[index] = _picture(frame, spectrum, detail)
    return found


def _picture(
    frame: Float[Tensor, "samples samples"], spectrum: Float[Tensor, "samples"], detail: Detail
) -> Picture | None:
    values, pairs = cosines(frame @ frame.mT)
    upper = pairs.triu(1)
    if not bool(upper.any()):
        return None  # one sample that is not zero has no angle
    between = values[upper]
    low, high = float(between.min()), float(between.max())
    counts = torch.histc(between, detail.bins, low, high) if high > low else torch.tensor([float(len(between))])
    kept = spread(len(spectrum), detail.eigenvalues)
    chosen = spread(len(values), detail.gram)
    small = values[chosen][:, chosen]
    rows, columns = torch.triu_indices(len(small), len(small), 1)
    return Picture(
        eigenvalues=tuple(_rounded(value) for value in (spectrum / spectrum.mean())[kept].tolist()),
        overlap_range=(low, high),
        overlap_counts=tuple(int(count) for count in counts.tolist()),
        gram_size=len(small),
        gram=_as_bytes(small[rows, columns]),
    )


def _as_bytes(values: Float[Tensor, "pairs"]) -> str:
    return base64.b64encode(bytes((127 * values).round().to(torch.int8).view(torch.uint8).tolist())).decode("ascii")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS - 1}e}")
