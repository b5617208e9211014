"""Singular values of the weights, where they are cheap: what a page draws beside the samples of a layer."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from orthoscope.linalg import gram_singular_values, over_cores, weight_matrix
from orthoscope.probe import Recording
from orthoscope.probe.names import observable_modules
from orthoscope.probe.views import spread

_LARGEST = 256  # of the shorter side; the time grows as its cube
_MOST = 1 << 31  # multiply-adds in all: about a second, and weights of later layers are left out
_VALUES = 32
_DIGITS = 4  # significant ones


@dataclass(frozen=True)
class WeightSpectrum:
    """A matrix `(out, in)` and every k-th of its singular values, largest first, rounded."""

    rows: int
    columns: int
    values: tuple[float, ...]


def weight_spectra(model: nn.Module, recording: Recording) -> Mapping[str, WeightSpectrum]:
    """By the name of the layer: those of `Linear` and convolutions of one group that are small and here whole."""
    names = {layer.name for layer in recording.layers if layer.depth is not None}
    by_shape: dict[tuple[int, int], dict[str, Tensor]] = {}
    work = 0
    for name, module in observable_modules(model):
        matrix = _matrix(module) if name in names else None
        if matrix is None or min(matrix.shape) > _LARGEST:
            continue
        work += min(matrix.shape) ** 2 * max(matrix.shape)
        if work > _MOST:
            break
        by_shape.setdefault((matrix.shape[0], matrix.shape[1]), {})[name] = matrix
    found: dict[str, WeightSpectrum] = {}
    for shape, matrices in by_shape.items():
        spectra = over_cores(_singular_values, torch.stack(list(matrices.values())))
        for name, values in zip(matrices, spectra.tolist(), strict=True):
            kept = values[spread(len(values), _VALUES)]
            found[name] = WeightSpectrum(*shape, tuple(float(f"{value:.{_DIGITS - 1}e}") for value in kept))
    return found


def _matrix(module: nn.Module) -> Tensor | None:
    plain = isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)) and getattr(module, "groups", 1) == 1
    weight = getattr(module, "weight", None) if plain else None
    if not isinstance(weight, Tensor) or hasattr(weight, "full_tensor") or not weight.is_floating_point():
        return None
    matrix = weight_matrix(weight.detach()).double().cpu()
    return matrix if matrix.numel() and bool(matrix.isfinite().all()) else None


def _singular_values(stack: Tensor) -> Tensor:
    short = stack if stack.shape[-2] <= stack.shape[-1] else stack.mT
    return gram_singular_values(short @ short.mT)
