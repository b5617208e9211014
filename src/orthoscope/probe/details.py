"""Details of a layer for a page: spectrum, cosines and Gram matrix of its samples, and the spectrum of its weight.

Computed only when a view asks for them, from the factors that the hooks kept and from the weights while they exist.
"""

import base64
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.linalg import gram_singular_values, weight_matrix
from orthoscope.linalg.matrices import is_sharded
from orthoscope.metrics.representations import cosines, entropy_rank
from orthoscope.probe.hooks import observable_modules, owned_parameters, version
from orthoscope.probe.layers import largest_of, measurable_stacks
from orthoscope.probe.restore import address
from orthoscope.probe.samples import evenly_spaced

_DIGITS = 4  # significant ones of a number that is drawn: more than a screen shows

# Resolution falls with the number of layers: a kilobyte per layer, a third of it for thousands of layers.
_MANY_LAYERS = 400  # from which on resolution is low
_MOST_LAYERS = 3000  # with details

_LARGEST_SIDE = 256  # shorter side of a weight matrix whose spectrum is computed; the time grows as its cube
_MOST_WORK = 1 << 31  # multiply-adds for all spectra of weights; weights of later layers are left out
_SINGULAR_VALUES = 32


@dataclass(frozen=True)
class Picture:
    """The samples of one layer, to be drawn; numbers are rounded, and the exact metrics are in `Representation`."""

    centered_rank: float  # effective rank of the samples without their mean
    eigenvalues: tuple[float, ...]  # of n·G/tr G, so that their mean is 1; largest first
    overlap_range: tuple[float, float]  # least and largest cosine of two samples
    overlap_counts: tuple[int, ...]  # pairs in equal bins between them
    gram_size: int  # samples in the matrix, evenly spaced
    gram: str  # cosines of pairs i < j, row by row, as signed bytes of 127 cos, in base64


class _Resolution(NamedTuple):
    eigenvalues: int
    bins: int
    gram: int


_FINE, _COARSE = _Resolution(64, 24, 24), _Resolution(16, 12, 10)


def pictures(factors: Sequence[Float[Tensor, "_ _"]], weighted: Sequence[bool]) -> list[Picture | None]:
    """Make a picture of every factor that has two samples or more and a finite size, None of the others.

    Of more than a few thousand layers, those with weights come first.
    """
    resolution = _FINE if len(factors) <= _MANY_LAYERS else _COARSE
    order = sorted(range(len(factors)), key=lambda index: not weighted[index])
    chosen = sorted(order[:_MOST_LAYERS])
    found: list[Picture | None] = [None] * len(factors)
    for indices, stack in measurable_stacks([factors[index] for index in chosen]):
        for index, picture in zip(indices, _pictures(stack, resolution), strict=True):
            found[chosen[index]] = picture
    return found


def _pictures(stack: Float[Tensor, "layers n n"], resolution: _Resolution) -> Iterator[Picture | None]:
    stack = stack / largest_of(stack)[:, None, None]
    # Centered before the product: subtracting afterwards cancels when samples are nearly equal.
    around_mean = stack - stack.mean(-2, keepdim=True)
    inner = stack @ stack.mT
    centered_ranks = entropy_rank(gram_singular_values(around_mean @ around_mean.mT)).tolist()
    spectra = gram_singular_values(inner).square()
    spectra = (spectra / spectra.mean(-1, keepdim=True))[..., evenly_spaced(stack.shape[-1], resolution.eigenvalues)]
    values, pairs = cosines(inner)
    row, column = torch.triu_indices(stack.shape[-1], stack.shape[-1], 1)
    between, defined = values[:, row, column], pairs[:, row, column]
    low = between.masked_fill(~defined, torch.inf).amin(-1)
    high = between.masked_fill(~defined, -torch.inf).amax(-1)
    counts = _histograms(between, defined, low, high, resolution.bins).tolist()
    samples = evenly_spaced(stack.shape[-1], resolution.gram)
    small = values[:, samples, samples]
    row, column = torch.triu_indices(small.shape[-1], small.shape[-1], 1)
    octets = (127 * small[:, row, column]).round().to(torch.int8).view(torch.uint8)
    for index, spectrum in enumerate(spectra.tolist()):
        if not low[index] <= high[index]:
            yield None  # no two samples that are not zero: no angle
            continue
        yield Picture(
            centered_rank=_rounded(centered_ranks[index]),
            eigenvalues=tuple(_rounded(value) for value in spectrum),
            overlap_range=(float(low[index]), float(high[index])),
            overlap_counts=tuple(counts[index] if low[index] < high[index] else [sum(counts[index])]),
            gram_size=small.shape[-1],
            gram=base64.b64encode(bytes(octets[index].tolist())).decode("ascii"),
        )


def _histograms(values: Tensor, defined: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """Counts of the defined values of each row in equal bins between its least and largest, which are inside."""
    width = torch.where(high > low, high - low, 1.0).unsqueeze(-1)
    places = ((values - low.unsqueeze(-1)) / width * bins).floor().clamp(0, bins - 1).nan_to_num().long()
    return torch.zeros(len(values), bins, dtype=torch.long).scatter_add_(1, places, defined.long())


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS - 1}e}")


@dataclass(frozen=True)
class WeightSpectrum:
    """A matrix `(out, in)` and every k-th of its singular values, largest first, rounded."""

    rows: int
    columns: int
    values: tuple[float, ...]

    def __str__(self) -> str:
        ends = f"from {self.values[0]:.3g} to {self.values[-1]:.3g}" if self.values else "none"
        return f"singular values of a {self.rows}×{self.columns} matrix: {ends}"

    __repr__ = __str__


class WeightReferences:
    """Weak references to the weight layers of a model, with their state, so that later changes are noticed."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        wanted = set(names)
        self._unreachable = 0  # layers that are known only to the original of a copy
        self._layers = {
            name: (weakref.ref(module), [weakref.ref(one) for one in owned_parameters(module)], _state(module))
            for name, module in observable_modules(model)
            if name in wanted
        }

    def __getstate__(self) -> dict[str, Any]:
        """Copies, also those in other processes, refer to no model: weak references cannot be copied."""
        return {"_layers": {}, "_unreachable": self._unreachable + len(self._layers)}

    def unchanged(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield layers that still exist with unchanged parameters; writes through `.data` are not noticed."""
        for name, (reference, parameters, state) in self._layers.items():
            module = reference()
            # An id is that of another parameter if the first is gone.
            if module is not None and all(known() is not None for known in parameters) and state == _state(module):
                yield name, module

    def lost(self) -> int:
        """Number of layers that are freed, changed or, in a copy, unreachable."""
        return self._unreachable + len(self._layers) - sum(1 for _ in self.unchanged())


def _state(module: nn.Module) -> list[tuple[int, int, int | None]]:
    """What changes if a parameter of the module is replaced, written to in place, or given other memory."""
    return [(id(one), version(one), address(one)) for one in owned_parameters(module)]


def weight_spectra(weights: WeightReferences) -> Mapping[str, WeightSpectrum]:
    """Compute singular values, by layer name, of small `Linear` layers and convolutions of one group."""
    by_shape: dict[tuple[int, int], dict[str, Tensor]] = {}
    work = 0
    for name, module in weights.unchanged():
        matrix = _matrix(module)
        if matrix is None:
            continue
        work += min(matrix.shape) ** 2 * max(matrix.shape)
        if work > _MOST_WORK:
            break
        by_shape.setdefault((matrix.shape[0], matrix.shape[1]), {})[name] = matrix
    found: dict[str, WeightSpectrum] = {}
    for shape, matrices in by_shape.items():
        stack = torch.stack([matrix.double().cpu() for matrix in matrices.values()])
        short = stack if shape[0] <= shape[1] else stack.mT
        spectra = gram_singular_values(short @ short.mT)[:, evenly_spaced(min(shape), _SINGULAR_VALUES)]
        for name, values in zip(matrices, spectra.tolist(), strict=True):
            found[name] = WeightSpectrum(*shape, tuple(map(_rounded, values)))
    return found


def _matrix(module: nn.Module) -> Tensor | None:
    plain = isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)) and getattr(module, "groups", 1) == 1
    weight = getattr(module, "weight", None) if plain else None
    if not isinstance(weight, Tensor) or is_sharded(weight) or not weight.is_floating_point():
        return None
    matrix = weight_matrix(weight.detach())
    small = matrix.numel() > 0 and min(matrix.shape) <= _LARGEST_SIDE
    return matrix if small and bool(matrix.isfinite().all()) else None
